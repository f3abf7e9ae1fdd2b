"""Fills a database with synthetic long campaigns: rows such as real campaigns leave.

A round measures four trials in 20 blocks, with the baseline and, once there is one, the incumbent
in every block; three of the four leave early. The last round is still running.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache, partial
from itertools import chain, islice

import numpy as np
from sqlalchemy import Connection, Table, insert, literal, select

from tuner.measure.workload import load_workload
from tuner.model import (
    BASELINE,
    COVARIATES,
    Answer,
    BlockKind,
    ComponentEffect,
    Configuration,
    Recommendation,
)
from tuner.spec.campaign import CampaignSpec
from tuner.states import BlockState, CampaignState, TrialState
from tuner.store import NewEvent, Store, tables
from tuner.store.database import json_text
from tuner.time_use import TimeUse

BLOCKS_A_ROUND = 20
#: Numbers of blocks after which the four trials of a round leave it.
_LEAVE = (3, 6, 11, BLOCKS_A_ROUND)
TRIALS_A_ROUND = len(_LEAVE)
#: Blocks of the last round that have been measured: all four trials are still in it.
_UNDER_WAY = 10
#: Rounds whose last trial becomes the incumbent, and its time over the baseline's.
_INCUMBENTS = {1: 0.97, 8: 0.95, 60: 0.93, 400: 0.91}
_NOISE, _DRIFT = 0.03, 0.05
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
_AT_ONCE = 20_000
_COPIED = (
    tables.trial,
    tables.block,
    tables.measurement,
    tables.covariate,
    tables.component,
    tables.event,
)

SPEC = CampaignSpec.model_validate(
    {
        "name": "scale",
        "testbed": {"simulated": {}},
        "spaces": {
            "fileserver": "openafs-fileserver-1.8",
            "cache_manager": "openafs-cache-manager-fuse-1.8",
        },
        "workload": "mixed-use",
        "pilot": {"blocks": 0},
        "search": {"arms": TRIALS_A_ROUND, "blocks_per_trial": BLOCKS_A_ROUND},
        "budget": {"wall_time": "3650d"},
    }
)
COMPONENTS = load_workload(SPEC.workload.name).components

Row = dict[str, object]


def fill(store: Store, rounds: int, campaigns: int, *, seed: int = 1) -> list[str]:
    """Store identical, paused campaigns of this many rounds; returns their identifiers.

    One is generated, the others are copies of its rows.
    """
    campaigns_made = [_create(store, number) for number in range(campaigns)]
    orders = list(_orders(rounds))
    first = campaigns_made[0]
    sources: Mapping[Table, Iterable[Row]] = {
        tables.trial: _trials(first, rounds),
        tables.block: _blocks(first, orders),
        tables.measurement: _measurements(first, orders),
        tables.covariate: _covariates(first, orders, seed),
        tables.component: _components(first, orders, seed),
        tables.event: _events(first, orders),
    }
    for table, rows in sources.items():
        store._database.write(partial(_add, table=table, rows=rows))
    for other in campaigns_made[1:]:
        store._database.write(partial(_copy, old=first, new=other))
    at = _BEGAN + timedelta(days=300)
    for campaign in campaigns_made:
        state = CampaignState.PAUSED
        store.move_campaign(campaign, state, "", NewEvent(at, "campaign-paused", "paused"))
    return campaigns_made


def finish(store: Store, campaign: str) -> None:
    """Give a campaign an answer and finish it."""
    at = _BEGAN + timedelta(days=301)
    store.move_campaign(campaign, CampaignState.RUNNING, "", NewEvent(at, "campaign-started", ""))
    configuration, baseline = _configuration(4), _configuration(BASELINE)
    answer = Recommendation(
        answer=Answer.RECOMMENDED,
        reason="9.0% faster",
        trial=TRIALS_A_ROUND,
        configuration=configuration,
        baseline=baseline,
        flags={"fileserver": ("-p", "10")},
        baseline_flags={"fileserver": ()},
        confidence=0.95,
        blocks=20,
        ratio=0.91,
        lower=0.9,
        upper=0.92,
        largest_compatible_improvement=0.11,
        e_value=99.0,
        threshold=14.0,
        components={name: ComponentEffect(0.91, 0.9, 0.92, True) for name in COMPONENTS},
    )
    ready = NewEvent(at, "testbed-ready", "ready", {"identity": "dafileserver 1.8.9"})
    store.add_event(campaign, ready)
    store.save_recommendation(campaign, answer, NewEvent(at, "recommendation", "9.0% faster"))
    event = NewEvent(at, "campaign-finished", "finished")
    store.move_campaign(campaign, CampaignState.FINISHED, "", event)


def _create(store: Store, number: int) -> str:
    at = _BEGAN + timedelta(minutes=number)
    campaign = store.create_campaign("scale", SPEC.to_json(), number, at).id
    event = NewEvent(at, "campaign-started", "campaign started")
    store.move_campaign(campaign, CampaignState.RUNNING, "", event)
    store.set_baseline(campaign, _configuration(BASELINE), NewEvent(at, "baseline", "as found"))
    store.add_time_use(campaign, TimeUse(wall_s=2e7, apply_s=1e6, workload_s=1.8e7))
    return campaign


def _add(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    each = iter(rows)
    while some := list(islice(each, _AT_ONCE)):
        if connection.dialect.name == "postgresql":
            _copy_in(connection, table, some)
        else:
            connection.execute(insert(table), some)


def _copy_in(connection: Connection, table: Table, rows: list[Row]) -> None:
    """Insert by COPY, which takes a tenth of the time."""
    names = ", ".join(f'"{name}"' for name in rows[0])
    driver = connection.connection.driver_connection
    assert driver is not None
    with driver.cursor().copy(f"COPY {table.name} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([_plain(value) for value in row.values()])


def _plain(value: object) -> object:
    """Convert a value to the form that the server reads."""
    if isinstance(value, (Configuration, dict, tuple)):
        return json_text(value)
    return str(value) if isinstance(value, StrEnum) else value


def _copy(connection: Connection, old: str, new: str) -> None:
    for table in _COPIED:
        names = [column.name for column in table.columns]
        columns = [literal(new) if n == "campaign" else table.c[n] for n in names]
        of = table.c.campaign == old
        if table is tables.event:
            of &= table.c.number > 3  # a campaign has its first events already
        connection.execute(insert(table).from_select(names, select(*columns).where(of)))


def _orders(rounds: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield the round and the arms of each block."""
    incumbent: tuple[int, ...] = ()
    for round_ in range(1, rounds + 1):
        first = 1 + (round_ - 1) * TRIALS_A_ROUND
        for block in range(BLOCKS_A_ROUND if round_ < rounds else _UNDER_WAY):
            live = (first + n for n, last in enumerate(_LEAVE) if block < last or round_ == rounds)
            yield round_, (BASELINE, *incumbent, *live)
        if round_ in _INCUMBENTS:
            incumbent = (round_ * TRIALS_A_ROUND,)


@cache
def _configuration(trial: int) -> Configuration:
    return Configuration.of({"fileserver.threads": 6 + trial} if trial else {})


def _trials(campaign: str, rounds: int) -> Iterator[Row]:
    incumbents = [round_ * TRIALS_A_ROUND for round_ in _INCUMBENTS if round_ < rounds]
    for number in range(rounds * TRIALS_A_ROUND + 1):
        round_ = 0 if not number else 1 + (number - 1) // TRIALS_A_ROUND
        state, reason = TrialState.PRUNED, "not 2.0% faster than the incumbent: as fast"
        if number in incumbents[:-1]:
            state, reason = TrialState.COMPLETE, "another one took its place"
        if number == BASELINE or round_ == rounds or number == incumbents[-1]:
            state, reason = TrialState.RUNNING, ""
        yield {
            "campaign": campaign,
            "number": number,
            "configuration": _configuration(number),
            "round": round_,
            "origin": "tpe" if number else "as found",
            "state": state,
            "flags": {"fileserver": ("-p", str(number)), "cache_manager": ("-daemons", "4")},
            "reason": reason,
        }


def _blocks(campaign: str, orders: list[tuple[int, tuple[int, ...]]]) -> Iterator[Row]:
    for number, (round_, order) in enumerate(orders, start=1):
        yield {
            "campaign": campaign,
            "number": number,
            "kind": BlockKind.SEARCH,
            "round": round_,
            "order": order,
            "state": BlockState.COMPLETE,
            "duration_s": 60.0 * len(order),
            "reason": "",
            "testbed": None,
        }


def _measurements(campaign: str, orders: list[tuple[int, tuple[int, ...]]]) -> Iterator[Row]:
    for block, (_, order) in enumerate(orders, start=1):
        for position, trial in enumerate(order):
            yield {
                "campaign": campaign,
                "block": block,
                "trial": trial,
                "position": position,
                "started": _BEGAN + timedelta(minutes=6 * block + position),
                "requested": _configuration(trial),
                "effective": _configuration(trial),
                "actions": ("fileserver: restart",),
                "apply_s": 1.0,
                "workload_s": 50.0,
                "diagnostics": {"engine_cpu_s": 0.5},
                "engine_sha256": "ab" * 32,
                "seed": block,
            }


def _covariates(
    campaign: str, orders: list[tuple[int, tuple[int, ...]]], seed: int
) -> Iterator[Row]:
    """As on one machine: the covariates of the clients' machines are unknown."""
    random = np.random.default_rng([seed, 1])
    for block, (_, order) in enumerate(orders, start=1):
        for trial, numbers in zip(
            order, random.exponential(0.1, (len(order), 3)).tolist(), strict=True
        ):
            covariates = dict.fromkeys(COVARIATES) | dict(
                zip(COVARIATES[::2], numbers, strict=True)
            )
            yield {"campaign": campaign, "block": block, "trial": trial, **covariates}


def _components(
    campaign: str, orders: list[tuple[int, tuple[int, ...]]], seed: int
) -> Iterator[Row]:
    random = np.random.default_rng(seed)
    ratios = {round_ * TRIALS_A_ROUND: ratio for round_, ratio in _INCUMBENTS.items()}
    for block, (_, order) in enumerate(orders, start=1):
        moved = random.normal(0.0, _DRIFT)
        noise = random.normal(moved, _NOISE, (len(order), len(COMPONENTS)))
        times = np.exp(noise) * np.array([[ratios.get(trial, 1.0)] for trial in order])
        for trial, of_trial in zip(order, times.tolist(), strict=True):
            for name, elapsed_s in zip(COMPONENTS, of_trial, strict=True):
                yield {
                    "campaign": campaign,
                    "block": block,
                    "trial": trial,
                    "component": name,
                    "client": "",
                    "elapsed_s": elapsed_s,
                    "operations": 1500,
                    "bytes": 1 << 20,
                    "p50_s": 0.001,
                    "p95_s": 0.002,
                    "p99_s": 0.003,
                    "max_s": 0.01,
                }


def _events(campaign: str, orders: list[tuple[int, tuple[int, ...]]]) -> Iterator[Row]:
    contents = chain.from_iterable(_of_block(n, *what) for n, what in enumerate(orders, start=1))
    for number, (kind, message, data) in enumerate(contents, start=4):
        at = _BEGAN + timedelta(minutes=number)
        row = {"campaign": campaign, "number": number, "at": at, "kind": kind}
        yield {**row, "message": message, "data": data}


def _of_block(
    block: int, round_: int, order: tuple[int, ...]
) -> Iterator[tuple[str, str, dict[str, int]]]:
    yield "block-started", f"block {block}: {len(order)} arms", {"block": block}
    for trial in order:
        text = ", ".join(f"{name} 1.00 s" for name in COMPONENTS)
        yield "measured", f"block {block}, trial {trial}: {text}", {"block": block, "trial": trial}
    yield "block-complete", f"block {block} complete in 300 s", {"block": block}
    if round_ in _INCUMBENTS and block == round_ * BLOCKS_A_ROUND:
        text = f"trial {round_ * TRIALS_A_ROUND} is the incumbent"
        yield "trial-promoted", text, {"trial": round_ * TRIALS_A_ROUND}
