"""Check that a campaign's testbeds have the same programs, original settings and limits. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.errors import ConflictError
from tuner.model import Value
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed

#: Relative tolerance for sizes: no two hosts have the same memory to the byte.
_SIZES_MAY_DIFFER = 0.05
#: Fact for which the largest value is the tightest limit; for all others it is the smallest.
_LESS_IS_MORE = "fixed_command_length"

Facts = Mapping[str, Mapping[str, int]]


def check_alike(targets: Mapping[str, Target]) -> None:
    """Raise ConflictError, naming the differences, unless all targets match the first.

    ``targets``: by the label of their testbed.
    """
    (first, reference), *others = targets.items()
    for name, target in others:
        differing = [
            *_differences("program", _programs(reference), _programs(target)),
            *_differences("setting", reference.baseline.as_dict(), target.baseline.as_dict()),
            *_differences("fact", _strict_facts(reference), _strict_facts(target)),
            *_unlike_sizes(reference, target),
        ]
        if differing:
            raise ConflictError(
                f"the testbeds are not equivalent: {name} differs from {first}: "
                f"{'; '.join(differing)}; make them alike, or leave one out"
            )


def least_facts(targets: Mapping[str, Target]) -> dict[str, dict[str, int]]:
    """Return the facts that hold on all hosts, by part: every proposal must fit every host."""
    every = list(targets.values())
    return {
        part_name: {
            name: (max if name == _LESS_IS_MORE else min)(
                target.parts[part_name].facts[name] for target in every
            )
            for name in part.facts
        }
        for part_name, part in every[0].parts.items()
    }


def as_found(ready: ReadyTestbed) -> dict[str, str]:
    """Describe an open testbed for the event that reports it ready; ``expiry`` reads it."""
    return {
        "identity": ready.target.identity,
        "facts": facts_text(ready.target),
        "hosts": "; ".join(text for host in ready.hosts for text in host.text()),
    }


def facts_text(target: Target) -> str:
    """Render the facts of the hosts as text, without sizes, which vary between readings."""
    return ", ".join(f"{name} {value}" for name, value in sorted(_strict_facts(target).items()))


def _programs(target: Target) -> dict[str, Value]:
    return {part_name: part.identity for part_name, part in target.parts.items()}


def _facts(target: Target) -> dict[str, int]:
    return {f"{c}.{n}": v for c, part in target.parts.items() for n, v in part.facts.items()}


def _is_size(name: str) -> bool:
    return name.endswith("_bytes") or name.rpartition(".")[2] == _LESS_IS_MORE


def _strict_facts(target: Target) -> dict[str, Value]:
    return {name: value for name, value in _facts(target).items() if not _is_size(name)}


def _unlike_sizes(one: Target, other: Target) -> list[str]:
    sizes, others = _facts(one), _facts(other)
    return [
        f"fact {name} is {others[name]}, not {size}"
        for name, size in sizes.items()
        if name.endswith("_bytes")
        and name in others
        and abs(size - others[name]) > _SIZES_MAY_DIFFER * max(size, others[name])
    ]


def _differences(what: str, one: Mapping[str, Value], other: Mapping[str, Value]) -> list[str]:
    return [
        f"{what} {name} is {other.get(name, 'not set')}, not {one.get(name, 'not set')}"
        for name in sorted(one.keys() | other.keys())
        if one.get(name) != other.get(name)
    ]
