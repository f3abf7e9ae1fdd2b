"""An open testbed in the hands of whoever applies a configuration: looked at, changed, put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tuner.apply.place import Site, health
from tuner.apply.plan import changed_parts
from tuner.campaign.stopping import undisturbed
from tuner.errors import ConfigurationError, TestbedError, TunerError, WorkloadError
from tuner.model import Configuration
from tuner.services.lasting import JournalState, LastingPart, lasting_parts
from tuner.services.target import Target
from tuner.services.testbed import Bench

Say = Callable[[str], None]


@dataclass(slots=True)
class OpenTestbed:
    """A testbed that is open for one application, whose identifier is ``name``. ``remarks``: what
    is a problem for changing it.
    """

    name: str
    bench: Bench
    parts: dict[str, LastingPart]
    remarks: Sequence[str]
    say: Say
    _checks: int = 0

    @property
    def target(self) -> Target:
        """All parts."""
        return self.bench.target

    def in_effect(self) -> Configuration:
        """What is in effect, as the programs themselves show it. Raises ConfigurationError when
        they do not show what they were started with.
        """
        baseline = self.target.baseline
        self.target.read_back(baseline, self.say)
        return baseline

    def change(self, configuration: Configuration, parts: frozenset[str]) -> None:
        """Bring a configuration into effect in these parts, and leave the others alone. Raises
        TunerError when it is not in effect then.
        """
        _only(self.target, parts).apply(configuration, self.say)

    def check_health(self) -> None:
        """Have every client write files, read them back and remove them. Raises TunerError when one
        cannot, or a server was restarted meanwhile.
        """
        self.say("checking that every client can write and read")
        self._checks += 1
        lives = self.target.incarnations()
        run = f"{self.name}-{self._checks}-0"
        self.bench.engine.run(run, self._checks, self.bench.make_cold, lambda stage: None)
        for component, life in self.target.incarnations().items():
            if life != lives[component]:
                raise WorkloadError(f"the {component} was restarted during the check: {life}")

    def stays(self, before: Configuration, after: Configuration) -> bool:
        """Whether a configuration that is to stay is still in effect everywhere: no host has put
        itself back.
        """
        changed = changed_parts(before, after)
        journals = (self.parts[part].journals(self.name) for part in changed)
        if any(JournalState.NONE in each for each in journals):
            return False
        try:
            _only(self.target, changed).read_back(after, self.say)
        except TunerError:
            return False
        return True

    def keep(self, parts: frozenset[str]) -> None:
        """Close the journals of these parts: from now on the configuration stays. What a change of
        them has left open in the other parts is put back, so that no host goes back by it.
        """
        for component, part in self.parts.items():
            if component in parts:
                part.keep(self.name)
        # Last: what is put back of one part may wait for the open journal of another.
        for component, part in self.parts.items():
            if component not in parts:
                part.restore()

    def _keeps(self, part: LastingPart) -> bool:
        return JournalState.KEPT in part.journals(self.name)

    def put_back(self, before: Configuration) -> str:
        """Bring back what was in effect before. Goes on when a part fails, then raises that failure
        (TunerError).

        When every host has gone back by its journal and yet another configuration is in effect,
        somebody else has changed it: then the return value says so; else it is empty.
        """
        with suppress(TunerError):
            self.bench.engine.end_runs(self.name)
        # What a campaign has left open goes first: it was found after what is kept.
        sentences = self.target.restore(self.say)
        closed_parts = [part for part in self.parts.values() if self._keeps(part)]
        failure: TunerError | None = None
        for part in closed_parts:
            try:
                part.reopen(self.name)
            except TunerError as problem:
                failure = failure or problem
        if closed_parts:
            sentences = self.target.restore(self.say)
        if failure is not None:
            raise failure
        for sentence in sentences:
            self.say(sentence)
        try:
            self.target.read_back(before, self.say)
        except ConfigurationError as problem:
            if any(part.journals(self.name) != {JournalState.NONE} for part in self.parts.values()):
                raise
            # No host has anything left to go back to: to try again would change nothing.
            remark = f"every host has gone back, but something else was changed there: {problem}"
            self.say(remark)
            return remark
        return ""

    def clean(self) -> None:
        """Remove what checks left behind that were cut off."""
        with suppress(TunerError):
            self.bench.engine.clean_leftovers(self.name)

    def check_record(self, before: Configuration, after: Configuration) -> None:
        """Raise TestbedError when a host does not know any more what was there before, unless that
        is in effect already and nothing is open: then there is nothing to put back.
        """
        changed = changed_parts(before, after)
        lost = [
            p for p in sorted(changed) if JournalState.NONE in self.parts[p].journals(self.name)
        ]
        if not lost:
            return
        try:
            if any(JournalState.OPEN in part.journals(self.name) for part in self.parts.values()):
                raise ConfigurationError("a journal is open")
            self.target.read_back(before, self.say)
        except ConfigurationError as problem:
            raise TestbedError(
                f"what was in effect before is not kept on a host of the {' and '.join(lost)} any "
                f"more ({problem}): 'fstune applications' shows it; put it back by hand, then "
                f"repeat: fstune rollback {self.name}"
            ) from problem


@contextmanager
def open_testbed(
    site: Site, name: str, say: Say, *, putting_back: bool = False
) -> Iterator[OpenTestbed]:
    """Open a testbed for an application, and give it back whatever comes. Raises TunerError."""
    place = site.lasting(putting_back=putting_back)
    place.claim(name)
    try:
        bench = place.open(health(), say)
        testbed = OpenTestbed(name, bench, lasting_parts(bench.target), tuple(place.remarks), say)
        yield testbed
        testbed.clean()
    finally:
        with undisturbed(say):
            closed = place.close()
    if closed is not None:
        say(closed)


def _only(target: Target, parts: frozenset[str]) -> Target:
    """These parts, and those that follow them."""
    names = {p for p in target.parts if p in parts or target.follows.get(p) in parts}
    return replace(target, parts={k: v for k, v in target.parts.items() if k in names})
