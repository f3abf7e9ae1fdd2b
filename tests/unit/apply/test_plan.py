"""Plans: changes, order of steps, and identity."""

from __future__ import annotations

import search_spaces
from tuner.apply.pages import plan_lines
from tuner.apply.plan import (
    ApplyPlan,
    PartPlan,
    beyond_limits,
    changed_parts,
    notes,
    plan_identity,
    steps,
    unknown,
)
from tuner.model import Configuration, Value

OLD = Configuration.of({"fileserver.threads": 64, "cache_manager.daemons": 3})
NEW = Configuration.of({"fileserver.threads": 200, "fileserver.dir_buffers": 300})
SPACES = {
    "fileserver": search_spaces.load("openafs-fileserver-1.8"),
    "cache_manager": search_spaces.load("openafs-cache-manager-fuse-1.8"),
}


def way(old: Configuration, new: Configuration) -> list[dict[str, Value]]:
    return [step.as_dict() for step in steps(old, new, SPACES, {})]


def test_settings_change_one_at_a_time_servers_first() -> None:
    assert way(OLD, NEW) == [
        {"fileserver.dir_buffers": 300, "fileserver.threads": 64, "cache_manager.daemons": 3},
        {"fileserver.dir_buffers": 300, "fileserver.threads": 200, "cache_manager.daemons": 3},
        {"fileserver.dir_buffers": 300, "fileserver.threads": 200},
    ]
    assert way(OLD, OLD) == []


def test_no_step_breaks_a_rule_that_neither_end_breaks() -> None:
    """Single settings of a preset may break the rules of its search space."""
    space = SPACES["fileserver"]
    for preset in space.presets:
        values = {f"fileserver.{k}": v for k, v in space.fit(preset.values).items()}
        new = Configuration.of(values)
        passed = steps(Configuration(), new, SPACES, {})
        assert (passed or (new,))[-1] == new
        end = set(space.violations(new.part("fileserver"), {}))
        for step in passed:
            assert set(space.violations(step.part("fileserver"), {})) <= end


def test_the_identity_depends_on_old_and_new_state() -> None:
    one = plan_identity("hall", "afsd 1", OLD, NEW, False)
    assert one == plan_identity("hall", "afsd 1", OLD, NEW, False)
    others = {
        plan_identity("hall 2", "afsd 1", OLD, NEW, False),
        plan_identity("hall", "afsd 2", OLD, NEW, False),
        plan_identity("hall", "afsd 1", NEW, NEW, False),
        plan_identity("hall", "afsd 1", OLD, OLD, False),
        plan_identity("hall", "afsd 1", OLD, NEW, True),
    }
    assert len(others | {one}) == 6


def test_the_page_says_what_each_change_means_for_what_runs() -> None:
    def part(name: str, **more: str) -> PartPlan:
        return PartPlan(name, f"{name}d", (), (), (), True, "a file keeps them", **more)

    parts = (part("server"), part("limits", how_changed="are set at once"))
    plan = ApplyPlan("c", "hall", "hall", "afsd 1", OLD, NEW, parts, (), (), False)
    page = list(plan_lines(plan))
    assert "server (serverd) is restarted" in page
    assert "limits (limitsd) are set at once" in page


def test_settings_unknown_to_the_search_spaces_are_not_applied() -> None:
    assert unknown(NEW, SPACES) == []
    nonsense = Configuration.of({"fileserver.nonsense": 1, "elsewhere.threads": 1})
    assert len(unknown(nonsense, SPACES)) == 2
    (why,) = unknown(Configuration.of({"fileserver.threads": "many"}), SPACES)
    assert "threads" in why


def test_only_values_that_a_plan_sets_itself_must_be_within_the_limits() -> None:
    high = {"fileserver.threads": 30000}
    wide, new = Configuration.of(high), Configuration.of(high | {"fileserver.dir_buffers": 300})
    (why,), inherited = beyond_limits(OLD, new, SPACES)
    assert why.startswith("fileserver: threads: 30000 is above ")
    assert inherited == []
    assert beyond_limits(wide, new, SPACES) == ([], [why])
    assert beyond_limits(OLD, NEW, SPACES) == ([], [])
    (why,), inherited = beyond_limits(wide, Configuration.of({"fileserver.threads": 40000}), SPACES)
    assert (why.split()[2], inherited) == ("40000", [])


def test_a_part_changes_when_one_of_its_settings_does() -> None:
    assert changed_parts(OLD, NEW) == {"fileserver", "cache_manager"}
    assert changed_parts(OLD, OLD) == frozenset()


def test_notes_report_differences_from_the_measured_state() -> None:
    assert notes(OLD, OLD, "afsd 1", "afsd 1", False, [], []) == ()
    sentences = notes(
        OLD, NEW, "afsd 2", "afsd 1", True, ["c1: little memory"], ["costs durability"]
    )
    assert "another testbed" in sentences[0]
    assert "measured with afsd 1; this testbed runs afsd 2" in sentences[1]
    three = "cache_manager.daemons, fileserver.dir_buffers, fileserver.threads differ"
    assert sentences[2].endswith(three)
    assert sentences[3:] == ("c1: little memory", "costs durability")
    more = Configuration.of(OLD.as_dict() | {"fileserver.dir_buffers": 300})
    (sentence,) = notes(OLD, more, "afsd 1", "afsd 1", False, [], [])
    assert sentence.endswith("measured against: fileserver.dir_buffers differs")
