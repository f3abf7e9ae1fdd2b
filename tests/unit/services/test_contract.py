"""The contract of kinds of services finds what is wrong with a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.toy.case import CASE
from tests.toy.format import ToydConf
from tests.toy.kind import TOY, Toyd, ToySection, ToyTestbed, ToyType
from tuner.services.contract import KindCase, KindContract, OpenTestbedContract
from tuner.services.kind import Kind


class Indescribable(ToyType):
    def describe(self, section: ToySection) -> str:
        return ""


class Careless(ToyType):
    def permit(self, section: ToySection, *_: object) -> ToySection:
        return section


class Forgetful(ToydConf):
    def read(self, text: str) -> tuple[str, ...]:
        return ()


WRONG_KINDS: tuple[tuple[Kind, Callable[..., None]], ...] = (
    (
        replace(TOY, types=(Indescribable(),)),
        KindContract.test_a_testbed_type_says_where_a_testbed_is,
    ),
    (
        replace(TOY, types=(Careless(),)),
        KindContract.test_nothing_is_allowed_over_http_unless_named,
    ),
    (replace(TOY, parts=("toyd",) * 2), KindContract.test_parts_are_unique_and_in_order),
    (replace(TOY, programs={}), KindContract.test_every_tuned_program_says_how_it_is_applied),
    (replace(TOY, formats=(Forgetful(),)), KindContract.test_formats_can_be_read_back),
)


@pytest.mark.parametrize(
    ("kind", "test"), WRONG_KINDS, ids=lambda value: getattr(value, "name", "")
)
def test_a_wrong_kind_fails(kind: Kind, test: Callable[..., None], tmp_path: Path) -> None:
    check(replace(CASE, kind=kind), KindContract, test, tmp_path)


def agree(part: Toyd, values: dict[str, object]) -> dict[str, object]:
    """Read back whatever is asked for."""
    return values


def leave(part: Toyd) -> str:
    """Restore nothing."""
    return "left"


def ignore(testbed: ToyTestbed, campaign: str) -> list[str]:
    """Restore nothing."""
    return []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "method", "replacement", "test"),
    [
        (
            Toyd,
            "restore",
            leave,
            OpenTestbedContract.test_any_configuration_is_in_effect_and_restored,
        ),
        (
            Toyd,
            "read_back",
            agree,
            OpenTestbedContract.test_settings_that_are_not_in_effect_are_noticed,
        ),
        (Toyd, "read_back", agree, OpenTestbedContract.test_an_outside_change_is_noticed),
        (
            ToyTestbed,
            "recover",
            ignore,
            OpenTestbedContract.test_what_a_run_leaves_behind_is_restored,
        ),
    ],
)
def test_a_wrong_testbed_fails(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    of: type,
    method: str,
    replacement: Callable[..., object],
    test: Callable[..., None],
) -> None:
    monkeypatch.setattr(of, method, replacement)
    check(CASE, OpenTestbedContract, test, tmp_path)


def check(case: KindCase, suite: type, test: Callable[..., None], directory: Path) -> None:
    """Check that a test of the suite fails for a case."""
    instance = type("Suite", (suite,), {"case": case})()
    paths = [directory] if "tmp_path" in test.__annotations__ else []
    with pytest.raises(AssertionError):
        test(instance, *paths)
