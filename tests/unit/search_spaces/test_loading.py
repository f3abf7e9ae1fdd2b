"""Space files: good ones load, bad ones are one clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from search_spaces import SpaceError, load, names, parse_space

GOOD = """
name: tiny
component: fileserver
title: A tiny space
program: tiny
versions: all
defaults_by: preset
facts:
  memory_bytes: {assumed: 1000, unit: bytes, about: memory}
parameters:
  preset:
    {choice_flags: {S: -S}, kind: categorical, default: none, about: a, source: s, change: live}
  width: {flag: -w, kind: int, range: [1, 9], default: {none: 2, S: 1}, about: a, source: s,
    change: live, only_if: {rule: preset == 'none', why: preset}, memory: width * 8}
  depth: {flag: -d, kind: log_int, range: [1, 64], default: 2 * width, about: a, source: s,
    change: restart, hard: {low: 1, high: 99, outside: clamps},
    at_most: {value: memory_bytes // width, why: small}}
constraints:
  - {rule: memory_estimate < memory_bytes, why: large, lower: [width]}
presets:
  - {name: wide, options: -w 9, source: s}
options: [-S, -w, -d, -x]
left_out:
  -x: {why: nothing}
"""


def test_every_packaged_space_loads_under_its_name() -> None:
    assert {"openafs-fileserver-1.8", "openafs-cache-manager-fuse-1.8"} <= set(names())
    for name in names():
        space = load(name)
        assert space.name == name
        assert space.searched
        assert space.presets
        assert all(space.violations(space.fit(p.values)) == [] for p in space.presets)


def test_a_space_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    space = load(str(file))
    assert [p.name for p in space.order] == ["preset", "width", "depth"]
    assert space.preset_fields == ("width",)
    assert space.presets[0].values == {"width": 9}
    assert space.render({"depth": 4, "width": 3}) == ["-w", "3", "-d", "4"]


@pytest.mark.parametrize(
    ("old", "new", "part"),
    [
        ("name: tiny\n", "", "name: missing"),
        ("title: A tiny space", "titel: A tiny space", "title: missing"),
        ("versions: all", "versions: all\ncolour: red", "unknown key 'colour'"),
        ("versions: all", "versions: ''", "versions: '' is no text"),
        ("defaults_by: preset", "defaults_by: prest", "did you mean 'preset'?"),
        ("assumed: 1000", "assumed: much", "facts.memory_bytes.assumed: 'much' is not a whole"),
        ("assumed: 1000", "assumes: 1000", "facts.memory_bytes.assumed: missing"),
        ("kind: int", "kind: integer", "parameters.width.kind: 'integer' is not a valid word"),
        ("kind: int", "kind: boolean", "default: 2 is no default"),
        ("range: [1, 9]", "range: [9, 1]", "parameters.width.range: low 9 is above high 1"),
        ("range: [1, 9]", "range: 9", "parameters.width.range: 9 is not [low, high]"),
        ("range: [1, 64]", "range: [0, 64]", "0 has no logarithm"),
        ("range: [1, 64]", "range: [1, 100]", "goes beyond the hard limits"),
        ("log_int, range: [1, 64]", "power_of_two, range: [1, 60]", "not powers of two"),
        ("low: 1, high: 99", "low: 99, high: 1", "hard: low 99 is above high 1"),
        ("outside: clamps", "outside: clamp", "did you mean 'clamps'?"),
        ("change: restart", "change: reboot", "change: 'reboot' is not a valid word"),
        ("change: restart", "change: restart, risk: fire", "risk: 'fire' is not a valid word"),
        ("change: restart", "change: restart, rol: held", "did you mean 'role'?"),
        (
            "default: 2 * width",
            "default: 2 * widht",
            "unknown name 'widht' (did you mean 'width'?)",
        ),
        ("default: 2 * width", "default: 2 * depth", "depend on each other"),
        ("default: 2 * width", "default: 2 *", "cannot read the expression"),
        ("default: 2 * width", "default: open('x')", "only min, max, ceil_log2 can be called"),
        ("default: {none: 2, S: 1}", "default: {S: 1}", "default: lacks 'none'"),
        ("default: {none: 2, S: 1}", "default: null", "width has no default"),
        ("rule: preset ==", "rule: prset ==", "did you mean 'preset'?"),
        ("rule: preset == 'none', why: preset", "rule: 1", "only_if.why: missing"),
        ("memory: width * 8", "memory: widths * 8", "parameters.width.memory: unknown name"),
        ("at_most: {value", "at_most: {values", "at_most.value: missing"),
        ("rule: memory_estimate", "rule: memory_estimat", "constraints[0].rule: unknown name"),
        ("lower: [width]", "lower: [wide]", "constraints[0].lower: no parameter 'wide'"),
        ("lower: [width]", "lower: [preset]", "lower: preset is no number"),
        ("lower: [width]", "lower: width", "is not a list of words"),
        ("options: -w 9", "options: -v 9", "presets[0].options: tiny: unknown or ambiguous"),
        ("options: -w 9", "options: '-w \"9'", "presets[0].options: No closing quotation"),
        ("-d, -x]", "-d]", "options: lacks -x"),
        ("-d, -x]", "-d, -x, -y]", "-y is neither a parameter's nor left out"),
        ("-d, -x]", "-d, -x, -x]", "names an option twice"),
        ("-x: {why: nothing}", "-w: {why: nothing}", "-w is an option of a parameter as well"),
        ("-x: {why: nothing}", "-x: {takes: two, why: no}", "left_out.-x.takes: 'two' is not"),
        ("flag: -d", "flag: -w", "-w is already another's option"),
        ("  width: {", "  memory_estimate: {", "cannot be the name of a parameter"),
        ("  memory_bytes: {", "  width: {", "facts: 'width' is the name of a parameter"),
        ("versions: all", "versions: all\nversions: some", "the key 'versions' is there twice"),
        ("versions: all", "versions: [", "line "),
        ("versions: all", "1: 2", "the key 1 is no text"),
    ],
)
def test_a_bad_file_is_one_clear_error(old: str, new: str, part: str) -> None:
    assert old in GOOD
    with pytest.raises(SpaceError) as error:
        parse_space(GOOD.replace(old, new, 1), "mine.yaml")
    assert part in str(error.value)
    assert str(error.value).startswith("mine.yaml: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "word", "parameters: {}", "a: &x [*x]"])
def test_what_is_no_space(text: str) -> None:
    with pytest.raises(SpaceError, match=r"^mine\.yaml: "):
        parse_space(text, "mine.yaml")


def test_unknown_names_and_files(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match=r"did you mean 'openafs-fileserver-1\.8'"):
        load("openafs-fileserver-1.9")
    with pytest.raises(SpaceError, match=r"none\.yaml: No such file"):
        load(str(tmp_path / "none.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(SpaceError, match="is not UTF-8 text"):
        load(str(tmp_path / "bytes.yaml"))
