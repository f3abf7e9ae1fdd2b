"""Content of the packaged spaces: known settings, negative controls, risk classes, evidence."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from search_spaces import Chance, Change, Kind, Risk, Role, draw, load, names

SPACES = [load(name) for name in names()]


def test_every_known_setting_is_in_a_space_or_left_out_with_a_reason(root: Path) -> None:
    file = root / "tests/data/spaces/known-settings.yaml"
    settings = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert len(settings) == 105
    places = {f"{s.name}/{p.name}" for s in SPACES for p in s.parameters}
    places |= {f"{s.name}/{flag}" for s in SPACES for flag in s.left_out}
    for name, entry in settings.items():
        if isinstance(entry, str):
            assert len(entry.split()) > 1, name
        else:
            assert entry, name
            assert set(entry) <= places, name


def test_the_spaces_are_those_of_every_component() -> None:
    assert names() == [
        "host-network",
        "openafs-cache-manager-fuse-1.8",
        "openafs-cache-manager-linux-1.8",
        "openafs-client-runtime",
        "openafs-fileserver-1.6",
        "openafs-fileserver-1.8",
        "openafs-volserver-1.8",
        "openafs-windows-client",
    ]


@pytest.mark.parametrize("space", SPACES, ids=lambda space: str(space.name))
def test_a_space_describes_its_parameters_completely(space) -> None:  # type: ignore[no-untyped-def]
    for parameter in space.parameters:
        assert parameter.about
        assert parameter.source
        assert parameter.change in Change
        assert "none" in parameter.defaults
        if parameter.kind.numeric:
            assert parameter.unit, parameter.name
            assert parameter.hard.low is not None or parameter.at_least is not None
        if parameter.kind is Kind.CATEGORICAL:
            assert parameter.candidates
    assert all(option.left_out or option.flag for option in space.options)
    binary = "checked against" in space.evidence or "read on" in space.evidence
    assert binary or "no binary was at hand" in space.evidence


def test_spaces_without_a_binary_rest_on_the_source() -> None:
    for name in ("openafs-fileserver-1.6", "openafs-windows-client"):
        assert "no binary was at hand; rests on" in load(name).evidence


def test_a_risky_parameter_is_not_searched_unless_its_class_is_allowed() -> None:
    risky = {f"{s.name}/{p.name}": p.risk for s in SPACES for p in s.parameters}
    expected = {
        "openafs-fileserver-1.8/sync_behavior": Risk.DURABILITY,
        "openafs-client-runtime/store_behind": Risk.DURABILITY,
        "openafs-client-runtime/crypt": Risk.SECURITY,
        "openafs-windows-client/security_level": Risk.SECURITY,
        "openafs-fileserver-1.8/abort_threshold": Risk.SECURITY,
        "openafs-fileserver-1.8/jumbograms": Risk.AVAILABILITY,
    }
    assert expected.items() <= risky.items()
    for space in SPACES:
        assert {p.risk for p in space.searched} == {Risk.PERFORMANCE}
        ask = Chance(1, 1.0)
        risky_names = {p.name for p in space.parameters if p.risk is not Risk.PERFORMANCE}
        assert not any(draw(space, ask).keys() & risky_names for _ in range(50))
        for risk in (Risk.DURABILITY, Risk.SECURITY, Risk.AVAILABILITY):
            searched = {p.risk for p in space.narrow(allow_risk=[risk]).searched}
            assert searched <= {Risk.PERFORMANCE, risk}


def test_negative_controls_are_marked_and_searched_on_purpose_only() -> None:
    server = load("openafs-fileserver-1.8")
    controls = [p.name for p in server.parameters if p.role is Role.CONTROL]
    assert {"send_buffer", "volume_cache", "volume_hash", "vlru_max", "attach_threads"} <= set(
        controls
    )
    assert not {p.name for p in server.searched} & set(controls)
    on_purpose = server.narrow(also=controls)
    assert set(controls) <= {p.name for p in on_purpose.searched}
    ask = Chance(1, 0.4)
    samples = [draw(on_purpose, ask) for _ in range(200)]
    assert set(controls) <= {name for values in samples for name in values}


def test_published_configurations_are_named_with_their_source() -> None:
    for space in SPACES:
        assert len({p.name for p in space.presets}) == len(space.presets)
        assert all(p.source for p in space.presets)
    published = {p.name for p in load("openafs-fileserver-1.8").presets}
    assert {"compiled-in", "small", "large", "jumbo"} < published
    assert len(published) >= 9


@pytest.mark.parametrize(
    ("space", "parameter", "value", "risk"),
    [
        ("openafs-fileserver-1.8", "threads", 128, Risk.PERFORMANCE),
        ("openafs-fileserver-1.8", "jumbograms", True, Risk.AVAILABILITY),
        ("openafs-fileserver-1.8", "jumbograms", False, Risk.PERFORMANCE),
        ("openafs-fileserver-1.8", "abort_threshold", 0, Risk.SECURITY),
        ("openafs-fileserver-1.8", "abort_threshold", 6, Risk.PERFORMANCE),
        ("openafs-fileserver-1.8", "abort_threshold", 50, Risk.SECURITY),
        ("openafs-fileserver-1.8", "sync_behavior", "never", Risk.DURABILITY),
        ("openafs-fileserver-1.8", "sync_behavior", "always", Risk.PERFORMANCE),
        ("openafs-client-runtime", "crypt", "off", Risk.SECURITY),
        ("openafs-client-runtime", "crypt", "on", Risk.PERFORMANCE),
        ("openafs-client-runtime", "store_behind", 64, Risk.DURABILITY),
    ],
)
def test_only_some_values_of_a_parameter_are_risky(
    space: str, parameter: str, value: int | str, risk: Risk
) -> None:
    assert load(space)[parameter].risk_of(value) is risk
