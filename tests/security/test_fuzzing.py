"""Every parser of external input, given malformed input: it returns a result, or raises the one
error that its callers expect.

``FSTUNE_FUZZ`` is the number of cases for each (60); 20,000 were run once, see docs/security.md.
"""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import search_spaces
from api.campaigns import stream_place
from api.paging import read_token, write_token
from search_spaces import SpaceError
from tests.conftest import ROOT
from tests.unit.store.test_archive import filled
from tuner.errors import ConflictError, SpecError, TestbedError, WorkloadError
from tuner.hosts.connector import CommandResult
from tuner.hosts.exchange import AnswerReader
from tuner.measure.diagnostics.machine import cpu_counters, udp_counters
from tuner.measure.diagnostics.process import (
    context_switches,
    cpu_s,
    process_gauges,
    process_life,
    process_status,
)
from tuner.measure.driver import read_report
from tuner.services.facts import host_facts, rmem_max_bytes
from tuner.services.openafs import cache_manager, facts, fuse, limits, parse
from tuner.services.openafs.counters import client_probe, server_probe
from tuner.services.openafs.limits import open_files
from tuner.services.openafs.rx import rx_counters, rx_gauges
from tuner.services.openafs.shell_options import options_in
from tuner.services.openafs.testbed_file import read_testbed
from tuner.services.openafs.xstat import cache_manager_counters, fileserver_counters
from tuner.spec.campaign import read_spec
from tuner.store import Store
from tuner.store.access import Access
from tuner.store.archive import export_campaign, import_campaign
from tuner.tokens import Scope

CASES = int(os.environ.get("FSTUNE_FUZZ", "60"))
pytestmark = pytest.mark.timeout(300 + CASES)
many = settings(
    max_examples=CASES,
    database=None,
    # The time of one case depends on the machine rather than on the parser.
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
OPENAFS = ROOT / "tests" / "data" / "openafs"
TEXTS = {path.stem: path.read_text() for path in sorted(OPENAFS.glob("*.txt"))}
#: What breaks parsers: nothing, numbers beyond all types, signs, controls, half characters.
BITS = (
    "", "0", "-1", "9" * 400, "1e400", "nan", "inf", "0x1", "\0", "\n", "\r\n", "\t", "\x1b[2J",
    "\u202e", "\ud800", "é", "٣", "'", '"', "\\", ":", "=", "[", "]", "{", "}", "null", "true",
    "..", "/", "%", "$(x)", "- ", "&a", "*a", "!!python/object:os.system", "<<: ", "\x85", "\u2028",
    "²",
)  # fmt: skip
edits = st.lists(
    st.tuples(
        st.integers(0, 1 << 30),
        st.integers(0, 60),
        st.one_of(st.sampled_from(BITS), st.text(max_size=8)),
    ),
    max_size=6,
)


def mangled(samples: Sequence[str]) -> st.SearchStrategy[str]:
    """Real output of a tool, with parts cut out and other text inserted."""

    def change(text: str, changes: list[tuple[int, int, str]]) -> str:
        for place, length, new in changes:
            at = place % (len(text) + 1)
            text = text[:at] + new + text[at + length :]
        return text

    return st.one_of(st.text(max_size=80), st.builds(change, st.sampled_from(samples), edits))


def check_message(problem: Exception) -> None:
    """Check that the error says what is wrong."""
    assert str(problem)


def holds(parser: Callable[[str], object], errors: tuple[type[Exception], ...], text: str) -> None:
    try:
        parser(text)
    except errors as problem:
        check_message(problem)


tools = mangled(list(TEXTS.values()))
STAT = "12 (afsd.fuse) S 1 " + " ".join(map(str, range(5, 50)))
PURE: dict[str, Callable[[str], object]] = {
    "bos status": parse.bos_status,
    "bos status of all": parse.bos_instances,
    "BosConfig": parse.bos_config,
    "FileLog": parse.file_log,
    "xstat": parse.xstat,
    "idle threads": parse.idle_threads,
    "clients": parse.clients_connected,
    "volumes": parse.volumes,
    "quota": parse.volume_quota,
    "receive buffer": parse.udp_receive_buffer,
    "port": lambda text: parse.udp_port_of(text, frozenset({6})),
    "cmdebug": parse.cache_configuration,
    "encryption": parse.encryption,
    "cacheinfo": parse.cache_info,
    "tokens": parse.has_tokens,
    "status": process_status,
    "rx counters": rx_counters,
    "rx gauges": rx_gauges,
    "fileserver counters": fileserver_counters,
    "cache manager counters": cache_manager_counters,
    "cpu": cpu_counters,
    "udp": udp_counters,
    "processor time": cpu_s,
    "life": process_life,
    "switches": context_switches,
    "gauges": process_gauges,
    "afsd.conf": lambda text: options_in(text, "OPTIONS"),
    "processes": fuse._sight,
}
OTHERS = {
    "cacheinfo": ["/afs:/var/cache/openafs:200000\n"],
    "afsd.conf": [
        'AFS_CLIENT=true\nOPTIONS="-chunksize 18 -afsdb"\n',
        "OPTIONS=AUTOMATIC\n",
        ". ./x\nif true; then\nOPTIONS=-x; fi\nunset OPTIONS\nA='b' B=\"c\"\n",
    ],
    "processes": ["found 7 61002d6200 /usr/sbin/afsd.fuse\ndecoy 9 1000\nmount root\n"],
    "encryption": ["Security level is currently crypt (data security).\n"],
    "cpu": ["cpu  1 2 3 4 5 6 7 8 9 10\n"],
    "udp": ["Udp: InDatagrams NoPorts InErrors\nUdp: 1 2 3\n"],
    "processor time": [STAT],
    "life": [STAT],
    "switches": ["voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n"],
}


@pytest.mark.parametrize("name", PURE)
def test_what_tools_print(name: str) -> None:
    texts = mangled(OTHERS[name]) if name in OTHERS else tools

    @many
    @given(texts)
    def fuzz(text: str) -> None:
        holds(PURE[name], (ValueError,), text)

    fuzz()


@many
@given(mangled([TEXTS["diagnostics-client"], TEXTS["diagnostics-server"]]))
def test_what_probes_print(text: str) -> None:
    host = SimpleNamespace(host="fs9", put=lambda *arguments, **options: None)
    for probe in (
        client_probe(cast("Any", host), "ws1", "afsd.fuse", "/srv"),
        server_probe(cast("Any", host), "fs9", "dafileserver", "192.0.2.9"),
    ):
        probe.understand(text)


class Babble:
    """A host that answers every command with arbitrary output."""

    host = "fs9"

    def __init__(self, answers: Sequence[str], statuses: Sequence[int]) -> None:
        self._answers, self._statuses, self._count = answers, statuses, 0

    def ask(self, argv: Sequence[str], **_: object) -> CommandResult:
        self._count += 1
        answer = self._answers[self._count % len(self._answers)]
        status = self._statuses[self._count % len(self._statuses)]
        return CommandResult(tuple(argv), status, answer, answer)


SERVER = read_testbed(ROOT / "tests/data/testbeds/everything.yaml").server
PLAIN = ["1700000000.25\n", "4\n", "Python 3.11.2\n", "100 200\n", "MemTotal: 5 kB\n", "Avail\n7\n"]
QUERIES: tuple[Callable[[Any], object], ...] = (
    lambda host: host_facts(host, ["/"]),
    lambda host: facts.server_facts(host, SERVER),
    lambda host: cache_manager.host_limits(host, "/var/cache/openafs"),
    lambda host: limits.server_limits(host, "fileserver"),
    rmem_max_bytes,
    open_files,
    lambda host: fuse._look(host, fuse.FusePlace("/afs", "/c", "/p", "/d")),
)


@many
@given(
    st.sampled_from(QUERIES),
    st.lists(mangled([*PLAIN, *TEXTS.values()]), min_size=1, max_size=5),
    st.lists(st.sampled_from([0, 0, 0, 0, 1]), min_size=1, max_size=3),
)
def test_what_hosts_say_of_themselves(
    query: Callable[[Any], object], texts: list[str], statuses: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(facts, "_PAUSE_S", 0.0)
        try:
            query(Babble(texts, statuses))
        except TestbedError as problem:
            check_message(problem)


HEADER = {"ended": "exit", "status": 0, "dead": True, "stdout_bytes": 3, "stderr_bytes": 1}


@many
@given(mangled([json.dumps(HEADER) + "\nabc", json.dumps([HEADER]) + "\n"]), st.integers(1, 50))
def test_answers_of_a_supervisor(text: str, piece: int) -> None:
    reader = AnswerReader()
    data = b"login\n" + reader.mark.encode() + text.encode(errors="surrogatepass")
    try:
        for start in range(0, len(data), piece):
            reader.feed(data[start : start + piece])
    except ValueError as problem:
        check_message(problem)


REPORT = {
    "ok": True, "engine": {"sha256": "ab"}, "cpu_s": 1.0,
    "components": {"a": {"elapsed_s": 1.0, "operations": 1, "bytes": 1, "latency": {"p50_s": 1.0},
                         "by_operation": {"create": {"bytes": 3}}}},
}  # fmt: skip
ERROR = {"ok": False, "error": {"kind": "a", "operation": "b", "path": "c", "message": "d"}}


@many
@given(mangled([json.dumps(REPORT), json.dumps(ERROR)]), st.sampled_from([0, 1, 3]))
def test_reports_of_the_engine(text: str, status: int) -> None:
    try:
        read_report(CommandResult(("python3",), status, text, ""), "write")
    except WorkloadError as problem:
        check_message(problem)


LINES = [
    "/usr/lib/openafs/dafileserver -fs-state-dont-save -p 128 -cb 64000 -udpsize 131072",
    "parm /usr/lib/openafs/dafileserver -L -p=12 -busyat 600",
    "/usr/sbin/afsd.fuse -dynroot -fakestat -cachedir /var/cache/openafs -blocks 200000",
]


@pytest.mark.parametrize("name", ["openafs-fileserver-1.8", "openafs-cache-manager-fuse-1.8"])
def test_command_lines_of_bosconfig_and_processes(name: str) -> None:
    space = search_spaces.load(name)

    @many
    @given(mangled(LINES))
    def fuzz(text: str) -> None:
        try:
            space.parse(text.split(" ")[1:])
        except SpaceError as problem:
            check_message(problem)

    fuzz()


FILES = [
    path.read_text()
    for kind in ("testbeds", "campaigns/good", "campaigns/bad")
    for path in sorted((ROOT / "tests" / "data" / kind).glob("*.yaml"))
] + [(ROOT / "deploy" / "quickstart.yaml").read_text()]


@pytest.mark.parametrize("read", [read_testbed, read_spec])
def test_files_of_testbeds_and_campaigns(tmp_path: Path, read: Callable[[Path], object]) -> None:
    path = tmp_path / "file.yaml"

    @many
    @given(mangled(FILES))
    def fuzz(text: str) -> None:
        path.write_bytes(text.encode(errors="surrogatepass"))
        try:
            read(path)
        except SpecError as problem:
            check_message(problem)

    fuzz()


@many
@given(
    st.one_of(
        st.text(max_size=200),
        mangled([write_token(["2026-03-01T12:00:00", "a"]), write_token([7]), "W10", "bnVsbA"]),
    )
)
def test_words_of_pages(text: str) -> None:
    for kinds in ((int,), (str, str)):
        try:
            read_token(text, *kinds)
        except SpecError as problem:
            check_message(problem)


@many
@given(st.one_of(st.text(max_size=20), mangled(["17", "2147483648"])))
def test_identifiers_of_last_events(text: str) -> None:
    serving = SimpleNamespace(feeds=SimpleNamespace(refuse_too_many=lambda: None))
    try:
        assert stream_place(cast("Any", serving), None, text[:20]) >= 0
    except SpecError as problem:
        check_message(problem)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("store")) as store:
        yield store


def test_token_headers(store: Store) -> None:
    access, now = Access(store), datetime.now(UTC)
    _, text = access.create("one", Scope.READ, now, None)

    @many
    @given(mangled([text]))
    def fuzz(header: str) -> None:
        assert header == text or access.token_of(header, now) is None

    fuzz()


def test_archives(store: Store, tmp_path: Path) -> None:
    """Both of the contents and of the compressed file."""
    with Store.open(tmp_path / "theirs") as theirs:
        whole = tmp_path / "whole.gz"
        export_campaign(theirs, filled(theirs), whole)
    packed = whole.read_bytes()
    text = gzip.decompress(packed).decode()
    path = tmp_path / "mangled.gz"
    chance = random.Random(7)

    @many
    @given(mangled([text]), st.integers(0, 9))
    def fuzz(inside: str, kind: int) -> None:
        content = bytearray(gzip.compress(inside.encode(errors="surrogatepass"), 1))
        if kind == 0:
            content = bytearray(packed)
            for _ in range(3):
                content[chance.randrange(len(content))] = chance.randrange(256)
        path.write_bytes(content)
        try:
            import_campaign(store, path)
        except (SpecError, ConflictError) as problem:
            check_message(problem)

    fuzz()
