"""Errors restored from what was stored or sent of them."""

from __future__ import annotations

import pytest

from tuner.errors import NotFoundError, TokenError, TunerError, WorkloadError, of_kind
from tuner.hosts.connector import CommandFailed, CommandResult
from tuner.measure.driver import NotStarted


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("there is no campaign 7"),
        TokenError("no token for bench"),
        CommandFailed("fs1", CommandResult(("bos", "restart"), 1, "", "no quorum")),
        TunerError("a bug"),
    ],
)
def test_an_error_is_restored_with_its_kind_and_message(error: TunerError) -> None:
    again = of_kind(error.slug, str(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_a_special_case_is_restored_as_its_kind() -> None:
    assert NotStarted.slug == WorkloadError.slug
    assert type(of_kind(NotStarted.slug, "it does not start")) is WorkloadError


def test_an_unknown_kind_is_not_guessed() -> None:
    assert of_kind("", "") is None
    assert of_kind("of-the-next-version", "") is None
