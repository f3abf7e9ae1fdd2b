"""Queries of blocks with their measurements: whole, or only the times of very many blocks.

Each is run within the transaction of its caller.
"""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Table, case, func, select

from tuner.errors import OtherComponentsError
from tuner.model import COVARIATES, Block, BlockTimes, ComponentResult, Measurement, ReferenceRun
from tuner.store import tables
from tuner.store.rows import record

#: The number of rows fetched at a time.
_FETCHED = 5000
#: The client column of results that combine all clients.
ALL = ""
#: Larger than the number of any block; blocks are numbered from 1 without gaps.
_MOST_BLOCKS = 2**31 - 1


def blocks(
    connection: Connection,
    campaign: str,
    after: int,
    most: int | None,
    trials: Collection[int] | None,
) -> list[Block]:
    """Return the blocks with numbers above ``after``, at most ``most``, with their references and
    the measurements of all or these ``trials``.
    """
    last = _MOST_BLOCKS if most is None else after + most
    table = tables.block
    measurements = _measurements(connection, campaign, after, last, trials)
    beside = _references(connection, campaign, after, last)
    rows = connection.execute(
        select(table)
        .where(table.c.campaign == campaign, table.c.number > after, table.c.number <= last)
        .order_by(table.c.number)
    )
    return [
        record(
            Block,
            row,
            measurements=tuple(measurements.get(row.number, ())),
            references=tuple(beside.get(row.number, ())),
        )
        for row in rows
    ]


def _measurements(
    connection: Connection,
    campaign: str,
    after: int,
    last: int,
    trials: Collection[int] | None,
) -> dict[int, list[Measurement]]:
    """Return the measurements of the blocks from ``after`` (exclusive) to ``last``, by block, in
    order of position.
    """
    table, component = tables.measurement, tables.component

    def in_range(of: Table) -> ColumnElement[bool]:
        inside = (of.c.campaign == campaign) & (of.c.block > after) & (of.c.block <= last)
        return inside if trials is None else inside & of.c.trial.in_(trials)

    rows = connection.execute(select(table).where(in_range(table)).order_by(table.c.position)).all()
    runs: dict[int, list[Measurement]] = defaultdict(list)
    for block, run in with_components(connection, rows, in_range(component)):
        runs[block].append(run)
    return runs


def with_components(
    connection: Connection, rows: Sequence[Row[Any]], these: ColumnElement[bool]
) -> Iterator[tuple[int, Measurement]]:
    """Yield the measurements of some rows, each with the number of its block. ``these``: selects
    their components.
    """
    component = tables.component
    results: dict[tuple[int, int], dict[str, dict[str, ComponentResult]]] = defaultdict(dict)
    for row in connection.execute(
        select(component).where(these).order_by(component.c.client, component.c.component)
    ):
        of_client = results[row.block, row.trial].setdefault(row.client, {})
        of_client[row.component] = record(ComponentResult, row)
    for row in rows:
        clients = results.get((row.block, row.trial), {})
        together = clients.pop(ALL, {})
        yield row.block, record(Measurement, row, components=together, clients=clients)


def block_times(
    connection: Connection,
    campaign: str,
    components: Sequence[str],
    after: int,
    most: int | None,
    *,
    with_covariates: bool = True,
) -> list[BlockTimes]:
    """Return the blocks with numbers above ``after``, at most ``most``, with only the times of
    these components: a compact form for very many blocks. OtherComponentsError when a measurement
    has other components. ``with_covariates``: read covariates too, which takes a quarter of the
    time.
    """
    last = _MOST_BLOCKS if most is None else after + most
    table, component = tables.block, tables.component
    # One column per component: the database pivots rows several times as fast as Python code.
    times = (
        func.max(case((component.c.component == name, component.c.elapsed_s))).label(f"time_{n}")
        for n, name in enumerate(components)
    )
    of = component.c.campaign == campaign
    query = (
        select(component.c.block, component.c.trial, func.count(), *times)
        .where(of, component.c.client == ALL, component.c.block > after, component.c.block <= last)
        .group_by(component.c.block, component.c.trial)
        .order_by(component.c.block, component.c.trial)
    )
    blocks = (
        select(table)
        .where(table.c.campaign == campaign, table.c.number > after, table.c.number <= last)
        .order_by(table.c.number)
    )
    beside = tables.covariate
    disturbed = (
        select(beside.c.block, beside.c.trial, *(beside.c[name] for name in COVARIATES))
        .where(beside.c.campaign == campaign, beside.c.block > after, beside.c.block <= last)
        .order_by(beside.c.block, beside.c.trial)
    )
    times_by_trial: dict[int, dict[int, tuple[float, ...]]] = defaultdict(dict)
    covariates: dict[int, dict[int, tuple[float | None, ...]]] = defaultdict(dict)
    with _nothing_collected():
        # Fetching rows one by one takes half as long again.
        for rows in connection.execute(query).partitions(_FETCHED):
            for row in rows:
                times_s = row[3:]
                if row[2] != len(components) or None in times_s:
                    raise OtherComponentsError(campaign)
                times_by_trial[row[0]][row[1]] = times_s
        for row in connection.execute(disturbed) if with_covariates else ():
            covariates[row[0]][row[1]] = row[2:]
        return [
            record(
                BlockTimes,
                row,
                times_s=times_by_trial.get(row.number, {}),
                covariates=covariates.get(row.number, {}),
            )
            for row in connection.execute(blocks)
        ]


@contextmanager
def _nothing_collected() -> Iterator[None]:
    """Suspend garbage collection while many objects are created that all stay alive: searching them
    for cycles took a fifth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _references(
    connection: Connection, campaign: str, after: int, last: int
) -> dict[int, list[ReferenceRun]]:
    """Return the reference runs of the blocks from ``after`` (exclusive) to ``last``, by block, in
    order of position.
    """
    table, component = tables.reference, tables.reference_component

    def in_range(of: Table) -> ColumnElement[bool]:
        return (of.c.campaign == campaign) & (of.c.block > after) & (of.c.block <= last)

    results: dict[tuple[int, str], dict[str, ComponentResult]] = defaultdict(dict)
    for row in connection.execute(
        select(component).where(in_range(component)).order_by(component.c.component)
    ):
        results[row.block, row.name][row.component] = record(ComponentResult, row)
    runs: dict[int, list[ReferenceRun]] = defaultdict(list)
    for row in connection.execute(
        select(table).where(in_range(table)).order_by(table.c.position, table.c.name)
    ):
        components = results.get((row.block, row.name), {})
        runs[row.block].append(record(ReferenceRun, row, components=components))
    return runs
