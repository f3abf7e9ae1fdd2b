"""A shell parses quoted words back into the original ones."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuner.hosts.exchange import BOOTSTRAP
from tuner.hosts.quoting import quote

HOSTILE = [
    "",
    " ",
    "a b",
    "it's",
    '"',
    "'\"'\"'",
    "$(reboot)",
    "`id`",
    "$HOME",
    "a\nb",
    "\n",
    "-rf",
    "--",
    "~",
    "*",
    "a;b|c&d>e<f",
    "\\",
    "!!",
    "#",
    "{a,b}",
    "\t",
    "é",
]


def read_back(words: list[str]) -> list[str]:
    """Let a shell parse the quoted words."""
    done = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {quote(words)}"], capture_output=True, check=True
    )
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def test_hostile_words_come_through_unchanged() -> None:
    assert read_back(HOSTILE) == HOSTILE


@pytest.mark.slow
@settings(max_examples=60)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12),
        min_size=1,
        max_size=6,
    )
)
def test_any_words_come_through_unchanged(words: list[str]) -> None:
    assert read_back(words) == words


@pytest.mark.parametrize("argv", [[], ["a", "b\0c"], ["\0"]])
def test_arguments_that_cannot_be_passed_are_refused(argv: list[str]) -> None:
    with pytest.raises(ValueError, match=r"null character|without a program"):
        quote(argv)


def test_the_bootstrap_also_works_with_login_shells_other_than_posix_ones() -> None:
    text = quote(BOOTSTRAP)
    assert text.isascii()
    assert not set(text) & set('\n!"$`\\')
