"""The effects of parameters as computed and drawn for pages and reports."""

from __future__ import annotations

import json
import math
import threading
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from tuner.page import effects_cache
from tuner.page.document import ReportDocument
from tuner.page.effect_plots import basis, effect_plot, reach, standings
from tuner.page.effects_cache import EffectsCache, Latest
from tuner.page.html import report_html
from tuner.page.markdown import report_markdown
from tuner.page.snapshot import Snapshot, SnapshotCache
from tuner.records.estimate import Estimate
from tuner.records.parameter_effects import (
    EffectState,
    Level,
    PairEffect,
    ParameterEffect,
    ParameterEffects,
)
from tuner.report.parameter_effects import (
    effects_document,
    level_text,
    pair_text,
    parameter_of,
    parameter_text,
)
from tuner.results.parameter_effects import parameter_effects
from tuner.store import Store


@pytest.fixture(scope="module")
def snapshot(store: Store) -> Snapshot:
    return SnapshotCache(store).of(store.campaign("last").id)


def effect(
    *levels: tuple[object, float, float, float], standing: EffectState = EffectState.CLEAR
) -> ParameterEffect:
    return ParameterEffect(
        "fileserver.<b>",
        None,
        standing,
        0.014,
        tuple(
            Level(value, Estimate(*of), 3, n / 4.0 if isinstance(value, int) else None)  # type: ignore[arg-type]
            for n, (value, *of) in enumerate(levels)
        ),
    )


SLOWER = effect((64, 1.052, 1.031, 1.074), (None, 1.0, 1.0, 1.0))


def test_effects_are_described_in_plain_words() -> None:
    assert (
        parameter_text(SLOWER)
        == "64 is 5.2% slower than not set (95% interval 3.1% to 7.4% slower)"
    )
    assert level_text(SLOWER.levels[0]).startswith("64: 5.2% slower (95% interval 3.1% to 7.4%")
    same = Level(None, Estimate(1.0, 1.0, 1.0), 22, None)
    assert level_text(same) == "not set: the baseline's value, in 22 runs"
    assert parameter_text(replace(SLOWER, standing=EffectState.INERT)) == (
        "inert: no value tried changes the score by more than 1.4%"
    )
    still_open = replace(SLOWER, standing=EffectState.OPEN)
    assert parameter_text(still_open) == "no effect found; one of up to 1.4% is possible"
    assert (
        parameter_text(replace(still_open, resolution=math.inf)) == "too little was tried to tell"
    )
    pair = PairEffect(("a.x", "b.y"), (True, 14), Estimate(0.9, 0.85, 0.95), 20)
    assert pair_text(pair) == (
        "a.x = on with b.y = 14 is 11.1% faster than their separate effects together "
        "(95% interval 5.3% to 17.6% faster)"
    )


@pytest.mark.slow
def test_a_document_contains_all_effects(snapshot: Snapshot) -> None:
    effects = EffectsCache(files=False).of(snapshot)
    document = effects_document(effects)
    for one, was in zip(document.parameters, effects.parameters, strict=True):
        again = parameter_of(one)
        assert again.resolution == pytest.approx(was.resolution)
        assert replace(again, resolution=was.resolution) == was
    assert json.loads(document.model_dump_json())["parameters"][0]["standing"] == "clear"
    assert basis(document) == f"From {effects.arms} runs in {effects.blocks} blocks."
    assert standings(document) == "1 parameter: 1 clear"


def test_a_plot_has_a_band_for_numbers_and_a_whisker_for_what_has_no_order() -> None:
    drawing = str(
        effect_plot(
            effect(
                (4, 0.9, 0.85, 0.95), (8, 0.8, 0.7, 0.9), ("word", 1.1, 1.05, 1.2), (None, 1, 1, 1)
            ),
            0.3,
        )
    )
    assert drawing.count("<polygon") == drawing.count("<polyline") == 1
    assert drawing.count("<circle") == 4
    assert drawing.count('class="whisker') == 2
    assert ">not set</text>" in drawing
    assert "<b>" not in drawing
    one = str(effect_plot(effect(("word", 1.1, 1.05, 1.2)), reach([SLOWER])))
    assert "<polygon" not in one


def test_all_forms_of_a_report_describe_parameters(document: ReportDocument) -> None:
    (one,) = document.effects.parameters
    assert one.text in report_markdown(document)
    page = report_html(document)
    assert one.text in page
    assert 'svg class="effect"' in page
    assert document.effects.worth in page


def test_effects_are_computed_once_for_all_readers(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects = EffectsCache(files=False)
    first = effects.of(snapshot)
    monkeypatch.setattr(effects_cache, "parameter_effects", None)
    # One more block among many makes no visible difference.
    assert effects.of(replace(snapshot, scored=(*snapshot.scored, snapshot.scored[-1]))) is first
    monkeypatch.undo()
    assert effects.of(replace(snapshot, scored=2 * snapshot.scored)).blocks == 2 * first.blocks


def drain(effects: EffectsCache) -> None:
    """Wait for the background computations, which are run one after the other."""
    effects._pool.submit(lambda: None).result(60.0)


def test_older_effects_are_shown_while_newer_ones_are_computed(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    effects, ready = EffectsCache(files=False), threading.Event()
    first, later = effects.of(snapshot), replace(snapshot, scored=2 * snapshot.scored)
    assert effects.soon(snapshot) == Latest(first, pending=False)

    def slow(*arguments: Any) -> ParameterEffects:
        assert ready.wait(60.0)
        return parameter_effects(*arguments)

    monkeypatch.setattr(effects_cache, "parameter_effects", slow)
    assert effects.soon(later) == Latest(first, pending=True)
    ready.set()
    drain(effects)
    newest = effects.soon(later)
    assert newest.effects is not None
    assert (newest.effects.blocks, newest.pending) == (2 * first.blocks, False)


def test_a_result_that_was_computed_from_fewer_blocks_stays_pending(snapshot: Snapshot) -> None:
    first = EffectsCache(files=False).of(snapshot)

    class Pending(Future[ParameterEffects]):
        """Not done yet, but in a moment."""

        def result(self, timeout: float | None = None) -> ParameterEffects:
            return first

    effects = EffectsCache(files=False)
    effects._pending[snapshot.campaign.id] = Pending()
    assert effects.soon(snapshot) == Latest(first, pending=False)
    assert effects.soon(replace(snapshot, scored=2 * snapshot.scored)) == Latest(
        first, pending=True
    )


def test_a_failure_is_reported_and_not_retried(
    snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    effects, tries = EffectsCache(files=False), []

    def fails(*_: object) -> None:
        tries.append(1)
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr(effects_cache, "parameter_effects", fails)
    for _ in range(3):
        effects.soon(snapshot)
        drain(effects)
    latest = effects.soon(snapshot)
    assert latest.effects is not None
    assert latest.effects.reason == "a bug in fstune: ZeroDivisionError('of nothing')"
    assert not latest.pending
    assert len(tries) == 1
    assert f"{snapshot.campaign.id}: its effects could not be computed" in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_effects_that_cannot_be_computed_have_a_reason(snapshot: Snapshot) -> None:
    none = EffectsCache(files=False).of(replace(snapshot, rules=None))
    assert (none.parameters, none.reason) == ((), "the workload is missing or has changed")
    spec = snapshot.campaign.spec.replace(
        "openafs-cache-manager-fuse-1.8", "/nonexistent/space.yaml"
    )
    other = replace(snapshot, campaign=replace(snapshot.campaign, spec=spec))
    assert "files, which are not opened here" in EffectsCache(files=False).of(other).reason
    assert "cannot be read" in EffectsCache(files=True).of(other).reason
