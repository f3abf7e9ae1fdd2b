"""The format of recommendations for toyd: its own file."""

from __future__ import annotations

from tuner.errors import SpecError
from tuner.services.form import Part, Whole


class ToydConf(Whole):
    name = "toyd.conf"
    about = "toyd's file"
    where = "the directory of toyd"
    programs = frozenset({"toyd"})
    comment = ""

    def write(self, part: Part) -> str:
        """See Format.write."""
        for word in part.words:
            if word.splitlines() != [word]:
                raise SpecError(f"{word!r} is not a line; choose another format")
        return "".join(f"{word}\n" for word in part.words) or "\n"

    def read(self, text: str) -> tuple[str, ...]:
        """See Format.read."""
        return tuple(text.split("\n")[:-1]) if text != "\n" else ()
