"""Tokens from a keytab: obtained after each start, renewed in time, and destroyed."""

from __future__ import annotations

import pytest

from tests.unit.services.openafs.kernel_client import Machine
from tuner.errors import TestbedError, TokenError, evidence
from tuner.hosts.local import LocalConnector
from tuner.services.openafs import parse, tokens
from tuner.services.openafs.tokens import TokenPlace, why_no_ticket

KLIST = """\
Ticket cache: FILE:/var/lib/fstune-restore/restore/token/ticket
Default principal: bench@EXAMPLE.ORG

Valid starting     Expires            Service principal
{starts}  {ends}  krbtgt/EXAMPLE.ORG@EXAMPLE.ORG
	renew until 11/29/26 12:46:23
{service}  afs/example.org@EXAMPLE.ORG
"""
TOKENS = """
Tokens held by the Cache Manager:

User's (AFS ID 1) rxkad tokens for afs@example.org [{0}]
   --End of list--
"""


def token_calls(machine: Machine) -> list[str]:
    return [call.split()[0] for call in machine.calls() if call.split()[0] in ("kinit", "aklog")]


@pytest.mark.slow
def test_a_token_follows_every_start_and_goes_with_the_campaign(machine: Machine) -> None:
    client = machine.client(token=True, lifetime_s=600.0)
    client.start(["-chunksize", "20"])
    assert machine.calls() == [
        "stop",
        "start",
        "setcrypt on",
        "kinit -k -t /etc/keytab -l 600s bench",
        "aklog -force -k EXAMPLE.ORG",
    ]
    journal = machine.here / "restore" / "token"
    assert (journal / "ticket").stat().st_mode & 0o077 == 0
    client.start(["-chunksize", "19"])
    assert token_calls(machine) == ["kinit", "aklog"] * 2
    message = client.restore()
    assert message.endswith("-chunksize 18 -afsdb; ticket and token of bench destroyed")
    assert machine.calls()[-2:] == ["kdestroy", "unlog -cell example.org"]
    assert not (machine.here / "token").exists()
    assert not journal.exists()


def test_nothing_is_made_or_destroyed_without_a_keytab(machine: Machine) -> None:
    machine.set("token")
    client = machine.client()
    client.refresh()
    client.restore()
    assert machine.calls() == []
    assert (machine.here / "token").exists()


@pytest.mark.slow
def test_a_ticket_is_renewed_after_half_of_its_life(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in's klist always shows a lifetime of ten minutes."""
    now = 1000.0
    monkeypatch.setattr(tokens, "_now", lambda: now)
    client = machine.client(token=True, lifetime_s=36000.0)
    client.start([])
    now += 299.0
    client.refresh()
    assert token_calls(machine) == ["kinit", "aklog"]
    now += 2.0
    client.refresh()
    client.refresh()
    assert token_calls(machine) == ["kinit", "aklog"] * 2


@pytest.mark.slow
def test_a_token_that_is_gone_is_made_anew(machine: Machine) -> None:
    client = machine.client(token=True)
    client.start([])
    (machine.here / "token").unlink()
    client.refresh()
    assert (machine.here / "token").exists()
    assert token_calls(machine) == ["kinit", "aklog"] * 2


@pytest.mark.parametrize(
    ("mark", "why", "status"),
    [
        ("no-kdc", "kinit: kinit: Cannot contact any KDC", 3),
        ("no-token", "tokens: Tokens held by the Cache Manager", 5),
    ],
)
def test_a_missing_token_has_its_own_failure_code(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mark: str, why: str, status: int
) -> None:
    client = machine.client(token=True)
    client.refresh()
    helper = machine.here / "restore" / "token" / "token-make.sh"
    helper.write_text(helper.read_text().replace("again_s=20", "again_s=0"))
    (machine.here / "token").unlink()
    machine.set(mark)
    with pytest.raises(TokenError, match=f"no token for bench: {why}") as failed:
        client.refresh()
    assert evidence(failed.value)["failure"] == "token"
    assert evidence(failed.value)["exit_status"] == status


@pytest.mark.slow
def test_a_network_that_comes_back_is_waited_for(machine: Machine) -> None:
    """The first kinit fails, the second one does not."""
    program = machine.here / "bin" / "kinit"
    program.write_text(program.read_text().replace("exit 1", 'rm "$HERE/no-kdc"; exit 1'))
    machine.set("no-kdc")
    machine.client(token=True).refresh()
    assert token_calls(machine) == ["kinit", "aklog"]


def test_a_token_that_stays_keeps_its_journal(machine: Machine) -> None:
    client = machine.client(token=True)
    client.refresh()
    machine.set("stays")
    with pytest.raises(TestbedError, match="the token cannot be destroyed"):
        client.restore()
    assert (machine.here / "restore" / "token").exists()
    (machine.here / "stays").unlink()
    assert "destroyed" in machine.client(token=True).restore()


def test_tokens_of_other_cells_stay(machine: Machine) -> None:
    machine.set("second-token")
    client = machine.client(token=True)
    client.refresh()
    assert "destroyed" in client.restore()
    assert not (machine.here / "token").exists()
    assert (machine.here / "second-token").exists()
    assert machine.journals() == []


def test_a_token_beside_one_of_another_cell_is_seen_to_stay(machine: Machine) -> None:
    machine.set("second-token")
    client = machine.client(token=True)
    client.refresh()
    machine.set("stays")
    with pytest.raises(TestbedError, match="the token cannot be destroyed"):
        client.restore()
    assert machine.journals() == ["token"]


def test_a_token_of_an_unknown_cell_is_not_obtained(machine: Machine) -> None:
    """It could not be destroyed alone."""
    machine.replace("fs", "echo \"This workstation belongs to cell 'example.org'\"", "exit 1")
    with pytest.raises(TokenError, match="fs wscell does not name its cell"):
        machine.client(token=True).refresh()
    assert token_calls(machine) == []
    assert machine.journals() == []


def test_a_keytab_is_tried_without_leaving_anything(machine: Machine) -> None:
    place = TokenPlace("/etc/keytab", "bench", None, None, None, f"{machine.here}/restore")
    assert why_no_ticket(LocalConnector(), place) == ""
    assert machine.calls() == ["kinit -c MEMORY:fstune -k -t /etc/keytab bench"]
    machine.set("no-kdc")
    assert "Cannot contact any KDC" in why_no_ticket(LocalConnector(), place)
    assert not (machine.here / "restore").exists()


LATE = "11/22/26 12:46:24  11/22/26 22:46:23"
SOON = "11/22/2026 12:46:24  11/22/2026 13:46:24"


@pytest.mark.parametrize(
    ("starts", "ends", "service", "life_s"),
    [
        ("11/22/26 12:46:23", "11/22/26 22:46:23", LATE, 35999.0),
        ("11/22/2026 23:59:00", "11/23/2026 00:09:00", LATE, 600.0),
        ("11/22/26 12:46:23", "11/22/26 22:46:23", SOON, 3600.0),
        ("22. Nov 12:46", "22. Nov 22:46", "22. Nov 12:46  22. Nov 22:46", None),
    ],
)
def test_the_shortest_life_of_a_ticket_counts(
    starts: str, ends: str, service: str, life_s: float | None
) -> None:
    """The lifetime of a token is that of the service ticket from which it was obtained."""
    text = KLIST.format(starts=starts, ends=ends, service=service)
    assert parse.ticket_life_s(text) == life_s


NONE = "\nTokens held by the Cache Manager:\n\n   --End of list--\n"


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        (TOKENS.format("Expires Nov 22 22:46"), True),
        (TOKENS.format("Expires Nov 22 22:46").replace("afs@", ""), True),
        (TOKENS.format("Expires Nov 22 22:46").replace("@", "@other."), False),
        (TOKENS.format("Expires Nov 22 22:46").replace("example.org", "example.org.uk"), False),
        (TOKENS.format(">> Expired <<"), False),
        (NONE, False),
        ("", False),
    ],
)
def test_expired_tokens_and_those_of_other_cells_do_not_count(text: str, valid: bool) -> None:
    assert parse.has_valid_tokens(text, "example.org") is valid


@pytest.mark.slow
def test_another_cell_s_token_is_not_ours(machine: Machine) -> None:
    client = machine.client(token=True)
    client.start([])
    machine.replace("tokens", "example.org", "other.example")
    helper = machine.here / "restore" / "token" / "token-make.sh"
    helper.write_text(helper.read_text().replace("again_s=20", "again_s=0"))
    with pytest.raises(TokenError, match=r"tokens: Tokens held .* for other\.example"):
        client.refresh()
    assert token_calls(machine) == ["kinit", "aklog"] * 2


@pytest.mark.parametrize(
    "answer",
    [
        "exit 1",
        "echo; echo 'Tokens held by the Cache Manager:'; exit 124",
        "echo 'Tokens held by the Cache Manager:'; echo 'tokens: failed to get token info for cell "
        "example.org (code 5)'; echo '   --End of list--'",
    ],
)
def test_only_a_whole_list_without_a_token_shows_that_it_is_gone(
    machine: Machine, answer: str
) -> None:
    client = machine.client(token=True)
    client.refresh()
    (machine.here / "bin" / "tokens").write_text(f"#!/bin/sh\n{answer}\n")
    with pytest.raises(TestbedError, match="the token cannot be destroyed"):
        client.restore()
    assert machine.journals() == ["token"]
    (machine.here / "bin" / "tokens").write_text(f"#!/bin/sh\necho '{NONE}'\n")
    assert "destroyed" in machine.client(token=True).restore()


def test_without_a_cache_manager_there_is_no_token(machine: Machine) -> None:
    client = machine.client(token=True)
    client.refresh()
    (machine.here / "bin" / "tokens").write_text("#!/bin/sh\nexit 1\n")
    (machine.here / "mounted").unlink()
    assert "destroyed" in client.restore()
