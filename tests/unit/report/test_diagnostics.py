"""Diagnostics of arms as rows for people."""

from __future__ import annotations

from tests.unit.report.samples import AT, BASELINE, campaign, printed
from tests.unit.store.records import DISTURBED
from tuner.model import Block, BlockKind, Measurement
from tuner.records.numbers import Numbers
from tuner.report.diagnostics import diagnostics_rows
from tuner.report.tables import campaign_page
from tuner.states import BlockState

Counts = dict[str, float | str]


def block(number: int, *arms: tuple[int, Counts], state: BlockState = BlockState.COMPLETE) -> Block:
    measurements = tuple(
        Measurement(trial, place, AT, BASELINE, BASELINE, (), 1.0, 2.0, {}, diagnostics=numbers)
        for place, (trial, numbers) in enumerate(arms)
    )
    order = tuple(trial for trial, _ in arms)
    return Block(number, BlockKind.SEARCH, 1, order, state, measurements)


def rows(*blocks: Block, trials: tuple[int, ...] = (0,)) -> dict[str, tuple[str, ...]]:
    return {row.what: row.texts for row in diagnostics_rows(blocks, trials)}


def test_the_median_of_a_trials_arms_in_complete_blocks() -> None:
    arms: list[Counts] = [{"host.steal_s": s} for s in (0.1, 0.2, 9.0)]
    blocks = [block(n, (0, numbers)) for n, numbers in enumerate(arms, 1)]
    void = block(4, (0, {"host.steal_s": 99.0}), state=BlockState.VOID)
    assert rows(*blocks, void) == {"processor time stolen": ("0.20 s",)}


def test_clients_are_added_up_and_programs_are_listed_separately() -> None:
    numbers: Counts = {
        "client1.cm.fetched_bytes": 20e6,
        "client2.cm.fetched_bytes": 22.5e6,
        "server.fs.fetched_bytes": 42.5e6,
        "client1.context_switches": 60123.0,
        "client1.peak_memory_bytes": 20e6,
        "server.cpu_s": 0.5,
        "server.peak_memory_bytes": 10e6,
        "engine_cpu_s": 7.0,
    }
    assert rows(block(1, (0, numbers))) == {
        "fetched from the server": ("42.5 MB",),
        "processor time, server": ("0.50 s",),
        "context switches, client1": ("60 123",),
        "peak memory, client1": ("20.0 MB",),
        "peak memory, server": ("10.0 MB",),
    }


def test_load_of_others_is_reported_in_processors() -> None:
    busier: Counts = {**DISTURBED, "host.busy_s": 14.0}
    blocks = [block(1, (0, dict(DISTURBED)), (3, busier)), block(2, (0, {}), (3, busier))]
    texts = rows(*blocks, trials=(0, 3))
    assert texts["processors used by others, server"] == ("0.50", "0.90")
    assert "processors used by others, clients" not in texts


def test_proofs_are_counted_by_run() -> None:
    good: Counts = {"cold.read.a": "proven", "cold.read.b": "proven", "stored": "proven"}
    bad: Counts = {"cold.read.a": "proven", "cold.read.b": "unknown", "stored": "refuted"}
    blocks = [block(1, (0, good), (3, bad)), block(2, (0, bad), (3, bad)), block(3, (0, good))]
    assert rows(*blocks, trials=(0, 3)) == {
        "cold reads were cold": ("proven in 2 of 3 runs", "not proven in 2 runs"),
        "written data was stored": ("proven in 2 of 3 runs", "not proven in 2 runs"),
    }


def test_without_diagnostics_there_are_no_rows() -> None:
    assert rows() == {}
    assert rows(block(1, (0, {"engine_cpu_s": 1.0}))) == {}


def test_the_page_of_a_campaign_compares_the_answer_with_the_baseline() -> None:
    arms: list[tuple[int, Counts]] = [
        (0, {"client1.rx.resends": 9.0}),
        (4, {"client1.rx.resends": 1234.0}),
    ]
    page = printed(campaign_page(campaign(), (), (block(1, *arms),), (), Numbers()))
    assert "Diagnostics (median)" in page
    assert "What baseline trial 4" in page
    assert "packets sent again 9 1 234" in page
