"""Merges the results of several clients that ran the same stage at the same time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from workloads.histogram import Histogram
from workloads.result import ComponentResult, OperationResult, components

_SAME = ("engine", "spec", "stage")


def merge(documents: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Merge the documents of one stage, one from each client, into a single document.

    Operations, bytes, histograms and processor seconds are summed; a component's times are those
    of the slowest client, since all started together. Raises ValueError when there are no
    documents, one is a failure, or they differ in stage, spec, engine or components; KeyError or
    TypeError when one is malformed.
    """
    if not documents:
        raise ValueError("nothing to merge")
    first = documents[0]
    for each in documents:
        if each.get("ok") is not True:
            raise ValueError("one of the clients failed")
        for key in _SAME:
            if each[key] != first[key]:
                raise ValueError(f"{key} differs: {first[key]} and {each[key]}")
        if list(_mapping(each["components"])) != list(_mapping(first["components"])):
            raise ValueError("not the same components")
    results = {
        name: _component([_mapping(_mapping(each["components"])[name]) for each in documents])
        for name in _mapping(first["components"])
    }
    return {
        "ok": True,
        "clients": len(documents),
        **{key: first[key] for key in _SAME},
        "cpu_s": sum(_number(each["cpu_s"]) for each in documents),
        "components": components(results),
        "verified": {
            key: sum(int(_number(_mapping(each["verified"])[key])) for each in documents)
            for key in ("files", "bytes")
        },
    }


def histogram(document: Mapping[str, object]) -> Histogram:
    """Return the histogram stored in a document; the inverse of writing it."""
    counts = {int(key): int(_number(count)) for key, count in _mapping(document["counts"]).items()}
    return Histogram(
        Counter(counts), int(_number(document["max_ns"])), int(_number(document["sum_ns"]))
    )


def _component(documents: Sequence[Mapping[str, object]]) -> ComponentResult:
    component = ComponentResult(
        elapsed_s=max(_number(document["elapsed_s"]) for document in documents),
        wall_s=max(_number(document["wall_s"]) for document in documents),
        asked_s=max(_number(document.get("asked_s", 0.0)) for document in documents),
    )
    for document in documents:
        for name, each in _mapping(document["by_operation"]).items():
            fields = _mapping(each)
            component.add(
                name,
                OperationResult(
                    int(_number(fields["operations"])),
                    int(_number(fields["bytes"])),
                    histogram(_mapping(fields["histogram"])),
                ),
            )
    return component


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"not a mapping: {value!r}")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"not a number: {value!r}")
    return value
