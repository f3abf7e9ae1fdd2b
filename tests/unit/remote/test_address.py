"""Which server addresses are accepted, and where a token comes from and may be sent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuner.errors import SpecError
from tuner.remote.address import address_of
from tuner.settings import ClientSettings


def settings(**fields: object) -> ClientSettings:
    return ClientSettings.model_validate(fields)


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ("tuning.example.org", "not an address"),
        ("ftp://tuning.example.org", "not an address"),
        ("https://", "not an address"),
        ("https://tuning.example.org/?token=x", "not an address"),
        ("https://tuning.example.org/#x", "not an address"),
        ("https://tuning.example.org:port", "not an address"),
        ("https://[::1", "not an address"),
        ("https://tuning.example.org/\r\nX: y", "not an address"),
        ("https://me:secret@tuning.example.org", "must not contain a password"),
    ],
)
def test_an_invalid_address_is_refused(server: str, message: str) -> None:
    with pytest.raises(SpecError, match=message) as refused:
        address_of(server, settings())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("server", ["http://10.0.0.1", "http://tuning.example.org:8710"])
def test_a_token_is_never_sent_in_the_clear(server: str) -> None:
    with pytest.raises(SpecError, match="unencrypted") as refused:
        address_of(server, settings(token="s3cret"))
    assert "s3cret" not in str(refused.value)
    assert address_of(server, settings()).token == ""


@pytest.mark.parametrize(
    "server", ["http://127.0.0.1:8710/", "http://[::1]:8710", "http://localhost:8710"]
)
def test_the_loopback_needs_no_tls(server: str) -> None:
    address = address_of(server, settings(token="s3cret"))
    assert (address.token, address.loopback) == ("s3cret", True)
    assert not address.url.endswith("/")
    assert "s3cret" not in repr(address)


def test_only_its_owner_may_read_a_token_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with_file = settings(token_file=file)
    with pytest.raises(SpecError, match="cannot be read: No such file"):
        address_of("https://tuning.example.org", with_file)
    file.write_text("s3cret\n")
    file.chmod(0o640)
    with pytest.raises(SpecError, match="other users can read the token; run chmod 600 on it"):
        address_of("https://tuning.example.org", with_file)
    file.chmod(0o600)
    assert address_of("https://tuning.example.org", with_file).token == "s3cret"
    file.write_text("two words")
    with pytest.raises(SpecError, match="not a token") as refused:
        address_of("https://tuning.example.org", with_file)
    assert "two" not in str(refused.value)
    with pytest.raises(SpecError, match="not a file with a token"):
        address_of("https://tuning.example.org", settings(token_file="/dev/null"))
