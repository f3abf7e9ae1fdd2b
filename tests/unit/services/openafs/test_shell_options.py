"""The options of a client in a file that a shell reads: what is read, refused and written."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tuner.errors import ConfigurationError
from tuner.services.openafs.shell_options import options_in, with_options

#: As Debian's package has it: another file is read first, and comments and functions follow.
DEBIAN = """\
# -*- sh -*-
# To change them, run dpkg-reconfigure; don't edit afs.conf.client.

test -f /etc/openafs/afs.conf.client && . /etc/openafs/afs.conf.client

VERBOSE=

# You can override that by setting OPTIONS to a specific set of flags.
OPTIONS=AUTOMATIC

#AFS_SYSNAME=""
afs_server_prefs() {
    fs setserverprefs 192.0.2.1 20000
}
AFS_POST_INIT=
#AFS_POST_INIT=afs_server_prefs
"""
RED_HAT = """\
# OpenAFS Client Configuration
AFSD_ARGS="-dynroot -fakestat -afsdb"

# OpenAFS Server Configuration
BOSSERVER_ARGS=
"""
#: As older ones of upstream.
CONDITIONS = """\
if [ "x$AFS_AFSDB" = "xtrue" ] ; then
    AFSDB="-afsdb"
    else AFSDB=""
    fi
if [ "x$AFS_NOSETTIME" = "xauto" ] ; then
    for f in $PROGRAMS; do
       test -e "/usr/sbin/$f" && {
           NOSETTIME="-nosettime"
           break
       }
    done
fi
case $(uname -r) in
2.*) LARGE=1 ;;
(3.*|4.*) LARGE=2 ;;
esac
large() (
    while [ -z "$OPTIONS" ] || [ "${OPTIONS}" = "it's ${OPTIONS:-$LARGE}" ]; do
        echo "a \\\\" b
    done
)
OPTIONS="-daemons 3"
export OPTIONS
"""


@pytest.mark.parametrize(
    ("text", "variable", "options"),
    [
        (DEBIAN, "OPTIONS", ()),
        (
            DEBIAN.replace("AUTOMATIC", '"-afsdb -stat 4000"'),
            "OPTIONS",
            ("-afsdb", "-stat", "4000"),
        ),
        (RED_HAT, "AFSD_ARGS", ("-dynroot", "-fakestat", "-afsdb")),
        (CONDITIONS, "OPTIONS", ("-daemons", "3")),
        # Plain to systemd.
        ("; don't\nAFSD_ARGS = -a 1\nB=it's\n", "AFSD_ARGS", ("-a", "1")),
    ],
)
def test_files_of_packages_are_read(text: str, variable: str, options: tuple[str, ...]) -> None:
    assert options_in(text, variable) == options
    new = with_options(text, variable, ["-z", "3"])
    assert options_in(new, variable) == ("-z", "3")
    others = [line for line in text.splitlines() if not line.startswith(variable)]
    assert new.splitlines() == [*others, f'{variable}="-z 3"']


CHANGES = [
    'OPTIONS+=" -x"',
    ': ${OPTIONS:="-x"}',
    ': "${OPTIONS=-x}"',
    "if true; then\n    OPTIONS=-x\nfi",
    "if true; then\nOPTIONS=-x\nfi",
    "if false; then :; else OPTIONS=-x; fi",
    "case a in\na)\nOPTIONS=-x\n;; esac",
    "case a in [ab]) OPTIONS=-x ;; esac",
    "for one in 1; do\nOPTIONS=-x\ndone",
    "while true; do\nOPTIONS=-x\nbreak\ndone",
    "until false; do OPTIONS=-x; break; done",
    "change() {\nOPTIONS=-x\n}\nchange",
    "{\nOPTIONS=-x\n}",
    "true && OPTIONS=-x",
    "true; OPTIONS=-x",
    "MORE=1 \\\nOPTIONS=-x",
    "export MORE=1 OPTIONS=-x",
    "readonly OPTIONS=-x",
    "unset OPTIONS",
    'unset -v "OPTIONS"',
    "read -r OPTIONS <<END\n-x\nEND",
    "for OPTIONS in -x; do :; done",
    "eval 'OPT''IONS=-x'",
    ". ./more",
    "test ! -f more || . ./more",
    "if [ -f more ]; then . ./more; fi",
    "command . ./more",
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_shell_would_change_is_refused(change: str) -> None:
    text = f"# local\nOPTIONS=-a\n{change}\n"
    lines = range(3, 3 + len(change.split("\n")))
    why = rf"line ({'|'.join(map(str, lines))}), .* may change OPTIONS .*write one plain assignment"
    with pytest.raises(ValueError, match=why):
        options_in(text, "OPTIONS")
    # A plain assignment after it is what holds, and nothing else is taken out of the file.
    assert options_in(f"{text}OPTIONS=-b\n", "OPTIONS") == ("-b",)
    assert with_options(text, "OPTIONS", ["-z"]) == f'# local\n{change}\nOPTIONS="-z"\n'


@pytest.mark.parametrize("change", [one for one in CHANGES if not one.startswith(("read", "unti"))])
def test_a_shell_does_change_it(change: str, tmp_path: Path) -> None:
    """Otherwise, what is refused would be no reason to."""
    (tmp_path / "more").write_text("OPTIONS=-x\n")
    shows = 'printf %s "$OPTIONS"'
    script = f"OPTIONS={'' if '=-x}' in change or ':=' in change else '-a'}\n{change}\n{shows}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, check=True, timeout=60, capture_output=True
    )
    assert done.stdout != b"-a"


@pytest.mark.parametrize("text", [". /etc/openafs/more\n", "unset OPTIONS\n"])
def test_a_file_without_a_plain_assignment_may_be_refused_too(text: str) -> None:
    with pytest.raises(ValueError, match=r"line 1, .* may change OPTIONS"):
        options_in(text, "OPTIONS")


def test_a_line_within_quotes_is_no_assignment() -> None:
    text = 'OPTIONS=-a\nNOTE="as in\nOPTIONS=-x\n"\n'
    with pytest.raises(ValueError, match="line 2, 'NOTE=\"as in', may change OPTIONS"):
        options_in(text, "OPTIONS")
    assert with_options(text, "OPTIONS", []) == text.removeprefix("OPTIONS=-a\n") + 'OPTIONS=""\n'


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", ()),
        ("OPTIONS=AUTOMATIC\n", ()),
        ("OPTIONS=-afsdb # usual\n", ("-afsdb",)),
        ("OPTIONS='-a 1'\nexport OPTIONS=\"-b\t2\"\n", ("-b", "2")),
        ("#OPTIONS=-x\nXOPTIONS=-y\n", ()),
    ],
)
def test_options_are_those_of_the_last_assignment(text: str, options: tuple[str, ...]) -> None:
    assert options_in(text, "OPTIONS") == options
    assert options_in(with_options(text, "OPTIONS", ["-z", "3"]), "OPTIONS") == ("-z", "3")


@pytest.mark.parametrize("value", ["$(reboot)", '"$MORE -x"', "`id`", "-a;reboot", "'unclosed"])
def test_options_that_only_a_shell_could_evaluate_are_refused(value: str) -> None:
    with pytest.raises(ValueError, match="OPTIONS"):
        options_in(f"OPTIONS={value}\n", "OPTIONS")


@pytest.mark.parametrize("option", ["$(reboot)", "a b", "a;b", "`id`", 'a"', "a\nb", ""])
def test_options_that_a_shell_could_evaluate_are_never_written(option: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written to"):
        with_options("", "OPTIONS", ["-a", option])


@pytest.mark.parametrize("end", ["\f", "\v", "\x1c", "\x85", "\u2028", "\r"])
def test_a_comment_ends_where_a_shell_ends_it(end: str) -> None:
    text = f"# old:{end}OPTIONS=-a\nMORE=1\r\n"
    assert options_in(text, "OPTIONS") == ()
    assert with_options(text, "OPTIONS", ["-z"]) == f'{text}OPTIONS="-z"\n'
