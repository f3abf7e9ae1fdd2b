"""Wire format of requests to a host's supervisor and of its answers; see ``supervisor.py``.

Owns the format only, not the transport.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tuner.errors import TransportError
from tuner.hosts.connector import OUTPUT_LIMIT_BYTES, CommandTimeout, OutputTooLarge, program

#: Command that reads the supervisor from standard input and executes it. Nothing is left on the
#: host, and arguments of commands never pass through a shell.
BOOTSTRAP = (
    "python3",
    "-I",
    "-S",
    "-c",
    "import sys; exec(sys.stdin.buffer.read(int(sys.stdin.buffer.readline())))",
)
#: Command that becomes the command in the first line of its standard input, and reads no further.
CONVERSATION = (
    "python3",
    "-I",
    "-S",
    "-c",
    "import json, os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); "
    'argv = json.loads(open(0, "rb", 0, closefd=False).readline()); os.execvp(argv[0], argv)',
)
#: The modules of the supervisor; each may import those before it.
_MODULES = ("supervised_command", "supervisor")
_BUNDLE = """\
import sys, types
for name, source in {modules!r}.items():
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
module.main()
"""
_HEADER_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a supervisor. ``ended``: ``exit`` for a command that ran to its end, otherwise
    the outcome of the command or request; ``dead``: whether a killed command is really gone.
    """

    ended: str
    status: int
    dead: bool
    stdout: bytes
    stderr: bytes
    boot_id: str = ""

    def finished(self, host: str, argv: Sequence[str], timeout_s: float) -> Answer:
        """Return self if the command ran to its end. Raises CommandTimeout, OutputTooLarge, or
        TransportError when it never ran.
        """
        what = f"{host}: {program(argv)}"
        match self.ended:
            case "exit":
                return self
            case "timeout":
                suffix = "" if self.dead else "; it does not die; the kernel is holding it"
                raise CommandTimeout(host, argv, f"not finished after {timeout_s:g} s{suffix}")
            case "too-large":
                raise OutputTooLarge(host, argv)
        message = self.stderr.decode(errors="replace")
        raise TransportError(f"{what}: the host could not run it ({self.ended}): {message}")


@dataclass(frozen=True, slots=True)
class Request:
    """A request. ``do``: ``run``, ``greet``, ``attend`` or ``forget``. ``fields``: as read by the
    supervisor. ``input``: the command's standard input. ``beat_s``: interval of heartbeats.
    """

    do: str
    beat_s: float
    fields: Mapping[str, object]
    input: bytes = b""

    def encode(self, mark: str, *, first: bool = True) -> bytes:
        """The bytes to send; the ``first`` request is preceded by the supervisor's source."""
        document = dict(self.fields)
        document |= {
            "do": self.do,
            "mark": mark,
            "beat_s": self.beat_s,
            "limit_bytes": OUTPUT_LIMIT_BYTES,
            "input_bytes": len(self.input),
        }
        source = supervisor()
        head = b"%d\n%s" % (len(source), source) if first else b""
        return head + json.dumps(document).encode() + b"\n" + self.input


class _Header(BaseModel):
    """The first line of an answer: how the command ended, and how much output follows."""

    model_config = ConfigDict(strict=True, frozen=True)

    ended: str = Field(max_length=20)
    status: int = Field(ge=-64, le=255)
    dead: bool
    stdout_bytes: int = Field(ge=0, le=OUTPUT_LIMIT_BYTES)
    stderr_bytes: int = Field(ge=0, le=OUTPUT_LIMIT_BYTES)
    boot_id: str = Field(default="", max_length=100)

    @classmethod
    def read(cls, line: bytes | bytearray) -> _Header:
        """Parse a header. Raises ValueError, with a one-line message, when it is invalid."""
        try:
            return cls.model_validate_json(bytes(line))
        except ValidationError as problem:
            error = problem.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, error["loc"])) or "its header"
            raise ValueError(f"{where}: {error['msg']}") from None


class AnswerReader:
    """Extracts the answer from the bytes that a host sends. Anything may precede its mark, such as
    output of login scripts, and heartbeats.
    """

    def __init__(self) -> None:
        self.mark = secrets.token_hex(16)
        self._buffer = bytearray()
        self._header: _Header | None = None
        self._marked = False

    def feed(self, data: bytes) -> Answer | None:
        """Add received bytes; return the answer once it is complete. Raises ValueError."""
        self._buffer += data
        if not self._marked:
            before, mark, after = self._buffer.partition(self.mark.encode())
            self._marked = bool(mark)
            self._buffer = after if mark else before[-len(self.mark) :]
        if self._marked and self._header is None:
            self._read_header()
        head = self._header
        if head is None or len(self._buffer) < head.stdout_bytes + head.stderr_bytes:
            return None
        body = bytes(self._buffer)
        return Answer(
            ended=head.ended,
            status=head.status,
            dead=head.dead,
            stdout=body[: head.stdout_bytes],
            stderr=body[head.stdout_bytes : head.stdout_bytes + head.stderr_bytes],
            boot_id=head.boot_id,
        )

    def _read_header(self) -> None:
        line, newline, after = self._buffer.partition(b"\n")
        if not newline:
            if len(line) > _HEADER_LIMIT_BYTES:
                raise ValueError("its first line does not end")
            return
        self._header = _Header.read(line)
        self._buffer = after


@cache
def supervisor() -> bytes:
    """Source of the supervisor, the program that a host runs for us: its modules in one."""
    folder = files("tuner.hosts")
    modules = {name: folder.joinpath(f"{name}.py").read_text("utf-8") for name in _MODULES}
    return _BUNDLE.format(
        modules={f"tuner.hosts.{name}": modules[name] for name in _MODULES}
    ).encode()
