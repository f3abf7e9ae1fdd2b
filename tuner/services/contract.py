"""The contract of a kind of service, as tests that any package runs on its own kind.

A kind's tests subclass ``KindContract``, and ``OpenTestbedContract`` if a testbed of the kind can
be opened where they run, and set ``case``. pytest collects the methods; this module imports no test
library, since it is installed with fstune.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar
from unittest import SkipTest

from pydantic import TypeAdapter

import search_spaces
from search_spaces import Chance, draw
from tuner.errors import ConfigurationError, SpecError, TestbedError, TunerError
from tuner.measure.workload import load_workload
from tuner.measure.workload_run import run_once
from tuner.model import Configuration, Value
from tuner.services.form import Part as Words
from tuner.services.kind import Kind, Needs, TestbedType
from tuner.services.kinds import kinds, offer, part_order, programs
from tuner.services.part import Part
from tuner.services.target import Target
from tuner.services.testbed import ReadyTestbed, Recoverable, Testbed

_WORKLOAD = load_workload("mixed-use", 0.01)
_CAMPAIGN = "contract"


@dataclass(frozen=True, slots=True)
class KindCase:
    """A kind, and what its tests cannot know about it.

    ``spaces``: the name or path of a search space for each part. ``section``: prepares an empty
    directory, and returns the value of a testbed type's key in a campaign file. ``tuned``: the
    parts that a campaign on every type tunes; all of them by default. ``testbed_files``: a valid
    testbed file for each type that has them, by key.

    ``opens``: the keys of types whose testbeds are opened. ``contents``: what must be as before
    after restoring, read from the directory. ``change``: changes a setting of the running
    service that is read back, as an administrator would without fstune; None if nobody can.
    """

    kind: Kind
    spaces: Mapping[str, str]
    section: Callable[[str, Path], object]
    tuned: tuple[str, ...] = ()
    testbed_files: Mapping[str, Path] = field(default_factory=dict)
    opens: tuple[str, ...] = ()
    contents: Callable[[Path], object] = lambda directory: None
    change: Callable[[Path], None] | None = None

    def needs(self) -> Needs:
        """The requirements of a small campaign."""
        parts = self.tuned or self.kind.parts or ()
        spaces = {part: search_spaces.load(self.spaces[part]) for part in parts}
        return Needs(spaces, _WORKLOAD)

    def sections(self, directory: Path) -> Iterator[tuple[TestbedType[Any], Any, Path]]:
        """Yield each testbed type, with a section of it and the section's own directory."""
        for of in self.kind.types:
            own = directory / of.key
            own.mkdir()
            yield of, TypeAdapter(of.section).validate_python(self.section(of.key, own)), own

    def testbeds(self, directory: Path) -> Iterator[tuple[Callable[[], Testbed], Path]]:
        """Yield what creates a testbed, with its directory, for each type that can be opened."""

        def maker(of: TestbedType[Any], section: Any, own: Path) -> Callable[[], Testbed]:
            return lambda: of.testbed(section, "testbed", self.needs(), own)

        for of, section, own in self.sections(directory):
            if of.key in self.opens:
                yield maker(of, section, own), own


class KindContract:
    """What holds for every kind, without opening a testbed."""

    case: ClassVar[KindCase]

    def test_a_testbed_type_says_where_a_testbed_is(self, tmp_path: Path) -> None:
        """Sections survive being stored; their names and descriptions are consistent."""
        for of, section, own in self.case.sections(tmp_path):
            adapter = TypeAdapter(of.section)
            again = adapter.validate_json(adapter.dump_json(section))
            assert again == section, of.key
            identity = of.identity(section, own)
            assert json.loads(json.dumps(identity.document)) == dict(identity.document), of.key
            assert identity.name == of.identity(again, own).name, of.key
            # A testbed that belongs to the campaign alone has neither name.
            assert bool(identity.name) == bool(of.name(section)), of.key
            assert of.describe(section), of.key
            assert str(tmp_path.parent) not in of.summary(section), of.key
            assert of.resolve(section, Path("/")) == section, of.key
            assert of.example.startswith(f"{of.key}:"), of.key
            assert not of.mistakes(section, "testbed", self.case.needs()), of.key

    def test_nothing_is_allowed_over_http_unless_named(self, tmp_path: Path) -> None:
        """The API server accepts only sections that its operator allows."""
        for of, section, _ in self.case.sections(tmp_path):
            with _refused(SpecError, f"x.{of.key}: "):
                of.permit(section, "x", [], {})
            if of.title:
                assert of.permit(section, "x", [of.key], {}) == section, of.key

    def test_parts_are_unique_and_in_order(self) -> None:
        """Each part has a search space, and all kinds agree on the order of parts."""
        kind = self.case.kind
        parts = kind.parts or ()
        assert len(set(parts)) == len(parts)
        assert kind.required <= set(parts)
        for part in parts:
            space = search_spaces.load(self.case.spaces[part])
            assert space.part == part
            if self.case.spaces[part] in search_spaces.names():
                assert self.case.spaces[part] == space.name
        if kind in kinds():  # installed
            assert [part for part in part_order() if part in parts] == [*parts]

    def test_every_tuned_program_says_how_it_is_applied(self) -> None:
        """An administrator is told where the settings of each program go."""
        kind = self.case.kind
        spaces = [search_spaces.load(self.case.spaces[part]) for part in kind.parts or ()]
        assert {space.program for space in spaces} <= kind.programs.keys()
        assert all(program.where and program.then for program in kind.programs.values())
        if kind in kinds():
            assert kind.programs.items() <= programs().items()

    def test_formats_can_be_read_back(self) -> None:
        """What a format of the kind can contain of a recommendation is written as it is."""
        kind = self.case.kind
        spaces = [search_spaces.load(self.case.spaces[part]) for part in kind.parts or ()]
        assert len({form.name for form in kind.formats}) == len(kind.formats)
        for form in kind.formats:
            assert form.programs <= kind.programs.keys(), form.name
            assert form.about, form.name
            assert form.where, form.name
            assert form.mind, form.name
            for space in [space for space in spaces if space.program in form.programs]:
                for seed in range(10):
                    words = tuple(space.render(draw(space, Chance(seed, 0.5))))
                    text = form.write(Words(space.part, space.program, words))
                    assert text.endswith("\n"), form.name
                    assert form.read(text) == form.holds(words), form.name

    def test_a_testbed_file_is_offered_by_the_type_that_can_read_it(self, tmp_path: Path) -> None:
        """A type with testbed files refuses other files; one without ignores every file."""
        other = tmp_path / "none.yaml"
        other.write_text("name: x\n", encoding="utf-8")
        for of in self.case.kind.types:
            file = self.case.testbed_files.get(of.key)
            if file is None:
                assert of.offer(other) is None, of.key
                continue
            candidate = of.offer(file)
            assert candidate is not None, of.key
            assert candidate.key == of.key
            assert candidate.title, of.key
            assert candidate.hosts > 0, of.key
            with _refused(SpecError):
                of.offer(other)
            if self.case.kind in kinds():
                assert offer(file) == candidate


class OpenTestbedContract:
    """What holds for every open testbed: settings are in effect, and restored."""

    case: ClassVar[KindCase]

    def test_any_configuration_is_in_effect_and_restored(self, tmp_path: Path) -> None:
        """Only parts that change are restarted; at the end everything is as before."""
        for make, own in self.case.testbeds(tmp_path):
            contents = self.case.contents(own)
            with _open(make()) as (_, ready):
                target, before = ready.target, ready.target.baseline
                for number in range(4):
                    self._apply(target, _configuration(target, number))
                assert len(target.restore(_silent)) == len(target.parts)
                assert target.apply(before, _silent).actions == ()
            assert self.case.contents(own) == contents

    def _apply(self, target: Target, configuration: Configuration) -> None:
        lives = target.incarnations()
        applied = target.apply(configuration, _silent)
        assert applied.effective.as_dict().keys() == configuration.as_dict().keys()
        again = target.apply(configuration, _silent)
        assert again.actions == ()
        assert again.effective == applied.effective
        changed = {action.split()[0] for action in applied.actions}
        assert all(target.incarnations()[part] != lives[part] for part in changed if lives[part])

    def test_every_part_is_restarted_when_asked(self, tmp_path: Path) -> None:
        """Also a part whose settings do not change."""
        for make, _ in self.case.testbeds(tmp_path):
            with _open(make()) as (_, ready):
                target, lives = ready.target, ready.target.incarnations()
                applied = target.apply(target.baseline, _silent, restarts=target.parts)
                changed = {action.split()[0] for action in applied.actions}
                now = target.incarnations()
                assert all(part in changed for part, life in lives.items() if life)
                assert all(now[part] != life for part, life in lives.items() if life)
                target.restore(_silent)

    def test_settings_that_are_not_in_effect_are_noticed(self, tmp_path: Path) -> None:
        """Reading back fails for each configuration that would show other values."""
        for make, _ in self.case.testbeds(tmp_path):
            with _open(make()) as (_, ready):
                for name, part in ready.target.parts.items():
                    facts, draws = dict(part.facts), [Chance(one, 0.8) for one in range(20)]
                    values, *others = [draw(part.space, chance, facts) for chance in draws]
                    part.apply(values)
                    now = _readings(part, values)
                    different = [
                        each
                        for each in others
                        if any(now.get(key, v) != v for key, v in _readings(part, each).items())
                    ]
                    assert different, name
                    for each in different:
                        with _refused(ConfigurationError):
                            part.read_back(each)
                    part.restore()

    def test_an_outside_change_is_noticed(self, tmp_path: Path) -> None:
        """Reading back fails, and the next application of the same configuration either makes it
        effective again or is refused: it never takes the settings of somebody else for its own.
        """
        change = self.case.change
        if change is None:
            raise SkipTest("nobody can change its settings without fstune")
        for make, own in self.case.testbeds(tmp_path):
            contents = self.case.contents(own)
            with _open(make()) as (_, ready):
                target = ready.target
                configuration = _configuration(target, 0)
                target.apply(configuration, _silent)
                change(own)
                with _refused(TunerError):
                    target.read_back(configuration, _silent)
                with suppress(TestbedError):
                    assert target.apply(configuration, _silent).actions
                    target.read_back(configuration, _silent)
                    target.restore(_silent)
                    assert self.case.contents(own) == contents

    def test_what_a_run_leaves_behind_is_restored(self, tmp_path: Path) -> None:
        """A run that ends without restoring is undone when the testbed is restored or opened."""
        for make, own in self.case.testbeds(tmp_path):
            contents = self.case.contents(own)
            with _open(make()) as (_, ready):
                before = ready.target.baseline
                ready.target.apply(_configuration(ready.target, 0), _silent)
            again = make()
            if isinstance(again, Recoverable):
                again.recover(_CAMPAIGN)
                assert self.case.contents(own) == contents
            with _open(again) as (_, ready):
                assert ready.target.baseline == before
                ready.target.restore(_silent)
            assert self.case.contents(own) == contents

    def test_a_run_gives_every_component(self, tmp_path: Path) -> None:
        """The workload runs on the testbed's clients."""
        for make, _ in self.case.testbeds(tmp_path):
            with _open(make()) as (_, ready):
                report = run_once(ready.engine, f"{_CAMPAIGN}-1-0", 1, ready.make_cold)
                assert report.components.keys() == set(_WORKLOAD.components)
                ready.engine.clean_leftovers(_CAMPAIGN)

    def test_a_testbed_is_closed_once(self, tmp_path: Path) -> None:
        """Closing does nothing to a testbed that is not open."""
        for make, _ in self.case.testbeds(tmp_path):
            with _open(make()) as (testbed, _):
                pass
            testbed.close()


@contextmanager
def _open(testbed: Testbed) -> Iterator[tuple[Testbed, ReadyTestbed]]:
    assert testbed.unavailable() is None
    testbed.claim(_CAMPAIGN)
    try:
        yield testbed, testbed.open(_WORKLOAD, _silent)
    finally:
        testbed.close()


def _configuration(target: Target, seed: int) -> Configuration:
    """A random configuration of all parts."""
    return Configuration.of(
        {
            f"{part}.{name}": value
            for part, tuned in target.parts.items()
            for name, value in draw(tuned.space, Chance(seed, 0.8), dict(tuned.facts)).items()
        }
    )


def _readings(part: Part, values: Mapping[str, Value]) -> dict[str, Value]:
    """What the program of a part should show for these values."""
    expected = part.space.effective(values, dict(part.facts)).values()
    return {each.key: each.reading for each in expected}


@contextmanager
def _refused(kind: type[TunerError], start: str = "") -> Iterator[None]:
    """Fail unless the body raises this error, with a message that begins with ``start``."""
    message = None
    try:
        yield
    except kind as problem:
        message = str(problem)
    assert message is not None, f"no {kind.__name__} was raised"
    assert message.startswith(start), message


def _silent(message: str) -> None:
    """Ignore a message."""
