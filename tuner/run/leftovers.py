"""What runs of a campaign may have left on a testbed: processes that still run, and files.

A run that fails removes its files itself, within a minute. One whose connection was lost cannot,
and may still be running. What is left is removed before the next run, and before the testbed is put
back; what cannot be removed is reported.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tuner.errors import TunerError
from tuner.measure.workload_run import LEFTOVERS_S, Engine
from tuner.services.testbed import ReadyTestbed

#: The kind of the events that say what could not be removed.
LEFTOVERS = "leftovers"


@dataclass(slots=True)
class Leftovers:
    """Removes what runs of a campaign have left on an open testbed, between its runs.

    ``tell``: called once with each sentence on what could not be removed.
    """

    ready: ReadyTestbed
    campaign: str
    tell: Callable[[str], None]
    _may_still_run: bool = False
    _may_have_files: bool = False
    _sentences: set[str] = field(default_factory=set)

    def expect(self, *, running: bool = False) -> None:
        """Note that a run has failed. ``running``: it may go on, as its connection was lost."""
        self._may_have_files = True
        self._may_still_run = self._may_still_run or running

    def remove_earlier(self) -> None:
        """Remove what earlier runs of fstune have left. Raises TestbedError if one does not end.

        What cannot be removed yet, say for lack of a token, is removed before the first run.
        """
        self.ready.engine.end_runs(self.campaign)
        self._may_have_files = bool(self.ready.engine.clean_leftovers(self.campaign))
        for sentence in of_references(self.ready, self.campaign):
            self._report(sentence)

    def end_runs(self) -> None:
        """Before a configuration is applied, end what still runs. Raises TestbedError."""
        if self._may_still_run:
            self.ready.engine.end_runs(self.campaign)
            self._may_still_run = False

    def remove(self) -> None:
        """Remove what is left, once a configuration is in effect: its client can be used."""
        if self._may_have_files:
            self._may_have_files = False
            for sentence in remains(self.ready.engine, self.campaign):
                self._report(sentence)

    def _report(self, sentence: str) -> None:
        if sentence not in self._sentences:
            self._sentences.add(sentence)
            self.tell(sentence)


def remains(engine: Engine, campaign: str, within_s: float = LEFTOVERS_S) -> tuple[str, ...]:
    """Remove what runs of a campaign have left; return a sentence on each thing that remains."""
    try:
        return engine.clean_leftovers(campaign, within_s)
    except TunerError as problem:
        return (f"what runs have left was not removed: {problem}",)


def of_references(ready: ReadyTestbed, campaign: str) -> tuple[str, ...]:
    """Remove what runs of the references have left; return as ``remains`` does."""
    return tuple(s for each in ready.references for s in remains(each.engine, campaign))
