"""All formats by name, and the rendering of a configuration in one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tuner.errors import SpecError
from tuner.formats.ansible import Ansible
from tuner.formats.assigned import AfsConf, Sysconfig
from tuner.formats.bos import Bos, BosConfig
from tuner.formats.cacheinfo import CacheInfo
from tuner.formats.form import Format, Part, pairs
from tuner.formats.openafs_conf import ClientConf, ServerConf
from tuner.formats.script import Script
from tuner.formats.sysctl import SysctlFile

_ALL: tuple[Format, ...] = (
    Bos(),
    BosConfig(),
    ServerConf(),
    ClientConf(),
    AfsConf(),
    CacheInfo(),
    Sysconfig(),
    Ansible(),
    Script(),
    SysctlFile(),
)
FORMATS: Mapping[str, Format] = {each.name: each for each in _ALL}
#: The format that most administrators want for a program's options.
USUAL: Mapping[str, str] = {
    "afsd.fuse": "openafs-client.conf",
    "afsd": "afs.conf",
    "dafileserver": "bosconfig",
    "sysctl": "sysctl.d",
}


@dataclass(frozen=True, slots=True)
class Rendering:
    """A configuration in a format.

    ``left_out``: sentences on what the format cannot hold; ``mind``: what to check before using it.
    """

    text: str
    left_out: tuple[str, ...]
    mind: str


def render(name: str, parts: Sequence[Part]) -> Rendering:
    """Render the parts in the format of that name, as far as it can hold them.

    Raises SpecError if it can hold none of them, or cannot represent a word exactly.
    """
    form = FORMATS[name]
    held_parts = [part for part in parts if part.program in form.programs]
    if not held_parts:
        holds = " and ".join(sorted(form.programs))
        raise SpecError(f"{name}: it has options of {holds} only, none of which is tuned here")
    if len(held_parts) > 1 and not form.together:
        raise SpecError(f"{name}: it is for one program at a time; choose it with --part")
    words = [part.words for part in held_parts]
    if any(words) and not any(map(form.holds, words)):
        all_options = " ".join(option for each in words for option, _ in pairs(each))
        raise SpecError(f"{name}: it can hold none of the options here, {all_options}")
    left_out, text = [], ""
    for part in parts:
        options = form.holds(part.words) if part in held_parts else ()
        rest = [w for name, of in pairs(part.words) for w in (name, *of) if name not in options]
        if rest:
            left_out.append(f"{part.name}: {name} cannot hold {' '.join(rest)}")
        if part in held_parts:
            head = f"{form.comment} {part.name}\n" if len(held_parts) > 1 and form.comment else ""
            text += head + form.write(part)
    return Rendering(text, tuple(left_out), f"{name}: {form.mind}")
