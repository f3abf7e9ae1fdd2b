"""No decision depends on the wording of a message: with every sentence replaced, campaigns that
fail, stop or resume end in the same way.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import pkgutil
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import api
import tuner
from tests.unit.campaign.campaigns import Campaign, failing, faster, sends, spec
from tuner.errors import TunerError
from tuner.spec.campaign import CampaignSpec
from tuner.stop_signals import stop_signals
from tuner.store import Store

#: Fields that contain sentences for people.
SENTENCES = ("message", "reason", "about", "stopped")
ROOT = Path(tuner.__file__).parents[1]


def reworded(text: str) -> str:
    """Return a different text for each text, and an empty one for an empty one."""
    return "".join(chr(97 + b % 26) for b in hashlib.sha256(text.encode()).digest()) if text else ""


def records() -> list[type[Any]]:
    """Return every dataclass of the program that has a sentence among its fields."""
    modules = [
        import_module(info.name)
        for package in (tuner, api)
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        if not any(part in info.name for part in (".__main__", ".scripts", ".migrations"))
    ]
    classes: dict[str, type[Any]] = {}
    for module in modules:
        for each in vars(module).values():
            if isinstance(each, type) and dataclasses.is_dataclass(each):
                names = {field.name for field in dataclasses.fields(each)}
                if names & set(SENTENCES) and each.__module__ == module.__name__:
                    classes[f"{each.__module__}.{each.__qualname__}"] = each
    return [classes[name] for name in sorted(classes)]


def with_other_words(cls: type[Any]) -> Callable[..., None]:
    """Return the class's ``__init__`` with each sentence replaced."""
    plain = cls.__init__
    names = [field.name for field in dataclasses.fields(cls) if field.init]

    def init(self: object, *arguments: object, **keywords: object) -> None:
        values = dict(zip(names, arguments, strict=False)) | keywords
        for name in SENTENCES:
            if isinstance(text := values.get(name), str):
                values[name] = reworded(text)
        plain(self, **values)

    return init


@contextmanager
def other_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        for cls in records():
            patch.setattr(cls, "__init__", with_other_words(cls))
        plain = TunerError.__init__

        def init(self: TunerError, message: str = "", *more: Any, **options: Any) -> None:
            plain(self, reworded(message), *more, **options)

        patch.setattr(TunerError, "__init__", init)
        yield


def outcome(directory: Path, of: CampaignSpec, stop_at: int | None) -> Mapping[str, object]:
    """Run a campaign and return all its decisions, without any sentence."""
    with Store.open(directory) as store:
        campaign = Campaign(store, of, directory / "state")
        states = []
        with stop_signals():
            if stop_at is not None:
                states.append(campaign.run(sends(stop_at, signal.SIGINT)).campaign.state)
            result = campaign.run()
        answer = result.campaign.recommendation
        return {
            "states": [*states, result.campaign.state],
            "error": type(result.error),
            "exit": getattr(result.error, "exit_code", 0),
            "answer": None if answer is None else (answer.answer, answer.trial),
            "trials": [(t.state, t.configuration) for t in campaign.trials],
            "blocks": [(b.kind, b.state, b.order) for b in campaign.blocks],
            "kinds": [
                (e.kind, {name: e.data.get(name) for name in ("trial", "block", "failure")})
                for e in store.events(campaign.id)
            ],
        }


FAILS: dict[str, Any] = {"search": {"arms": 2, "blocks_per_trial": 5, "max_trials": 4}}
CASES: dict[str, tuple[CampaignSpec, int | None]] = {
    "finds": (spec(faster()), None),
    "stopped and resumed": (spec(faster()), 20),
    "a trial does not start": (spec(faster(-0.3, 100), failing("start", 200), **FAILS), None),
    "the workload fails": (spec(faster(-0.3, 100), failing("workload", 200), **FAILS), None),
    "the pilot refuses": (
        spec(faster(), noise=0.5, pilot={"blocks": 3}, statistics={"delta": "1%"}),
        None,
    ),
    "nothing there": (spec(), None),
}


@pytest.mark.parametrize("case", CASES)
def test_other_words_change_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    of, stop_at = CASES[case]
    plain = outcome(tmp_path / "plain", of, stop_at)
    with other_words(monkeypatch):
        other = outcome(tmp_path / "other", of, stop_at)
    assert other == plain


def test_the_words_are_really_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The patched records do reach what is stored."""
    of, _ = CASES["a trial does not start"]
    with other_words(monkeypatch), Store.open(tmp_path) as store:
        campaign = Campaign(store, of, tmp_path / "state")
        campaign.run()
        texts = [e.message for e in store.events(campaign.id)]
        texts += [t.reason for t in campaign.trials if t.reason]
    assert texts
    assert all(text.isalpha() and len(text) == 32 for text in texts)


#: Messages of others, which have no error code: paramiko's errors, and sudo's refusal.
FOREIGN = {
    ("tuner/hosts/log_in.py", "No authentication methods available"),
    ("tuner/hosts/log_in.py", "transport shut down"),
    ("tuner/hosts/ssh.py", "sudo:"),
}


def test_no_code_inspects_a_sentence() -> None:
    """No ``"text" in str(problem)`` or ``reason.startswith("text")``, except for foreign text."""
    lookups = set()
    for file in sorted(p for top in ("tuner", "api", "deploy") for p in (ROOT / top).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if (text := looked_for(node)) is not None:
                lookups.add((str(file.relative_to(ROOT)), text))
    assert lookups <= FOREIGN


def looked_for(node: ast.AST) -> str | None:
    """Return the text that a node looks for in a sentence, None if it does not."""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn | ast.Eq):
        text, place = node.left, node.comparators[0]
    elif (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("startswith", "endswith", "find", "count", "index")
        and node.args
    ):
        text, place = node.args[0], node.func.value
    else:
        return None
    if not (isinstance(text, ast.Constant) and isinstance(text.value, str) and is_sentence(place)):
        return None
    return text.value


def is_sentence(node: ast.AST) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr in SENTENCES
    if isinstance(node, ast.Name):
        return node.id in (*SENTENCES, "why")
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "str"
        and bool(node.args)
        and isinstance(node.args[0], ast.Name)
        and node.args[0].id in ("problem", "error", "exc", "e")
    )
