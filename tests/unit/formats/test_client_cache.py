"""What stops and starts a client empties the cache in between, and deletes nothing else."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import yaml

from tuner.formats.client_cache import DELETION
from tuner.formats.programs import FILESERVER, FUSE_CLIENT, KERNEL_CLIENT
from tuner.formats.registry import formats, render
from tuner.services.form import Part

WORDS = ("-blocks", "6", "-daemons", "6")
#: What afsd creates, and what it does not.
OWN = ("CacheItems", "CellItems", "D0/V0", "D0/V12", "D1/V2048", "D10/V9", "V3", "VolumeItems")
FOREIGN = ("Vx", "lost+found/V1", "other/V1", "other/D0/V1", "D", "notes")


def test_the_same_files_are_deleted_wherever_a_cache_is_emptied() -> None:
    scripts = resources.files("tuner.services.openafs") / "scripts"
    names = DELETION[DELETION.index("-regex") + 1]
    for name in ("kernel-remount.sh", "fuse-remount.sh"):
        assert f"-regex '{names}' -delete" in (scripts / name).read_text()


def client(*words: object) -> Part:
    return Part("cache_manager", KERNEL_CLIENT, (*WORDS, *map(str, words)))


def files(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


@dataclass
class Host:
    """A client host with programs that note how they are called."""

    here: Path

    def __post_init__(self) -> None:
        programs = self.here / "bin"
        programs.mkdir()
        for name, body in {
            "systemctl": f'ulimit -S -f $(ulimit -H -f); echo "$@" >> {self._quoted("log")}',
            # Like the real one as a tree: status 0 also when it shows nothing.
            "findmnt": f"test ! -e {self._quoted('mount')} || echo /afs",
            "lsmod": f"test ! -e {self._quoted('module')} || echo openafs 1 0",
        }.items():
            (programs / name).write_text(f"#!/bin/sh\n{body}\n")
            (programs / name).chmod(0o755)
        for name in (*OWN, *FOREIGN):
            (self.cache / name).parent.mkdir(parents=True, exist_ok=True)
            (self.cache / name).touch()
        self.cacheinfo.write_text(f"/afs:{self.cache}:50000\n")
        self.options.write_text("# kept\nAFS_CLIENT=true\nOPTIONS=AUTOMATIC\n")

    def _quoted(self, name: str) -> str:
        return shlex.quote(str(self.here / name))

    @property
    def cache(self) -> Path:
        return self.here / "cache"

    @property
    def cacheinfo(self) -> Path:
        return self.here / "cacheinfo"

    @property
    def options(self) -> Path:
        return self.here / "afs.conf"

    @property
    def calls(self) -> list[str]:
        log = self.here / "log"
        return log.read_text().splitlines() if log.exists() else []

    def run(
        self, part: Part, *arguments: Path, start: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run the script for a client there, in a shell that first does ``start``."""
        script = self.here / "set.sh"
        script.write_text(render("script", [part]).text)
        subprocess.run(["bash", "-n", script], check=True, timeout=60)
        return subprocess.run(
            ["sh", "-c", f'{start}\nexec sh "$@"', "sh", script, self.options, *arguments],
            env={"PATH": f"{self.here / 'bin'}:/usr/bin:/bin"},
            check=False,
            timeout=60,
            capture_output=True,
            text=True,
        )

    def is_as_found(self) -> bool:
        return (
            not list(self.here.glob("afs.conf?*"))
            and "OPTIONS=AUTOMATIC" in self.options.read_text()
            and files(self.cache)
            == {
                *OWN,
                *FOREIGN,
            }
        )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_script_for_a_client_sets_its_options_and_keeps_the_rest(host: Host) -> None:
    for _ in range(2):
        assert host.run(client("-memcache")).returncode == 0
        line = 'OPTIONS="-blocks 6 -daemons 6 -memcache"'
        assert host.options.read_text().splitlines() == ["# kept", "AFS_CLIENT=true", line]
    assert host.calls == ["stop openafs-client", "start openafs-client"] * 2
    assert files(host.cache) == {*OWN, *FOREIGN}


def test_the_file_of_options_keeps_its_mode_and_its_link(host: Host) -> None:
    options = host.options.rename(host.here / "elsewhere")
    options.chmod(0o660)
    host.options.symlink_to(options)
    assert host.run(client("-memcache")).returncode == 0
    assert host.options.is_symlink()
    assert options.stat().st_mode & 0o777 == 0o660
    assert "-memcache" in options.read_text()
    assert not list(host.here.glob("elsewhere?*"))


@pytest.mark.parametrize("words", [[], ["-memcache"]])
def test_nothing_is_stopped_where_the_options_cannot_be_written(
    host: Host, words: list[str]
) -> None:
    """A full disk would leave a stopped client with an empty file."""
    before = host.options.read_text()
    # Writing to a file fails, as on a full disk.
    done = host.run(client(*words), host.cacheinfo, start="trap '' XFSZ; ulimit -S -f 0")
    assert done.returncode
    assert host.options.read_text() == before
    assert host.is_as_found()
    assert host.calls == []


def test_nothing_is_stopped_where_there_is_no_file_of_options(host: Host) -> None:
    host.options.unlink()
    done = host.run(client("-memcache"))
    assert done.returncode == 1
    assert f"there is no {host.options}; nothing was changed" in done.stderr
    assert host.calls == []


@pytest.mark.parametrize(
    "options",
    [[], ["-cachedir", "HERE/cache"], ["-cachedir=HERE/cache"], ["--ca", "HERE/cache/"]],
)
def test_a_script_for_a_client_empties_its_cache(host: Host, options: list[str]) -> None:
    words = [word.replace("HERE", str(host.here)) for word in options]
    if words:
        host.cacheinfo.unlink()
    done = host.run(client(*words), host.cacheinfo)
    assert (done.returncode, done.stderr) == (0, "")
    assert files(host.cache) == set(FOREIGN)
    assert not list(host.cache.glob("D[0-9]*"))
    assert host.calls == ["stop openafs-client", "start openafs-client"]


def test_cacheinfo_may_be_where_an_option_says(host: Host) -> None:
    assert host.run(client("-confdir", host.here)).returncode == 0
    assert files(host.cache) == set(FOREIGN)


@pytest.mark.parametrize(
    ("cacheinfo", "words"),
    [
        ("", []),
        ("/afs::500", []),
        ("/afs:/:500", []),
        ("/afs://:500", []),
        ("/afs:/.:500", []),
        ("/afs:cache:500", []),
        ("/afs:/none/such:500", []),
        ("/afs:/etc/passwd:500", []),
        ("/afs:/tmp:500\n/afs:/var:500", []),
        ("CACHE", ["-cachedir", "/"]),
        ("CACHE", ["-cachedir", "cache"]),
        ("CACHE", ["-cachedir", "/none/such"]),
        (None, []),
    ],
)
def test_nothing_is_stopped_where_there_is_no_cache_to_empty(
    host: Host, cacheinfo: str | None, words: list[str]
) -> None:
    if cacheinfo is None:
        host.cacheinfo.unlink()
    elif cacheinfo != "CACHE":
        host.cacheinfo.write_text(f"{cacheinfo}\n")
    done = host.run(client(*words), host.cacheinfo)
    assert done.returncode == 1
    assert "is no cache directory; nothing was changed" in done.stderr
    assert host.is_as_found()
    assert host.calls == []


@pytest.mark.parametrize("what", ["mount", "module"])
def test_nothing_is_changed_while_the_old_client_is_there(host: Host, what: str) -> None:
    (host.here / what).touch()
    done = host.run(client(), host.cacheinfo)
    assert done.returncode == 1
    assert "openafs-client has not stopped: end what uses its files" in done.stderr
    # Its unit is inactive, so that 'systemctl stop' would do nothing.
    assert "umount /afs && rmmod openafs (libafs with upstream's packages)" in done.stderr
    assert "stop it again" not in done.stderr
    assert host.is_as_found()
    assert host.calls == ["stop openafs-client"]


def test_a_client_whose_cache_cannot_be_emptied_stays_stopped(host: Host) -> None:
    """Its subdirectory would still be one too many."""
    (host.cache / "D10" / "notes").touch()
    done = host.run(client(), host.cacheinfo)
    assert done.returncode == 1
    assert "cannot be emptied; openafs-client stays stopped" in done.stderr
    assert (host.cache / "D10" / "notes").exists()
    assert "OPTIONS=AUTOMATIC" in host.options.read_text()
    assert host.calls == ["stop openafs-client"]


def tasks_of(part: Part) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]] = yaml.safe_load(render("ansible", [part]).text)
    return tasks


def module(task: dict[str, Any]) -> str:
    return next(key for key in task if key.startswith("ansible.builtin."))


def test_tasks_empty_the_cache_of_a_stopped_client(host: Host) -> None:
    tasks = tasks_of(client())
    steps = [module(task).removeprefix("ansible.builtin.") for task in tasks]
    looking = ["stat", "assert", "set_fact", "slurp", "set_fact", "stat", "assert"]
    assert steps == [*looking, "service", "command", "command", "lineinfile", "service"]
    check, emptying = tasks[8:10]
    assert check["failed_when"] == "afs_left_over.rc != 1"
    assert "umount /afs && rmmod openafs (libafs with upstream's packages)" in check["name"]
    command = emptying["ansible.builtin.command"]
    assert command["chdir"] == "{{ afs_cache }}"
    subprocess.run(command["argv"], cwd=host.cache, check=True, timeout=60)
    assert files(host.cache) == set(FOREIGN)


def test_tasks_for_a_cache_in_memory_empty_nothing() -> None:
    steps = [
        module(task).removeprefix("ansible.builtin.") for task in tasks_of(client("-memcache"))
    ]
    looking = ["stat", "assert", "set_fact"]
    assert steps == [*looking, "service", "command", "lineinfile", "service"]


@pytest.mark.parametrize("part", [client(), client("-memcache")])
def test_tasks_stop_no_client_without_the_file_that_they_change(part: Part) -> None:
    """lineinfile fails without it, and the client is stopped by then."""
    look, check, *_ = tasks = tasks_of(part)
    (line,) = (task for task in tasks if module(task).endswith("lineinfile"))
    assert look["ansible.builtin.stat"]["path"] == line["ansible.builtin.lineinfile"]["path"]
    assert check["ansible.builtin.assert"]["that"] == [
        f"{look['register']}.stat.isreg | default(false)"
    ]
    message = check["ansible.builtin.assert"]["fail_msg"]
    assert "where Debian has the client's OPTIONS; nothing was changed" in message
    assert "AFSD_ARGS in /etc/sysconfig/openafs" in message


@pytest.mark.parametrize(
    ("line", "is_left"),
    [
        ("AFS /afs afs rw,relatime 0 0", True),
        ("openafs 2535424 2 - Live 0x0000000000000000 (POE)", True),
        ("libafs 2535424 2 - Live 0x0000000000000000 (POE)", True),
        ("/dev/sda1 /srv/afs ext4 rw 0 0", False),
        ("kafs 300 0 - Live 0x0", False),
    ],
)
def test_tasks_see_a_client_that_has_not_stopped(tmp_path: Path, line: str, is_left: bool) -> None:
    argv = tasks_of(client())[8]["ansible.builtin.command"]["argv"]
    assert argv[-2:] == ["/proc/mounts", "/proc/modules"]
    (tmp_path / "lines").write_text(f"{line}\n")
    done = subprocess.run(
        [*argv[:-2], tmp_path / "lines"], check=False, timeout=60, capture_output=True
    )
    assert (done.returncode == 0) == is_left


@pytest.mark.parametrize(
    ("path", "is_good"),
    [
        ("/var/cache/openafs", True),
        ("/var/cache/openafs/", True),
        ("/.cache", True),
        *((path, False) for path in ("", "/", "//", "/.", "/..", "/x/..", "cache", "./x")),
    ],
)
def test_tasks_refuse_a_path_that_is_no_cache_directory(path: str, is_good: bool) -> None:
    name, exists = tasks_of(client())[6]["ansible.builtin.assert"]["that"]
    pattern = re.fullmatch(r"afs_cache is match\('(.*)'\)", name)
    assert pattern is not None
    assert bool(re.match(pattern[1], path)) == is_good
    assert exists == "afs_cache_found.stat.isdir | default(false)"


@pytest.mark.parametrize(
    ("options", "directory"),
    [
        ("-blocks 6", []),
        ("-blocks 6 -cachedir /x -daemons 6", ["/x"]),
        ("-cachedir=/x", ["/x"]),
        ("--ca /x", ["/x"]),
        ("-chunksize 18", []),
    ],
)
def test_tasks_find_the_directory_in_the_options(options: str, directory: list[str]) -> None:
    expression = tasks_of(client())[4]["ansible.builtin.set_fact"]["afs_cache"]
    in_options, in_cacheinfo = re.findall(r"regex_findall\('(.*?)'\)", expression)
    assert re.findall(in_options, options) == directory
    assert re.findall(in_cacheinfo, "/afs:/var/cache/openafs:50000") == ["/var/cache/openafs"]
    assert not re.findall(in_cacheinfo, "/afs:/var/cache/openafs")


def test_every_format_for_a_client_empties_the_cache_or_says_when_to() -> None:
    clients = {KERNEL_CLIENT, FUSE_CLIENT}
    for form in formats().values():
        says = "empty the cache directory while the client is stopped" in form.mind
        empties = "the cache of a client is emptied" in form.mind
        assert empties == (form.programs == {FILESERVER, KERNEL_CLIENT}), form.name
        assert says == (not empties and bool(form.programs & clients)), form.name


def test_limits_of_the_kernel_are_for_the_fileserver() -> None:
    mind = formats()["sysctl.d"].mind
    assert "every host" not in mind
    assert mind.startswith("on the fileserver's host")
