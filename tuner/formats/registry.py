"""All formats by name, and the rendering of a configuration in one of them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from tuner.errors import SpecError
from tuner.formats.ansible import Ansible
from tuner.formats.assigned import AfsConf, Sysconfig
from tuner.formats.bos import Bos, BosConfig
from tuner.formats.cacheinfo import CacheInfo
from tuner.formats.openafs_conf import ClientConf, ServerConf
from tuner.formats.script import Script
from tuner.formats.sysctl import SysctlFile
from tuner.services.form import Format, Part, pairs
from tuner.services.kinds import kinds

_OWN: tuple[Format, ...] = (
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
_NAME = re.compile(r"[a-z][a-z0-9]*([._-][a-z0-9]+)*")
#: How 'fstune recommend' prints a recommendation otherwise.
_OTHERS = ("text", "json", "flags")
_log = logging.getLogger("fstune.formats")


@cache
def formats() -> dict[str, Format]:
    """All formats by name: fstune's own, then those of the kinds of services.

    One that cannot be named is skipped with a warning.
    """
    by_name = {each.name: each for each in _OWN}
    for kind in kinds():
        for each in kind.formats:
            if not _NAME.fullmatch(each.name) or each.name in (*by_name, *_OTHERS):
                why = "its name is not a word, or is already used"
                _log.warning("the format %r of %s cannot be used: %s", each.name, kind.name, why)
            else:
                by_name[each.name] = each
    return by_name


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
    form = formats()[name]
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
