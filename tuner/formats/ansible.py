"""Tasks for Ansible. Their commands are argument lists; no shell is involved."""

from __future__ import annotations

from typing import Any

import yaml

from tuner.formats import bos
from tuner.formats.assigned import assigned, assignment
from tuner.formats.programs import FILESERVER, KERNEL_CLIENT
from tuner.services.form import Part, Whole

_COMMAND, _LINE = "ansible.builtin.command", "ansible.builtin.lineinfile"
_SERVICE = "ansible.builtin.service"


class Ansible(Whole):
    """See ``about``."""

    name = "ansible"
    about = "tasks for Ansible; the variable `afs_server` is the server's address"
    where = "a playbook"
    mind = bos.MIND
    programs = frozenset({FILESERVER, KERNEL_CLIENT})
    comment = "#"

    def write(self, part: Part) -> str:
        """See Format.write."""
        tasks = _server(part) if part.program == FILESERVER else _client(part)
        return yaml.safe_dump(tasks, sort_keys=False, width=100)

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        for task in yaml.safe_load(text):
            if _LINE in task:
                return assigned(task[_LINE]["line"])
            if task.get(_COMMAND, {}).get("argv", [])[:2] == ["bos", "create"]:
                return bos.words_of(task[_COMMAND]["argv"])
        raise ValueError("no task gives options")


def _server(part: Part) -> list[dict[str, Any]]:
    return [
        {"name": f"fileserver: {step[0]} {step[1]}", _COMMAND: {"argv": step}}
        for step in bos.steps(part, "{{ afs_server }}")
    ]


def _client(part: Part) -> list[dict[str, Any]]:
    line = assignment("OPTIONS", part)
    file = {"path": "/etc/openafs/afs.conf", "regexp": "^OPTIONS=", "line": line}
    return [
        {"name": "cache manager: options", _LINE: file},
        {
            "name": "cache manager: stop, with nothing in use below /afs",
            _SERVICE: {"name": "openafs-client", "state": "stopped"},
        },
        {
            "name": "cache manager: check that it has stopped: starting it otherwise may crash",
            _COMMAND: {"argv": ["findmnt", "--noheadings", "--types", "afs"]},
            "register": "afs_mounts",
            "changed_when": False,
            "failed_when": "afs_mounts.rc == 0",
        },
        {
            "name": "cache manager: start",
            _SERVICE: {"name": "openafs-client", "state": "started"},
        },
    ]
