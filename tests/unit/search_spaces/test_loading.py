"""Loading of space files: good ones load, bad ones give one clear error."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from search_spaces import SpaceError, load, names, parse_space
from search_spaces.reading import text_of

DATA = Path(__file__).parents[2] / "data" / "spaces"
GOOD = (DATA / "good" / "tiny.yaml").read_text(encoding="utf-8")
BAD = sorted((DATA / "bad").glob("*.yaml"))


def test_every_packaged_space_loads_under_its_name() -> None:
    assert {"openafs-fileserver-1.8", "openafs-cache-manager-fuse-1.8"} <= set(names())
    for name in names():
        space = load(name)
        assert space.name == name
        assert space.searched
        assert space.presets
        assert space.evidence
        assert all(space.violations(space.fit(p.values)) == [] for p in space.presets)


def test_a_packaged_space_is_read_once() -> None:
    assert load("host-network") is load("host-network")


def test_a_space_in_a_file_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(GOOD)
    space = load(str(file))
    assert [p.name for p in space.order] == ["preset", "width", "depth"]
    assert space.preset_fields == ("width",)
    assert space.presets[0].values == {"width": 9}
    assert space.render({"depth": 4, "width": 3}) == ["-w", "3", "-d", "4"]
    file.write_text(GOOD.replace("depth", "height"))
    assert [p.name for p in load(str(file)).order] == ["preset", "width", "height"]


@pytest.mark.parametrize("path", BAD, ids=lambda path: str(path.stem))
def test_a_bad_file_gives_one_clear_error(path: Path) -> None:
    says = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# says: ")
    with pytest.raises(SpaceError) as error:
        load(str(path))
    assert says in str(error.value)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_there_are_many_bad_files_and_several_good_ones() -> None:
    assert len(BAD) >= 40
    good = [load(str(path)) for path in sorted((DATA / "good").glob("*.yaml"))]
    assert len(good) >= 5
    assert len({space.name for space in good}) == len(good)


def test_a_space_by_its_differences() -> None:
    base, own = load(str(DATA / "good/tiny.yaml")), load(str(DATA / "good/by-differences.yaml"))
    assert (own.name, own.title) == ("tinier", "A space by its differences")
    assert (own["width"].low, own["width"].high, own["width"].about) == (1, 5, "a")
    assert own["depth"] == base["depth"]
    assert own.options == base.options
    fewer = load(str(DATA / "good/without-an-option.yaml"))
    assert [option.flag for option in fewer.options] == ["-S", "-w", "-d"]
    mine = load(str(DATA / "good/difference-of-a-packaged-space.yaml"))
    assert mine.violations({"udp_buffer": 16777216}) == []
    assert load("openafs-fileserver-1.8").violations({"udp_buffer": 16777216})


def test_fileserver_1_6_is_1_8_with_differences() -> None:
    old, new = load("openafs-fileserver-1.6"), load("openafs-fileserver-1.8")
    assert old.by_name.keys() == new.by_name.keys()
    assert old["volume_hash"].defaults["none"] == 8
    assert new["volume_hash"].defaults["none"] == 10
    assert set(old["sync_behavior"].choices) - set(new["sync_behavior"].choices) == {"delayed"}
    gained = {o.flag for o in new.options} - {o.flag for o in old.options}
    assert gained == {"-admin-write", "-config", "-logfile", "-transarc-logs"}
    assert {o.flag for o in old.options} - {o.flag for o in new.options} == {"-k"}
    with pytest.raises(SpaceError, match="'-cve-2018-7168-enforce' is no option"):
        old.parse(["-cve-2018-7168-enforce"])


def test_an_option_of_other_versions_need_not_be_in_the_help() -> None:
    text = (DATA / "good" / "tiny.yaml").read_text(encoding="utf-8")
    assert text.endswith("\nleft_out:\n  -x: {why: nothing}\n")
    with pytest.raises(SpaceError, match="options: lacks -new"):
        parse_space(f"{text}  -new: {{why: nothing}}\n", "mine.yaml")
    space = parse_space(f"{text}  -new: {{why: nothing, versions: 2}}\n", "mine.yaml")
    assert space.options == parse_space(text, "mine.yaml").options
    assert [option.flag for option in space.every_option][-1] == "-new"
    assert space.parse(["-new"]).rest == ("-new",)


@pytest.mark.parametrize("text", ["", "[]", "word", "parameters: {}", "a: &x [*x]"])
def test_text_that_is_not_a_space(text: str) -> None:
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


@pytest.mark.timeout(20)
def test_a_space_that_is_no_regular_file_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    with pytest.raises(SpaceError, match="it is not a regular file"):
        load(str(pipe))
    with pytest.raises(OSError, match="it is not a regular file"):
        text_of(Path("/dev/zero"))
    with (tmp_path / "long.yaml").open("wb") as file:
        file.truncate((4 << 20) + 1)
    with pytest.raises(SpaceError, match="it is longer than 4 MiB"):
        load(str(tmp_path / "long.yaml"))
