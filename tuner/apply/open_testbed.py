"""Operations on an open testbed for applying a configuration: inspect, change, restore."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tuner.apply.destination import Destination, health
from tuner.apply.plan import changed_parts, not_as_before, replaced, steps
from tuner.errors import ConfigurationError, TestbedError, TunerError, WorkloadError
from tuner.measure.workload_run import run_once
from tuner.model import Configuration
from tuner.run.leftovers import before_restoring, of_others, remains
from tuner.services.lasting import JournalState, LastingPart, lasting_parts
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed
from tuner.stop_signals import holding_off_stops

Say = Callable[[str], None]


@dataclass(slots=True)
class OpenTestbed:
    """A testbed that is open for one application. ``name``: the application's identifier;
    ``remarks``: problems that make changes risky but do not forbid them; ``kept_names``: see
    LastingTestbed. ``may_have_files``: whether a check may have left files on the clients.
    ``left``: a sentence on each thing that could not be removed.
    """

    name: str
    ready: ReadyTestbed
    parts: dict[str, LastingPart]
    remarks: Sequence[str]
    say: Say
    kept_names: Callable[[], Mapping[str, str]] = dict
    may_have_files: bool = False
    left: tuple[str, ...] = ()
    _checks: int = 0

    @property
    def target(self) -> Target:
        """The target with all its parts."""
        return self.ready.target

    def in_effect(self) -> Configuration:
        """The configuration in effect, confirmed by reading it back from the programs. Raises
        ConfigurationError when a program does not report the settings that it was started with.
        """
        baseline = self.target.baseline
        self.target.read_back(baseline, self.say)
        return baseline

    def steps(
        self, before: Configuration, after: Configuration, *, stepwise: bool
    ) -> tuple[Configuration, ...]:
        """The configurations to apply, one after another: one, unless ``stepwise``."""
        if not stepwise:
            return (after,)
        spaces = {name: part.space for name, part in self.parts.items()}
        facts = {name: part.facts for name, part in self.parts.items()}
        return steps(before, after, spaces, facts)

    def change(self, configuration: Configuration, parts: frozenset[str]) -> None:
        """Bring a configuration into effect in these parts only. Raises TunerError when it is not
        in effect afterwards.
        """
        _only(self.target, parts).apply(configuration, self.say)

    def check_health(self) -> None:
        """Have every client write files, read them back and remove them. Raises TunerError when a
        client fails or a program was restarted meanwhile.
        """
        self.say("checking that every client can write and read")
        self._checks += 1
        incarnations = self.target.incarnations()
        run = f"{self.name}-{self._checks}-0"
        self.may_have_files = True
        run_once(self.ready.engine, run, self._checks, self.ready.make_cold)
        self.may_have_files = False
        for name, life in self.target.incarnations().items():
            if life != incarnations[name]:
                raise WorkloadError(f"the {name} was restarted during the check: {life}")

    def stays(self, before: Configuration, after: Configuration) -> bool:
        """Whether a configuration that was decided to stay is still in effect everywhere, that is,
        no host has restored itself.
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
        """Close the journals of these parts, so that the configuration stays. Journals that the
        change has left open in other parts are restored, lest their hosts do so later.
        """
        for name, part in self.parts.items():
            if name in parts:
                part.keep(self.name)
        # Last, since restoring one part may have to wait for the open journal of another.
        for name, part in self.parts.items():
            if name not in parts:
                part.restore()

    def _keeps(self, part: LastingPart) -> bool:
        return JournalState.KEPT in part.journals(self.name)

    def changed_since(self, before: Configuration, after: Configuration) -> tuple[str, ...]:
        """What somebody else has changed since it was applied and ``restore`` would replace, a
        sentence each. What is there again as before is none of it. Raises TestbedError.
        """
        now, sentences = self.target.baseline, list[str]()
        for name in sorted(changed_parts(before, after)):
            part = self.parts[name]
            if self._keeps(part):
                # A restart of the host that lost settings is no change by somebody.
                lost = () if part.outlives_restart else (Configuration.of({}),)
                sentences += part.changed_since(self.name) or replaced(
                    name, part.space, part.facts, now, after, before, *lost
                )
        return tuple(sentences)

    def restore(self, before: Configuration) -> str:
        """Restore the previous configuration. When a part fails, continue with the others, then
        raise the first failure (TunerError).

        If all journals were restored and yet another configuration is in effect, somebody else has
        changed it: the return value then says so; otherwise it is empty.
        """
        left: tuple[str, ...] = ()
        if self.may_have_files:  # removing them may take the token that is destroyed next
            left = before_restoring(self.ready.engine, self.name)
        else:
            with suppress(TunerError):
                self.ready.engine.end_runs(self.name)
        try:
            remark = self._restore(before)
        except TunerError:
            self.may_have_files = False  # nothing may delay the next try to restore the hosts
            self._report(left)
            raise
        self.may_have_files = bool(left)
        return remark

    def _restore(self, before: Configuration) -> str:
        sentences: list[str] = []
        failure: TunerError | None = None
        none = {JournalState.NONE}
        not_restored = [n for n, part in self.parts.items() if part.journals(self.name) == none]
        # Open journals of a campaign first: they are more recent than the closed ones.
        try:
            sentences += self.target.restore(self.say)
        except TunerError as problem:
            failure = problem
        closed_parts = [part for part in self.parts.values() if self._keeps(part)]
        for part in closed_parts:
            try:
                part.reopen(self.name)
            except TunerError as problem:
                failure = failure or problem
        if closed_parts:
            sentences = self.target.restore(lambda what: None)  # it was said above
        if failure is not None:
            raise failure
        for sentence in sentences:
            self.say(sentence)
        try:
            self.target.read_back(before, self.say)
            self._check_before(before, not_restored)
        except ConfigurationError as problem:
            if any(part.journals(self.name) != {JournalState.NONE} for part in self.parts.values()):
                raise
            # No journal is left to restore: retrying would change nothing.
            remark = f"the hosts were restored, but something else was changed there: {problem}"
            self.say(remark)
            return remark
        return ""

    def _check_before(self, before: Configuration, parts: Sequence[str]) -> None:
        """Raise ConfigurationError unless these parts were as ``before`` when they were inspected.
        Reading back does not tell: it shows the values that are to be set, and no others.
        """
        sentences: list[str] = []
        for name in parts:
            part = self.parts[name]
            sentences += not_as_before(name, part.space, part.facts, self.target.baseline, before)
        if sentences:
            raise ConfigurationError("; ".join(sentences))

    def clean(self) -> None:
        """Remove what checks may have left and ``restore`` has not removed."""
        if self.may_have_files:
            self._report(remains(self.ready.engine, self.name))

    def remove_of_others(self) -> None:
        """Remove what others have left whose processes died here."""
        self._report(of_others(self.ready))

    def _report(self, left: tuple[str, ...]) -> None:
        self.left += left
        for sentence in left:
            self.say(sentence)

    def check_undoable(self, before: Configuration, after: Configuration) -> None:
        """Raise TestbedError when an interrupted application is in effect in a part of which no
        host has a journal: that is in another restore directory, or was deleted.
        """
        now = self.target.baseline
        lost = [
            name
            for name in sorted(changed_parts(before, after))
            if self.parts[name].journals(self.name) == {JournalState.NONE}
            and now.part(name) == after.part(name)
        ]
        if lost:
            raise TestbedError(
                f"the settings of {self.name} are in effect in {' and '.join(lost)}, but no host "
                "has a record of what was there before: if the testbed file named another "
                "restore.directory then, name it again; otherwise restore the settings by hand "
                f"('fstune applications' shows them) and repeat: fstune rollback {self.name}"
            )

    def check_record(self, before: Configuration, after: Configuration) -> None:
        """Raise TestbedError when a host has lost the journal of the previous configuration, unless
        that is already in effect and no journal is open: then there is nothing to restore.
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
            self._check_before(before, lost)
        except ConfigurationError as problem:
            raise TestbedError(
                f"the previous settings are no longer kept on a host of the {' and '.join(lost)} "
                f"({problem}): 'fstune applications' shows them; restore them by hand, then "
                f"repeat: fstune rollback {self.name}"
            ) from problem


@contextmanager
def open_testbed(
    destination: Destination, name: str, say: Say, *, putting_back: bool = False
) -> Iterator[OpenTestbed]:
    """Open a testbed for an application, and always close it again. Raises TunerError."""
    place = destination.lasting(putting_back=putting_back)
    place.claim(name)
    try:
        ready = place.open(health(), say)
        parts, remarks = lasting_parts(ready.target), tuple(place.remarks)
        testbed = OpenTestbed(name, ready, parts, remarks, say, place.kept_names)
        testbed.remove_of_others()
        try:
            yield testbed
        finally:
            testbed.clean()
    finally:
        with holding_off_stops(say):
            closed = place.close()
    if closed is not None:
        say(closed)


def _only(target: Target, parts: frozenset[str]) -> Target:
    """The target with only these parts and those that follow them."""
    names = {p for p in target.parts if p in parts or target.follows.get(p) in parts}
    return replace(target, parts={k: v for k, v in target.parts.items() if k in names})
