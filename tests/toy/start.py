"""A start of toyd: one question, and no file."""

from __future__ import annotations

from pathlib import Path

from tuner.errors import SpecError
from tuner.services.start import Draft, Interview, Question, Start


class ToyStart(Start):
    name = "toy"
    title = "toyd"
    questions = (Question("place", "Where?", "It is kept there."),)

    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        raise SpecError("not in this test")
