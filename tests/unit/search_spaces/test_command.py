"""The command ``fstune space``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from search_spaces import load, names
from tuner.cli import space as space_command
from tuner.cli.app import app
from tuner.errors import SpecError

DATA = Path(__file__).parents[2] / "data" / "spaces"
SERVER = "openafs-fileserver-1.8"


def fstune(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["space", *arguments])


def output(*arguments: str) -> str:
    result = fstune(*arguments)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    return result.output


def failure(*arguments: str) -> str:
    result = fstune(*arguments)
    assert isinstance(result.exception, SpecError), result.exception
    message = str(result.exception)
    assert "\n" not in message
    return message


def test_list_has_a_line_for_each_space() -> None:
    lines = output("list").splitlines()
    assert [line.split()[0] for line in lines[1:]] == names()
    assert f"{SERVER}           fileserver" in output("list")


@pytest.mark.parametrize("name", names())
def test_show_has_every_parameter_rule_and_preset(name: str) -> None:
    space, text = load(name), output("show", name)
    for parameter in space.parameters:
        assert f"\n{parameter.name} " in text
        assert all(flag in text for flag in parameter.flags)
    assert all(constraint.why in text for constraint in space.constraints)
    assert all(f"  {preset.name}: " in text for preset in space.presets)
    assert space.evidence in text


@pytest.mark.parametrize("name", names())
def test_show_json_is_complete(name: str) -> None:
    space, document = load(name), json.loads(output("show", name, "--json"))
    assert document["name"] == name
    assert list(document["parameters"]) == [p.name for p in space.parameters]
    for parameter in space.parameters:
        entry = document["parameters"][parameter.name]
        assert entry["kind"] == parameter.kind
        assert entry["risk"] == parameter.risk
        assert entry["source"] == parameter.source
        if parameter.kind.numeric:
            assert entry["range"] == [parameter.low, parameter.high]
    assert space.left_out.keys() == document["left_out"].keys()


@pytest.mark.slow
def test_check_accepts_good_spaces() -> None:
    lines = output("check").splitlines()
    assert [line.partition(":")[0] for line in lines] == names()
    own = DATA / "good" / "by-differences.yaml"
    assert output("check", str(own)).startswith(f"{own}: valid; 3 parameters, 3 searched")


def test_check_reports_errors() -> None:
    file = DATA / "bad" / "shape-kind-unknown.yaml"
    assert failure("check", str(file)).startswith(f"{file}: parameters.width.kind: ")
    assert "did you mean" in failure("show", "openafs-fileserver-1.7")


def test_check_finds_an_expression_that_has_no_value_for_some_samples(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (DATA / "good" / "tiny.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("memory_bytes // width", "memory_bytes // (width - 5)"))
    assert "'memory_bytes // (width - 5)': integer" in failure("check", str(file))


def test_check_finds_what_is_not_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = (DATA / "good" / "settings.yaml").read_text(encoding="utf-8")
    file.write_text(text.replace("a.size", '"a=size"'))
    assert "unknown setting 'a'" in failure("check", str(file))


def test_show_names_a_file_as_it_was_given() -> None:
    file = str(DATA / "good" / "tiny.yaml")
    command = output("show", file).splitlines()[-1].partition("fstune space ")[2]
    assert output(*command.split()).startswith("preset: a")


def test_sample_is_the_same_for_a_seed_and_valid() -> None:
    space = load(SERVER)
    samples = json.loads(output("sample", SERVER, "-n", "30", "--seed", "4", "--json"))
    assert len(samples) == 30
    for sample in samples:
        assert space.violations(sample["values"]) == []
        assert sample["rendered"] == space.render(sample["values"])
    assert output("sample", SERVER, "-n", "7") == output("sample", SERVER, "-n", "7")
    assert output("sample", SERVER, "-n", "7") != output("sample", SERVER, "-n", "7", "--seed", "2")
    lines = output("sample", SERVER, "-n", "30", "--seed", "4").splitlines()
    assert [line.split() for line in lines if "#" not in line] == [
        sample["rendered"] for sample in samples if sample["rendered"]
    ]


def test_samples_are_bounded_and_printed_as_they_are_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = fstune("sample", SERVER, "-n", "100000000000000000000000")
    assert refused.exit_code == 2
    assert "1000000" in refused.output
    lines: list[str] = []

    def record(text: str, **_: object) -> None:
        lines.append(text)
        if len(lines) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(space_command, "say", record)
    with pytest.raises(KeyboardInterrupt):
        space_command.sample(SERVER, 1_000_000)
    assert len(lines) == 3


def test_explain_shows_limits_and_source() -> None:
    text = output("explain", SERVER, "small_vnodes")
    for part in ("2 * threads + 1", "-s", "262144", "viced/viced.c", "xstat_fs.vcache_S_Entries"):
        assert part in text
    assert "did you mean 'small_vnodes'?" in failure("explain", SERVER, "small_vnode")
    assert "did you mean 'udp_buffer'?" in failure("explain", SERVER, "-udpsize")
    assert "negative control" in output("explain", SERVER, "send_buffer")
    assert "a matter of durability" in output("explain", SERVER, "sync_behavior")


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["parm /usr/lib/openafs/dafileserver -p 23 -mraf"], ["threads = 23", "-mrafslogs"]),
        (["dafileserver"], ["nothing set: the program's defaults"]),
        (["-p 23 -L", "--space", SERVER], ["threads = 23", "callbacks = 64000"]),
        (["dafileserver -udpsize 9000000"], ["udp_buffer = 9000000", "caution", "212992"]),
        (["afsd -memcache"], ["openafs-cache-manager-linux-1.8", "memcache = true"]),
        (["fs setcrypt off"], ["crypt = off", "in full: fs setcrypt -crypt off"]),
        (["sysctl -w net.core.rmem_max=300000"], ["rmem_max = 300000"]),
        (
            ["BlockSize=64", "--space", "openafs-windows-client"],
            ["block_size: 64 is special: a number of 4096-byte pages"],
        ),
    ],
)
def test_parse_prints_what_a_line_means(arguments: list[str], parts: list[str]) -> None:
    text = output("parse", *arguments)
    assert all(part in text for part in parts), text


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("nfsd 8", "'nfsd' is not a program of any space; name a space with --space"),
        ("dafileserver -p many", "'many' is not a number"),
        ("dafileserver -p '3", "is not a command line: No closing quotation"),
        ("", "is not a program of any space"),
    ],
)
def test_parse_reports_what_it_cannot_read(line: str, part: str) -> None:
    assert part in failure("parse", line)


@pytest.mark.parametrize("path", ["/usr/lib/openafs/fileserver", "/usr/lib/openafs/davolserver"])
def test_the_path_of_another_program_is_not_read_as_a_value(path: str) -> None:
    result = fstune("parse", "--space", SERVER, f"{path} -p 12")
    assert isinstance(result.exception, SpecError)
    assert f"'{path}' is not dafileserver, the program of {SERVER}" in str(result.exception)
    own = output("parse", "--space", SERVER, "/usr/lib/openafs/dafileserver -p 12")
    assert "threads = 12" in own
