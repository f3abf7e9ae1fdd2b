"""Every format reads back the configuration that it wrote, or refuses to write it."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Chance, Space, draw, load
from tests.toy.format import ToydConf
from tests.toy.kind import TOY
from tuner.cli.answers import Format as Choice
from tuner.errors import SpecError
from tuner.formats import registry
from tuner.formats.programs import FILESERVER, FUSE_CLIENT, KERNEL_CLIENT, SYSCTL
from tuner.formats.registry import formats, render
from tuner.services.form import Format, Part, pairs
from tuner.services.kinds import programs

ROOT = Path(__file__).parents[3]


def everything(name: str) -> Space:
    space = load(name)
    risks = ("durability", "security", "availability")
    return space.narrow(only=[p.name for p in space.parameters], allow_risk=risks)


SPACES = [
    everything(name)
    for name in (
        "openafs-fileserver-1.8",
        "openafs-cache-manager-linux-1.8",
        "openafs-cache-manager-fuse-1.8",
        "host-network",
    )
]
FORMATS_OF_SPACES = [
    pytest.param(form, space, id=f"{form.name}-{space.name}")
    for form in formats().values()
    for space in SPACES
    if space.program in form.programs
]


def test_every_space_has_formats_and_every_format_a_space() -> None:
    assert {param.values[0].name for param in FORMATS_OF_SPACES} == formats().keys()  # type: ignore[union-attr]
    assert {param.values[1].name for param in FORMATS_OF_SPACES} == {space.name for space in SPACES}  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.parametrize(("form", "space"), FORMATS_OF_SPACES)
@given(seed=st.integers(0, 2**32), often=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_what_is_written_is_read_back(form: Format, space: Space, seed: int, often: float) -> None:
    values = draw(space, Chance(seed, often))
    words = tuple(space.render(values))
    options = form.holds(words)
    text = form.write(Part(space.part, space.program, words))
    assert form.read(text) == options
    # The program would parse it as the configuration, as far as the format can hold that.
    flags = {name for name, _ in pairs(options)} | {word.partition("=")[0] for word in options}
    of = {n: v for n, v in values.items() if flags & set(space[n].flags)}
    assert space.parse(options).values == of
    if form.name != "cacheinfo":
        assert of == {n: v for n, v in values.items() if space.render({n: v})}


AWKWARD = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.slow
@pytest.mark.parametrize("form", formats().values(), ids=lambda form: form.name)
@given(word=AWKWARD)
def test_an_awkward_word_is_read_back_or_refused(form: Format, word: str) -> None:
    words = ("-blocks" if form.name == "cacheinfo" else "-cachedir", word)
    program = sorted(form.programs)[0]
    try:
        text = form.write(Part("x", program, words))
    except SpecError:
        return
    assert form.read(text) == words


@pytest.mark.parametrize("form", formats().values(), ids=lambda form: form.name)
@pytest.mark.parametrize(
    "word", ["a b", "$(id)", "`id`", "a\nb", "{{ x }}", "'", '"', ";", "#", ""]
)
def test_what_would_mean_something_else_is_refused(form: Format, word: str) -> None:
    words = ("-blocks" if form.name == "cacheinfo" else "-cachedir", word)
    with pytest.raises(SpecError, match="choose another format"):
        form.write(Part("x", sorted(form.programs)[0], words))


SERVER = Part("fileserver", FILESERVER, ("-p", "128", "-jumbo"))
CLIENT = Part("cache_manager", KERNEL_CLIENT, ("-blocks", "6", "-daemons", "6", "-memcache"))


def test_what_a_format_does_not_hold_is_reported() -> None:
    rendering = render("cacheinfo", [SERVER, CLIENT])
    assert rendering.text == "/afs:/var/cache/openafs:6\n"
    assert rendering.left_out == (
        "fileserver: cacheinfo cannot hold -p 128 -jumbo",
        "cache_manager: cacheinfo cannot hold -daemons 6 -memcache",
    )


def test_a_format_for_nothing_here_is_refused() -> None:
    with pytest.raises(SpecError, match="it has options of dafileserver only, none of"):
        render("bosconfig", [CLIENT])


def test_a_format_that_holds_no_option_of_its_program_is_refused() -> None:
    client = Part("cache_manager", KERNEL_CLIENT, ("-daemons", "6", "-memcache"))
    with pytest.raises(SpecError, match="it can hold none of the options here, -daemons -memcache"):
        render("cacheinfo", [client])
    assert render("cacheinfo", [Part("cache_manager", KERNEL_CLIENT, ())]).text == ""


def test_a_script_is_for_one_program() -> None:
    with pytest.raises(SpecError, match="--part"):
        render("script", [SERVER, CLIENT])


def test_tasks_of_two_programs_are_one_list() -> None:
    rendering = render("ansible", [SERVER, CLIENT])
    tasks = yaml.safe_load(rendering.text)
    assert len(tasks) == 15
    assert all("shell" not in key for task in tasks for key in task)


def test_limits_of_the_kernel_are_a_separate_file() -> None:
    limits = Part("host_network", SYSCTL, ("net.core.rmem_max=8388608", "net.core.wmem_max=9"))
    rendering = render("sysctl.d", [limits, SERVER])
    assert rendering.text == "net.core.rmem_max = 8388608\nnet.core.wmem_max = 9\n"
    assert rendering.left_out == ("fileserver: sysctl.d cannot hold -p 128 -jumbo",)
    rendering = render("bosconfig", [limits, SERVER])
    (left,) = rendering.left_out
    assert left.startswith("host_network: bosconfig cannot hold net.core.rmem_max=8388608")


STATUS = (ROOT / "tests/data/openafs/bos-status-running.txt").read_text()
PROGRAMS = [
    f"/usr/lib/openafs/{name}"
    for name in ("dafileserver", "davolserver", "salvageserver", "dasalvager")
]


def run_script(here: Path, status: str, *arguments: str) -> tuple[int, str, list[str]]:
    """Run the script for a server with a bos that shows that; return its status and message, and
    what bos was asked for.
    """
    log, answer = here / "log", here / "status"
    answer.write_text(status)
    bos = here / "bos"
    bos.write_text(
        f"#!/bin/sh\nprintf '%s|' \"$@\" '\n' >> {shlex.quote(str(log))}\n"
        f'test "$1" != status || grep . {shlex.quote(str(answer))}\n'
        f'test "$1" != getrestricted || cat {shlex.quote(str(here / "restricted"))}\n'
    )
    bos.chmod(0o755)
    script = here / "set.sh"
    script.write_text(render("script", [SERVER]).text)
    subprocess.run(["bash", "-n", script], check=True, timeout=60)
    done = subprocess.run(
        ["sh", script, *arguments],
        env={"PATH": f"{here}:/usr/bin:/bin"},
        check=False,
        timeout=60,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stderr, log.read_text().split("\n|") if log.exists() else []


def test_a_script_for_a_server_runs_bos_with_its_argument(tmp_path: Path) -> None:
    status, _, calls = run_script(tmp_path, STATUS)
    assert status
    assert not calls
    assert run_script(tmp_path, STATUS, "fs1 $x")[:2] == (0, "")
    log = (tmp_path / "log").read_text()
    assert "create|fs1 $x|dafs|dafs|/usr/lib/openafs/dafileserver -p 128 -jumbo|" in log


@pytest.mark.parametrize(
    ("status", "absent"),
    [
        (STATUS.replace("/usr/lib/openafs", "/usr/afs/bin"), PROGRAMS[0]),
        (STATUS.replace("/usr/lib/openafs/dasal", "/opt/dasal"), PROGRAMS[3]),
        (STATUS.replace("dafileserver", "dafileserver.old"), PROGRAMS[0]),
        ("", PROGRAMS[0]),
    ],
)
def test_a_script_stops_no_server_whose_programs_are_elsewhere(
    tmp_path: Path, status: str, absent: str
) -> None:
    """The instance could not be created again."""
    result, message, calls = run_script(tmp_path, status, "fs1")
    assert result == 1
    assert f"has the command {absent}; nothing was changed" in message
    assert "Replace /usr/lib/openafs here by the directory of your programs" in message
    assert calls == ["status|fs1|dafs|-long|-localauth|", ""]


#: Options of the fileserver itself, which are replaced as the script says; and what is not tuned.
WITH_OPTIONS = STATUS.replace("/dafileserver", "/dafileserver -d 1")
VOLSERVER = f"    Command 2 is '{PROGRAMS[1]} -p 9'\n"
NOTIFIER = "    Notifier  is '/usr/local/sbin/tell'\n"
WITH_MORE = (
    STATUS.replace(f"    Command 2 is '{PROGRAMS[1]}'\n", VOLSERVER),
    STATUS.replace("    Command 1 is", f"{NOTIFIER}    Command 1 is"),
)


@pytest.mark.parametrize(("status", "lost"), [(WITH_MORE[0], VOLSERVER), (WITH_MORE[1], NOTIFIER)])
def test_a_script_drops_neither_a_notifier_nor_options_of_other_programs(
    tmp_path: Path, status: str, lost: str
) -> None:
    result, message, calls = run_script(tmp_path, status, "fs1")
    assert result == 1
    assert f"has what 'bos create' here would drop:\n{lost}nothing was changed. Add it" in message
    assert calls == ["status|fs1|dafs|-long|-localauth|", ""]
    (tmp_path / "log").unlink()
    assert run_script(tmp_path, WITH_OPTIONS, "fs1")[:2] == (0, "")


def test_a_script_stops_no_server_in_restricted_mode(tmp_path: Path) -> None:
    """bosserver would stop the instance, but neither delete it nor create it again."""
    (tmp_path / "restricted").write_text("Restricted mode is on\n")
    result, message, calls = run_script(tmp_path, STATUS, "fs1")
    assert result == 1
    assert "is in restricted mode" in message
    assert "nothing was changed" in message
    assert calls == ["status|fs1|dafs|-long|-localauth|", "getrestricted|fs1|-localauth|", ""]
    (tmp_path / "restricted").write_text("Restricted mode is off\n")
    assert run_script(tmp_path, STATUS, "fs1")[:2] == (0, "")


def test_tasks_check_the_programs_of_a_server_before_they_stop_it() -> None:
    look, check, keep, ask, refuse, *steps = yaml.safe_load(render("ansible", [SERVER]).text)
    command = "ansible.builtin.command"
    assert look[command]["argv"] == [
        *("bos", "status", "{{ afs_server }}", "dafs", "-long", "-localauth")
    ]
    assert ask[command]["argv"] == ["bos", "getrestricted", "{{ afs_server }}", "-localauth"]
    assert refuse["ansible.builtin.assert"]["that"] == ["'mode is on' not in afs_restricted.stdout"]
    assert [step[command]["argv"][1] for step in steps] == ["stop", "delete", "create"]
    conditions = check["ansible.builtin.assert"]["that"]
    texts = [re.fullmatch(r'afs_instance\.stdout is search\("(.*)"\)', one) for one in conditions]
    patterns = [text[1] for text in texts if text]
    assert all(re.search(pattern, STATUS) for pattern in patterns)
    for program, pattern in zip(PROGRAMS, patterns, strict=True):
        assert not re.search(pattern, STATUS.replace(program, "/usr/afs/bin/x"))
        assert not re.search(pattern, STATUS.replace(program, f"{program}.old"))
    assert "/usr/afs/bin" in check["ansible.builtin.assert"]["fail_msg"]
    conditions = keep["ansible.builtin.assert"]["that"]
    texts = [
        re.fullmatch(r'afs_instance\.stdout is not search\("(.*)"\)', one) for one in conditions
    ]
    lost = [text[1] for text in texts if text]
    assert len(lost) == len(conditions) == 2
    for status in (STATUS, WITH_OPTIONS):
        assert not any(re.search(pattern, status) for pattern in lost)
    for status in WITH_MORE:
        assert any(re.search(pattern, status) for pattern in lost)
    assert "{{ afs_instance.stdout }}" in keep["ansible.builtin.assert"]["fail_msg"]


def test_every_format_that_creates_an_instance_says_where_its_programs_are() -> None:
    says = {name for name, form in formats().items() if "Debian's /usr/lib/openafs" in form.mind}
    assert says == {"bos", "bosconfig", "ansible", "script"}
    assert "/usr/afs/local/BosConfig" in formats()["bosconfig"].where
    head = render("bos", [SERVER]).text.partition("\nbos stop ")[0]
    assert all(line.startswith("# ") for line in head.splitlines())
    assert "bos status SERVER dafs -long" in head
    assert "Replace /usr/lib/openafs here" in head


def test_the_command_line_offers_every_format() -> None:
    own = {Choice.TEXT, Choice.JSON, Choice.FLAGS}
    assert {str(choice) for choice in Choice if choice not in own} == formats().keys()


def test_the_document_lists_every_format_as_it_is() -> None:
    text = (ROOT / "docs" / "formats.md").read_text()
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?) \| (.+?) \|$", text, re.MULTILINE)
    assert rows == [
        (form.name, form.about, form.where, ", ".join(sorted(form.programs, key=_order)))
        for form in formats().values()
    ]


def _order(program: str) -> tuple[bool, str]:
    return program != FILESERVER, program


def test_a_kind_brings_its_own_formats(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Text(ToydConf):
        name = "text"

    class Bos(ToydConf):
        name = "bos"

    class Unnamed(ToydConf):
        name = "two words"

    kind = replace(TOY, formats=(Text(), *TOY.formats, Bos(), Unnamed()))
    monkeypatch.setattr(registry, "kinds", lambda: (kind,))
    by_name = formats.__wrapped__()
    assert [*by_name] == [*formats(), "toyd.conf"]
    why = "cannot be used: its name is not a word, or is already used"
    assert caplog.messages == [
        f"the format {name!r} of toy {why}" for name in ("text", "bos", "two words")
    ]
    monkeypatch.setattr(registry, "formats", lambda: by_name)
    part = Part("toyd", "toyd", ("workers=8", "buffer=2048"))
    assert render("toyd.conf", [part]).text == "workers=8\nbuffer=2048\n"
    monkeypatch.setattr(ToydConf, "holds", lambda _, words: words[1:])
    partial = render("toyd.conf", [part])
    assert partial.left_out == ("toyd: toyd.conf cannot hold workers=8",)
    with pytest.raises(SpecError, match="it has options of toyd only"):
        render("toyd.conf", [CLIENT])


def test_the_usual_format_of_each_program_exists() -> None:
    usual = {name: program.format for name, program in programs().items() if program.format}
    assert {name: name in formats()[form].programs for name, form in usual.items()} == {
        FILESERVER: True,
        KERNEL_CLIENT: True,
        FUSE_CLIENT: True,
        SYSCTL: True,
    }
