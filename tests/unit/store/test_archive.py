"""Exported campaigns: an import restores them exactly, and invalid files are refused."""

from __future__ import annotations

import gzip
import json
import resource
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.unit.store import records
from tests.unit.store.conftest import Place
from tuner.errors import ConflictError, NotFoundError, SpecError, StoreError
from tuner.model import Aspect, Prior
from tuner.states import BlockState, CampaignState
from tuner.store import NewEvent, Store, problems, tables
from tuner.store import archive as archive_module
from tuner.store.archive import FORMAT, export_campaign, import_campaign
from tuner.time_use import TimeUse


def filled(store: Store) -> str:
    """Return a campaign with something in every table."""
    prior = Prior(records.CANDIDATE, -0.1 - 0.2, "earlier:4")
    campaign = store.create_campaign(
        'with "quotes"\nand ümläute', "{}", 2**64 - 1, records.NOON, priors=[prior]
    ).id
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    store.set_measured_with(campaign, {"space": Aspect("ab", {"x": [1, None, 2.5]})})
    store.set_baseline(campaign, records.BASELINE_CONFIGURATION, records.event())
    for number in range(2):
        store.add_trials(campaign, [(records.trial(number), records.event())])
    measurement = records.measurement(1)
    clients = {f"client{n}": measurement.components for n in (1, 2)}
    store.begin_block(campaign, replace(records.block(1), testbed="hall 7"), records.event())
    disturbed = replace(measurement, clients=clients, diagnostics=records.DISTURBED)
    store.add_measurement(campaign, 1, disturbed, records.event())
    store.add_reference(campaign, 1, records.reference(), records.event())
    store.add_measurement(campaign, 1, records.measurement(0, 1), records.event())
    store.end_block(campaign, 1, BlockState.COMPLETE, "", 12.25, records.event(), TimeUse(20.0))
    store.begin_block(campaign, records.block(2), records.event())
    store.save_recommendation(campaign, records.recommendation(), records.event())
    return campaign


def cut_off(block: Any) -> Any:
    """Return a block as an import leaves it: nothing measures it any more."""
    if block.state is not BlockState.RUNNING:
        return block
    reason = "cut off when it was exported"
    # Times of blocks have no reason.
    more = {"reason": reason} if hasattr(block, "reason") else {}
    return replace(block, state=BlockState.VOID, **more)


def everything(store: Store, campaign: str) -> tuple[object, ...]:
    return (
        store.campaign(campaign),
        store.trials(campaign),
        [cut_off(block) for block in store.blocks(campaign)],
        [cut_off(block) for block in store.block_times(campaign, ("copy", "build"))],
        store.events(campaign),
        store.priors(campaign),
        store.measured_with(campaign),
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "campaign.jsonl.gz"


@pytest.fixture(scope="module")
def content(shared: Store, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Return a file of a whole campaign."""
    path = tmp_path_factory.mktemp("exported") / "file"
    export_campaign(shared, filled(shared), path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Return an empty store, shared by tests of which none may leave a trace."""
    with Store.open(tmp_path_factory.mktemp("empty")) as store:
        yield store


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]


def rewritten(file: Path, change: Callable[[list[Any]], object]) -> Path:
    """Return a copy of the file whose lines were changed in place by ``change``."""
    lines = lines_of(file)
    change(lines)
    new = file.with_name("changed.gz")
    new.write_bytes(gzip.compress("".join(json.dumps(line) + "\n" for line in lines).encode()))
    return new


def test_a_campaign_comes_back_equal_in_any_kind_of_database(
    store: Store, place: Place, file: Path, tmp_path: Path
) -> None:
    campaign = filled(store)
    records.new_campaign(store)
    before = everything(store, campaign)
    rows = export_campaign(store, campaign, file)
    with Store.open(tmp_path / "other") as other:
        assert import_campaign(other, file) == campaign
        assert everything(other, campaign) == before
        assert [c.id for c in other.campaigns()] == [campaign]
        assert problems(other) == []
        again = tmp_path / "again.gz"
        assert export_campaign(other, campaign, again) == rows
        before_import, after_import = lines_of(file), lines_of(again)
        row_of(before_import, "block", 2).update(
            state="void", reason="cut off when it was exported", duration_s=0.0
        )
        assert after_import == before_import
        # And the campaign can continue: the next event has the next number.
        assert other.add_event(campaign, records.event()).number == len(before[4]) + 1  # type: ignore[arg-type]
    with place.raw() as connection:
        connection.execute(tables.effect.delete())
        for table in reversed(tables.metadata.sorted_tables):
            connection.execute(table.delete())
        connection.commit()
    assert import_campaign(store, file) == campaign
    assert everything(store, campaign) == before


def test_earlier_formats_are_read(store: Store, file: Path, tmp_path: Path) -> None:
    campaign = filled(store)
    export_campaign(store, campaign, file)

    def fourth(lines: list[Any]) -> None:
        lines[0]["format"] = 4
        for line in lines[1:-1]:
            if line[0] == "recommendation":
                del line[1]["settings"]

    def third(lines: list[Any]) -> None:
        fourth(lines)
        lines[0]["format"] = 3
        for line in lines[1:-1]:
            if line[0] in ("trial", "block"):
                line[1]["race"] = line[1].pop("round")

    def second(lines: list[Any]) -> None:
        third(lines)
        lines[0]["format"] = 2
        lines[:] = [line for line in lines if "covariate" not in line]
        lines[-1]["rows"] = len(lines) - 2

    def first(lines: list[Any]) -> None:
        second(lines)
        lines[0]["format"] = 1
        for line in lines[1:-1]:
            if line[0] == "block":
                del line[1]["batch"], line[1]["slot"]

    measured = [block.covariates for block in store.block_times(campaign, ("copy", "build"))]
    for number, change in enumerate((first, second, third, fourth)):
        with Store.open(tmp_path / str(number)) as other:
            assert import_campaign(other, rewritten(file, change)) == campaign
            assert other.blocks(campaign) == [cut_off(block) for block in store.blocks(campaign)]
            times = other.block_times(campaign, ("copy", "build"))
            expected = measured if change in (third, fourth) else [{}, {}]
            assert [block.covariates for block in times] == expected
            assert other.trials(campaign) == store.trials(campaign)
            answer = other.campaign(campaign).recommendation
            assert answer is not None
            assert answer.settings == {}


def test_every_table_of_a_campaign_is_in_the_file(store: Store, file: Path) -> None:
    export_campaign(store, filled(store), file)
    lines = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    # An application belongs to its testbed, and its record stays there.
    not_exported = {"application", "lease", "posted", "request"}
    keyed = {t.name for t in tables.metadata.sorted_tables if "campaign" in t.c} | {"campaign"}
    assert {line[0] for line in lines[1:-1]} == keyed - not_exported
    assert lines[0]["format"] == FORMAT
    assert lines[-1] == {"rows": len(lines) - 2}


@pytest.mark.slow
def test_a_campaign_that_exists_is_refused(store: Store, file: Path) -> None:
    campaign = filled(store)
    export_campaign(store, campaign, file)
    before = everything(store, campaign)
    with pytest.raises(ConflictError, match=f"campaign {campaign} is already in"):
        import_campaign(store, file)
    assert everything(store, campaign) == before


def test_no_file_is_overwritten_and_none_is_left_half_written(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = filled(store)
    file.write_text("mine")
    with pytest.raises(ConflictError, match="exists; name a new file"):
        export_campaign(store, campaign, file)
    assert file.read_text() == "mine"
    with pytest.raises(StoreError, match="No such file or directory"):
        export_campaign(store, campaign, file.parent / "none" / "file")

    def broken(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(archive_module, "_json_value", broken)
    with pytest.raises(RuntimeError):
        export_campaign(store, campaign, file.with_name("new"))
    assert list(file.parent.glob("*new*")) == []


Change = Callable[[list[Any]], object]


def row_of(lines: list[Any], table: str, number: int | None = None) -> dict[str, Any]:
    row = next(
        line[1]
        for line in lines
        if isinstance(line, list) and line[0] == table and number in (None, line[1].get("number"))
    )
    assert isinstance(row, dict)
    return row


def only_header(lines: list[Any]) -> None:
    lines[1:] = [{"rows": 0}]


def without_campaign(lines: list[Any]) -> None:
    del lines[1]
    lines[-1]["rows"] -= 1


def _with_settings(effects: dict[str, list[float]], lines: list[Any]) -> None:
    row_of(lines, "recommendation").update(settings=effects)


REFUSED: dict[str, tuple[Change, str]] = {
    "newer": (
        lambda lines: lines[0].update(format=FORMAT + 1),
        f"has format {FORMAT + 1}, this fstune reads 1 to {FORMAT}",
    ),
    "of another kind": (lambda lines: lines[0].update(kind="x"), "not an exported campaign"),
    "without a campaign": (lambda lines: lines[0].update(campaign=7), "does not name a campaign"),
    "empty": (lambda lines: lines.clear(), "not an exported campaign"),
    "cut off": (lambda lines: lines.pop(), "the end is missing"),
    "a row short": (lambda lines: lines.pop(-2), "not a row of a campaign"),
    "a row too many": (lambda lines: lines.append(lines[1]), "data after the end"),
    "of an unknown table": (lambda lines: lines.insert(2, ["token", {}]), "line 3: not a row"),
    "of other columns": (
        lambda lines: row_of(lines, "trial").update(colour="red"),
        "the columns are not those of trial",
    ),
    "of two campaigns": (
        lambda lines: row_of(lines, "trial").update(campaign="x"),
        "a row of another campaign",
    ),
    "with text for a number": (
        lambda lines: row_of(lines, "trial").update(number="1"),
        "trial.number has no valid value",
    ),
    "with an unknown state": (
        lambda lines: row_of(lines, "block").update(state="odd"),
        "block.state has no valid value",
    ),
    "with no time": (
        lambda lines: row_of(lines, "event").update(at="yesterday"),
        "event.at has no valid value",
    ),
    "with nothing for something": (
        lambda lines: row_of(lines, "event").update(message=None),
        "event.message has no valid value",
    ),
    "of nothing": (only_header, "line 2: the campaign itself is missing"),
    "without the campaign's row": (without_campaign, "line 2: the campaign itself is missing"),
    "with a number that no other can follow": (
        lambda lines: row_of(lines, "event", 3).update(number=2**31 - 1),
        "the events are not numbered from 1 without gaps",
    ),
    "with a gap between trials": (
        lambda lines: row_of(lines, "trial").update(number=7),
        "the trials are not numbered from 0 without gaps",
    ),
    "with a list for a configuration": (
        lambda lines: row_of(lines, "trial").update(configuration=[1]),
        "trial.configuration has no valid value",
    ),
    **{
        f"with {what} of a setting's effect": (
            partial(_with_settings, effects),
            "recommendation.settings has no valid value",
        )
        for what, effects in {
            "no name": {"threads": [0.9, 0.8, 1.0]},
            "two numbers": {"fileserver.threads": [0.9, 0.8]},
            "a negative number": {"fileserver.threads": [0.9, 0.8, -1.0]},
        }.items()
    },
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_an_invalid_file_leaves_no_trace(
    content: bytes, empty: Store, file: Path, change: Change, message: str
) -> None:
    file.write_bytes(content)
    wrong = rewritten(file, change)
    with pytest.raises(SpecError, match=message) as caught:
        import_campaign(empty, wrong)
    assert "\n" not in str(caught.value)
    assert empty.campaigns() == []
    assert empty._database.read(lambda c: c.execute(tables.event.select()).all()) == []


def test_a_block_that_was_running_does_not_occupy_its_testbed(
    store: Store, file: Path, tmp_path: Path
) -> None:
    live = records.new_campaign(store)
    with Store.open(tmp_path / "theirs") as theirs:
        campaign = filled(theirs)
        theirs.end_block(campaign, 2, BlockState.VOID, "", 0.0, records.event())
        theirs.begin_block(campaign, replace(records.block(3), testbed="hall 7"), records.event())
        export_campaign(theirs, campaign, file)
    assert import_campaign(store, file) == campaign
    block = store.blocks(campaign)[-1]
    assert (block.state, block.reason) == (BlockState.VOID, "cut off when it was exported")
    store.begin_block(live, replace(records.block(1), testbed="hall 7"), records.event())
    store.end_block(live, 1, BlockState.VOID, "", 0.0, records.event())
    # It can be resumed, and continues with the next block.
    store.move_campaign(campaign, CampaignState.RUNNING, "", records.event())
    store.begin_block(campaign, replace(records.block(4), testbed="hall 7"), records.event())
    store.end_block(campaign, 4, BlockState.VOID, "", 0.0, records.event())
    assert problems(store) == []


def test_the_state_of_very_many_hosts_comes_back(store: Store, file: Path, tmp_path: Path) -> None:
    hosts = "node07.cluster.example.org: ..." * 10_000
    with Store.open(tmp_path / "theirs") as theirs:
        campaign = filled(theirs)
        theirs.add_event(campaign, NewEvent(records.NOON, "testbed-ready", "", {"hosts": hosts}))
        export_campaign(theirs, campaign, file)
    assert import_campaign(store, file) == campaign
    assert store.events(campaign)[-1].data["hosts"] == hosts


def test_others_can_write_while_a_file_is_read(
    store: Store, content: bytes, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_bytes(content)
    live, every_row = records.new_campaign(store), archive_module._checked

    def meanwhile(*arguments: Any) -> Iterator[Any]:
        for row in every_row(*arguments):
            writer = Thread(target=store.add_event, args=(live, records.event()))
            writer.start()
            writer.join(10.0)
            assert not writer.is_alive()
            yield row

    monkeypatch.setattr(archive_module, "_checked", meanwhile)
    before = len(store.events(live))
    campaign = import_campaign(store, file)
    assert len(store.events(live)) > before
    assert store.trials(campaign)


def test_rows_for_which_there_is_no_space_are_an_error(
    empty: Store, content: bytes, file: Path
) -> None:
    file.write_bytes(content)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(StoreError, match="cannot be written: File too large; set TMPDIR"):
            import_campaign(empty, file)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert empty.campaigns() == []


def test_a_campaign_that_is_gone_is_not_exported(store: Store, file: Path) -> None:
    campaign = "20261121-171312-gj4m"
    with pytest.raises(NotFoundError, match=f"there is no campaign {campaign}"):
        export_campaign(store, campaign, file)
    assert not file.exists()


@pytest.mark.parametrize("damage", ["cut", "flipped", "not gzip", "missing"])
def test_a_damaged_file_is_refused(content: bytes, empty: Store, file: Path, damage: str) -> None:
    whole = content
    file.write_bytes(whole)
    match damage:
        case "cut":
            file.write_bytes(whole[: len(whole) // 2])
        case "flipped":
            middle = len(whole) // 2
            file.write_bytes(whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :])
        case "not gzip":
            file.write_text("{}")
        case "missing":
            file.unlink()
    message = "cannot be read" if damage == "missing" else "not an exported campaign"
    with pytest.raises(SpecError, match=message):
        import_campaign(empty, file)
    assert empty.campaigns() == []
