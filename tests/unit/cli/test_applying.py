"""The apply, verify and rollback commands on a simulated testbed."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from tests.recommending import recommending
from tests.unit.apply.conftest import CANDIDATE, ORIGINAL, Desk
from tests.unit.apply.test_outside import change_elsewhere
from tests.unit.campaign.campaigns import THREADS, failing, faster, spec
from tests.unit.cli.conftest import Fstune
from tuner.applications import Application
from tuner.cli.apply import apply, rollback
from tuner.errors import ConfigurationError
from tuner.model import Answer
from tuner.states import ApplicationState
from tuner.store import NewEvent, Store
from tuner.store.applications import Applications

pytestmark = pytest.mark.slow


def store_campaign(
    state: Path, *effects: dict[str, object], answer: Answer = Answer.RECOMMENDED
) -> str:
    with Store.open(state) as store:
        specification = spec(*effects, found=ORIGINAL)
        return recommending(store, specification, ORIGINAL, CANDIDATE, answer).id


def newest(state: Path) -> Application:
    with Store.open(state) as store:
        return Applications(store).all()[0]


def test_apply_verify_and_roll_back(state: Path, fstune: Fstune) -> None:
    campaign = store_campaign(state, faster(-0.2))
    applied = fstune("apply", campaign, "--yes", "--step")
    assert applied.returncode == 0, applied.stderr
    assert "  ~ fileserver.threads: 64 -> 200\n" in applied.stdout
    assert "  + fileserver.dir_buffers: not set -> 300\n" in applied.stdout
    assert "step 2 of 2: fileserver.threads" in applied.stderr
    application = newest(state)
    assert f"to undo it: fstune rollback {application.id}" in applied.stdout
    assert "To carry it out later" not in applied.stdout

    again = fstune("apply", campaign)
    assert again.returncode == 0
    assert "Nothing to change" in again.stdout

    verified = fstune("verify", "--blocks", "4")
    assert verified.returncode == 0, verified.stderr
    assert "The certificate holds." in verified.stdout

    back = fstune("rollback", "--yes")
    assert back.returncode == 0, back.stderr
    listed = fstune("applications").stdout
    assert f"{application.id}  rolled_back" in listed
    assert "dir_buffers=300 threads=200 (before: dir_buffers=not set threads=64)" in listed
    nothing = fstune("rollback", "--yes")
    assert nothing.returncode == 2
    assert "nothing is in force" in nothing.stderr


def test_a_campaign_is_verified_where_and_against_what_it_was_applied(
    state: Path, fstune: Fstune
) -> None:
    other = {THREADS: 80, "cache_manager.daemons": 4}
    with Store.open(state) as store:
        specification = spec(faster(-0.2), found=other)
        campaign = recommending(store, specification, ORIGINAL, CANDIDATE).id
    applied = fstune("apply", campaign, "--yes")
    assert applied.returncode == 0, applied.stderr
    verified = fstune("verify", campaign, "--blocks", "3")
    assert verified.returncode == 3
    assert "The certificate cannot be judged.\nRecommended against" in verified.stdout
    names = "cache_manager.daemons, fileserver.threads differ."
    assert f"not those it was certified against: {names}\n" in verified.stdout
    assert f"{campaign}: cannot be judged" in fstune("list").stdout
    with Store.open(state) as store:
        (verification,) = [one for one in store.campaigns() if one.id != campaign]
        assert verification.baseline is not None
        # The configuration before the application, not the campaign's baseline.
        assert verification.baseline.as_dict() == other
        assert verification.recommendation is not None
        assert verification.recommendation.notes[-1].endswith(names)
    refused = fstune("verify", newest(state).id, "--testbed", "x.yaml")
    assert refused.returncode == 2
    assert "an application is verified where it was applied" in refused.stderr


def test_nothing_is_asked_without_a_terminal(state: Path, fstune: Fstune) -> None:
    refused = fstune("apply", store_campaign(state))
    assert refused.returncode == 4
    assert "read the plan, then give --yes" in refused.stderr
    planned = newest(state)
    assert f"To carry it out later: fstune apply {planned.id}\n" in refused.stdout
    assert planned.state is ApplicationState.PLANNED
    done = fstune("apply", planned.id, "--yes")
    assert done.returncode == 0, done.stderr
    assert newest(state).state is ApplicationState.APPLIED
    once_more = fstune("apply", planned.id, "--yes")
    assert once_more.returncode == 4


def test_a_client_to_leave_out_must_be_one_of_the_application(state: Path, fstune: Fstune) -> None:
    fstune("apply", store_campaign(state), "--yes")
    refused = fstune("rollback", "--without", "c9", "--yes")
    assert refused.returncode == 2
    assert "--without: c9: a2" in refused.stderr
    assert newest(state).state is ApplicationState.APPLIED
    server = ("--server", "https://tuning.example.org")
    refused = fstune("rollback", "--without", "c9", *server)
    assert refused.returncode == 2
    assert "--without: not through a server" in refused.stderr


def test_a_rollback_replaces_later_changes_only_if_told(state: Path, fstune: Fstune) -> None:
    campaign = store_campaign(state)
    fstune("apply", campaign, "--yes")
    with Store.open(state) as store:
        desk = Desk(store, state)
        now = change_elsewhere(desk, store.campaign(campaign), 99)
    server = ("--server", "https://tuning.example.org")
    refused = fstune("rollback", "--replace", *server)
    assert refused.returncode == 2
    assert "--replace: not through a server" in refused.stderr
    # Before the question, which cannot be asked here, and without one.
    for options in ((), ("--yes",)):
        refused = fstune("rollback", *options)
        assert refused.returncode == 4
        assert f"fstune rollback {newest(state).id} --replace; changed: " in refused.stderr
        assert "threads is 99, where 200 was applied" in refused.stderr
    with Store.open(state) as store:
        assert Desk(store, state).in_force(store.campaign(campaign)) == now
    unanswered = fstune("rollback", "--replace")
    assert unanswered.returncode == 4
    assert "\n  changed since, and replaced by what was before: " in unanswered.stdout
    assert "standard input is not a terminal" in unanswered.stderr
    back = fstune("rollback", "--replace", "--yes")
    assert back.returncode == 0, back.stderr
    assert newest(state).state is ApplicationState.ROLLED_BACK
    with Store.open(state) as store:
        assert Desk(store, state).in_force(store.campaign(campaign)) == ORIGINAL


def test_a_rollback_shows_whom_it_leaves_out(
    state: Path, clients: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    apply(store_campaign(state), yes=True, state_dir=state)
    clients.remove("c2")
    rollback(newest(state).id, yes=True, without=["c2"], state_dir=state)
    output = capsys.readouterr().out
    assert "\n  this time: client c2 left out, so not restored\n" in output
    end = (
        "is rolled back: the previous settings are in effect (client c2 left out, so not restored)"
    )
    assert output.endswith(f" {end}\n")


def test_showing_a_saved_plan_changes_nothing(state: Path, fstune: Fstune) -> None:
    fstune("apply", store_campaign(state), "--plan")
    planned = newest(state)
    result = fstune("apply", planned.id, "--plan", "--yes")
    assert result.returncode == 0, result.stderr
    assert f"{planned.id}  planned" in result.stdout
    assert "threads=200" in result.stdout
    assert newest(state) == planned
    event = NewEvent(planned.planned, "told", "a test interrupts it")
    with Store.open(state) as store:
        Applications(store).move(planned.id, ApplicationState.APPLYING, "", "a test", event)
    result = fstune("apply", planned.id, "--plan")
    assert result.returncode == 0, result.stderr
    assert newest(state).state is ApplicationState.APPLYING


@pytest.mark.parametrize("options", [("--step",), ("--testbed", "x.yaml")])
def test_a_saved_plan_is_carried_out_as_it_is(
    state: Path, fstune: Fstune, options: tuple[str, ...]
) -> None:
    fstune("apply", store_campaign(state), "--plan")
    planned = newest(state)
    refused = fstune("apply", planned.id, "--yes", *options)
    assert refused.returncode == 2
    assert "a saved plan is carried out as it is" in refused.stderr
    assert newest(state) == planned


def test_what_does_not_start_ends_with_its_status(state: Path, fstune: Fstune) -> None:
    failed = fstune("apply", store_campaign(state, failing("start")), "--yes")
    assert failed.returncode == 7
    assert "does not start" in failed.stderr
    assert newest(state).state is ApplicationState.FAILED


def test_nothing_recommended_is_nothing_to_apply(state: Path, fstune: Fstune) -> None:
    refused = fstune("apply", store_campaign(state, answer=Answer.NO_IMPROVEMENT), "--yes")
    assert refused.returncode == 2
    assert "there is nothing to apply" in refused.stderr


def test_a_certificate_that_does_not_hold_has_a_status(state: Path, fstune: Fstune) -> None:
    verified = fstune("verify", store_campaign(state, faster(+0.2)), "--blocks", "4")
    assert verified.returncode == 3
    assert "The certificate no longer holds." in verified.stdout


def test_an_application_ends_although_nobody_can_read_about_it(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed terminal, or the end of a pipe."""

    def closed(message: str, *, err: bool = False) -> None:
        if err:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    campaign = store_campaign(state, failing("start"))
    monkeypatch.setattr("tuner.cli.apply.say", closed)
    with pytest.raises(ConfigurationError):
        apply(campaign, yes=True, state_dir=state)
    assert newest(state).state is ApplicationState.FAILED
