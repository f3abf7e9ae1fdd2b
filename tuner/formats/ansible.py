"""Tasks for Ansible. Their commands are argument lists; no shell is involved."""

from __future__ import annotations

from typing import Any

import yaml

from tuner.formats import bos, client_cache
from tuner.formats.programs import FILESERVER, KERNEL_CLIENT
from tuner.services.form import Part, Whole, plain

_COMMAND, _LINE = "ansible.builtin.command", "ansible.builtin.lineinfile"
_SERVICE, _FACT = "ansible.builtin.service", "ansible.builtin.set_fact"
_ASSERT, _SERVER = "ansible.builtin.assert", "{{ afs_server }}"
_OPTIONS, _FILE = "afs_options", "/etc/openafs/afs.conf"
_LEFT_OVER = "^[^ ]+ [^ ]+ afs |^(openafs|libafs) "


def _value(option: str) -> str:
    """Return an expression for the values, as a list, of the option with that beginning."""
    return f"{_OPTIONS} | regex_findall('(?:^| )--?{option}[a-z]*[ =]+([^ ]+)')"


#: First: where a later task fails, the client is stopped by then.
_FIND_FILE: tuple[dict[str, Any], ...] = (
    {
        "name": f"cache manager: look at {_FILE}",
        "ansible.builtin.stat": {"path": _FILE, "follow": True},
        "register": "afs_file",
    },
    {
        "name": "cache manager: check that the options are there, as with Debian's packages",
        _ASSERT: {
            "that": ["afs_file.stat.isreg | default(false)"],
            "fail_msg": f"there is no {_FILE}, where Debian has the client's OPTIONS; nothing was "
            "changed. On Red Hat's systems AFSD_ARGS in /etc/sysconfig/openafs has them: see the "
            "format sysconfig",
        },
    },
)
#: Where the cache is: in -cachedir, or else in cacheinfo, which -confdir may move.
_FIND_CACHE: tuple[dict[str, Any], ...] = (
    {
        "name": "cache manager: read cacheinfo",
        "ansible.builtin.slurp": {
            "src": f"{{{{ ({_value('co')} + ['/etc/openafs']) | first }}}}/cacheinfo"
        },
        "register": "afs_cacheinfo",
        "failed_when": False,
    },
    {
        "name": "cache manager: find the cache directory",
        _FACT: {
            "afs_cache": f"{{{{ ({_value('ca')} + (afs_cacheinfo.content | default('') | b64decode "
            "| trim | regex_findall('^[^: ]+:([^: ]+):[0-9]+$')) + ['']) | first }}"
        },
    },
    {
        "name": "cache manager: look at the cache directory",
        "ansible.builtin.stat": {"path": "{{ afs_cache }}", "follow": True},
        "register": "afs_cache_found",
    },
    {
        "name": "cache manager: check that there is a cache directory to empty",
        _ASSERT: {
            "that": [
                # Absolute, with a name in it: neither / nor /. nor /..
                "afs_cache is match('(/+[^/]*[^/.][^/]*)+/*$')",
                "afs_cache_found.stat.isdir | default(false)",
            ],
            "fail_msg": "'{{ afs_cache }}', from -cachedir or cacheinfo, is no cache directory; "
            "nothing was changed",
        },
    },
)
_STOP: tuple[dict[str, Any], ...] = (
    {
        "name": "cache manager: stop, with nothing in use below /afs",
        _SERVICE: {"name": "openafs-client", "state": "stopped"},
    },
    {
        "name": "cache manager: check that it has stopped; else end what uses its files and do "
        f"{client_cache.REALLY_STOP}, or reboot",
        # Starting it otherwise may crash: no AFS file system is mounted, and the module is gone.
        _COMMAND: {"argv": ["grep", "-E", _LEFT_OVER, "/proc/mounts", "/proc/modules"]},
        "register": "afs_left_over",
        "changed_when": False,
        "failed_when": "afs_left_over.rc != 1",
    },
)
_EMPTY_CACHE: tuple[dict[str, Any], ...] = (
    {
        "name": "cache manager: empty the cache: up to 1.8.13, afsd may crash with fewer files",
        _COMMAND: {"argv": list(client_cache.DELETION), "chdir": "{{ afs_cache }}"},
    },
)
#: Last, so that a client which does not stop is not started with the options after a reboot.
_START: tuple[dict[str, Any], ...] = (
    {
        "name": "cache manager: write the options",
        _LINE: {
            "path": _FILE,
            "regexp": "^OPTIONS=",
            "line": f'OPTIONS="{{{{ {_OPTIONS} }}}}"',
        },
    },
    {
        "name": "cache manager: start",
        _SERVICE: {"name": "openafs-client", "state": "started"},
    },
)


class Ansible(Whole):
    """See ``about``."""

    name = "ansible"
    about = "tasks for Ansible; the variable `afs_server` is the server's address"
    where = "a playbook for servers, or for clients with Debian's packages"
    mind = f"{bos.MIND}; {client_cache.EMPTIED}"
    programs = frozenset({FILESERVER, KERNEL_CLIENT})
    comment = "#"

    def write(self, part: Part) -> str:
        """See Format.write."""
        tasks = _server(part) if part.program == FILESERVER else _client(part)
        return yaml.safe_dump(tasks, sort_keys=False, width=100)

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        for task in yaml.safe_load(text):
            if _OPTIONS in task.get(_FACT, {}):
                return tuple(task[_FACT][_OPTIONS].split())
            if task.get(_COMMAND, {}).get("argv", [])[:2] == ["bos", "create"]:
                return bos.words_of(task[_COMMAND]["argv"])
        raise ValueError("no task gives options")


def _server(part: Part) -> list[dict[str, Any]]:
    return [
        {
            "name": "fileserver: bos status",
            _COMMAND: {"argv": bos.status(_SERVER)},
            "register": "afs_instance",
            "changed_when": False,
            "failed_when": False,
            "check_mode": False,
        },
        {
            "name": "fileserver: check that bosserver can create the instance again",
            _ASSERT: {
                "that": [
                    f"""afs_instance.stdout is search("is '{program}[ ']")"""
                    for program in bos.programs(part)
                ],
                "fail_msg": f"no instance {bos.INSTANCE} on {_SERVER} has its commands in "
                f"{bos.PLACE}; nothing was changed. Compare with: bos status {_SERVER} -long. "
                f"{' '.join(bos.OTHERWISE)} {{{{ afs_instance.stderr }}}}",
            },
        },
        {
            "name": "fileserver: check that nothing else of the instance would be dropped",
            _ASSERT: {
                "that": [
                    """afs_instance.stdout is not search("Notifier +is '")""",
                    """afs_instance.stdout is not search("Command [2-9] is '[^' ]* ")""",
                ],
                "fail_msg": f"options of another program than the fileserver, or a notifier, which "
                f"'bos create' here would drop; nothing was changed. {bos.ADD_IT} and remove this "
                "task: {{ afs_instance.stdout }}",
            },
        },
        {
            "name": "fileserver: bos getrestricted",
            _COMMAND: {"argv": bos.restricted(_SERVER)},
            "register": "afs_restricted",
            "changed_when": False,
            "failed_when": False,
            "check_mode": False,
        },
        {
            "name": "fileserver: check that bosserver is not in restricted mode",
            _ASSERT: {
                "that": [f"'{bos.IS_RESTRICTED}' not in afs_restricted.stdout"],
                "fail_msg": f"bosserver on {_SERVER} is in restricted mode, in which it creates no "
                "instance; nothing was changed",
            },
        },
        *(
            {"name": f"fileserver: {step[0]} {step[1]}", _COMMAND: {"argv": step}}
            for step in bos.steps(part, _SERVER)
        ),
    ]


def _client(part: Part) -> list[dict[str, Any]]:
    on_disk = client_cache.on_disk(part)
    return [
        *_FIND_FILE,
        {
            "name": "cache manager: options; add any others that you have",
            _FACT: {_OPTIONS: plain(part.words)},
        },
        *(_FIND_CACHE if on_disk else ()),
        *_STOP,
        *(_EMPTY_CACHE if on_disk else ()),
        *_START,
    ]
