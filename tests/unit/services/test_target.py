"""The target as a whole, on parts that only record what they are asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

import search_spaces
from search_spaces import Risk, Space
from tuner.errors import ConfigurationError, TestbedError
from tuner.model import Configuration, Value
from tuner.services import target as module
from tuner.services.part import NotInEffect, verify_effective
from tuner.services.target import Target

FILESERVER = search_spaces.load("openafs-fileserver-1.8")
CACHE_MANAGER = search_spaces.load("openafs-cache-manager-fuse-1.8")


@dataclass
class Remembering:
    """A part that exists in memory only."""

    space: Space
    initial: Mapping[str, Value]
    facts: Mapping[str, int] = field(default_factory=dict)
    identity: str = "memory 1.0"
    now: dict[str, Value] = field(default_factory=dict)
    late: int = 0
    why: ConfigurationError = field(default_factory=lambda: NotInEffect("not yet"))
    fails: Exception | None = None
    log: list[str] = field(default_factory=list)

    def apply(self, values: Mapping[str, Value], *, restart: bool = False) -> str | None:
        self.log.append("apply")
        if dict(values) == self.now and not restart:
            return None
        self.now = dict(values)
        return "restart"

    def read_back(self, values: Mapping[str, Value]) -> dict[str, Value]:
        self.log.append("read back")
        if self.late > 0:
            self.late -= 1
            raise self.why
        return dict(values)

    def incarnation(self) -> str:
        return ""

    def restore(self) -> str:
        self.log.append("restore")
        if self.fails is not None:
            raise self.fails
        return f"{self.space.part} restored"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_BACK_PAUSE_S", 0.0)


def make() -> tuple[Target, Remembering, Remembering]:
    server = Remembering(FILESERVER, {"threads": 12})
    client = Remembering(CACHE_MANAGER, {"blocks": 200000})
    return Target({"fileserver": server, "cache_manager": client}), server, client


def silent(text: str) -> None:
    """Ignore the text."""


def test_the_baseline_is_what_the_parts_found() -> None:
    target, _, _ = make()
    baseline = Configuration.of({"fileserver.threads": 12, "cache_manager.blocks": 200000})
    assert target.baseline == baseline
    assert target.flags(baseline) == {
        "fileserver": ("-p", "12"),
        "cache_manager": ("-blocks", "200000"),
    }


def test_only_what_changes_is_acted_on() -> None:
    target, _, _ = make()
    target.apply(target.baseline, silent)
    configuration = Configuration.of({"fileserver.threads": 12, "cache_manager.blocks": 300000})
    applied = target.apply(configuration, silent)
    assert applied.actions == ("cache_manager restart",)
    assert applied.effective == configuration


def test_what_is_to_be_restarted_is_so_with_what_depends_on_it() -> None:
    target, _, _ = make()
    target.apply(target.baseline, silent)
    assert target.apply(target.baseline, silent).actions == ()
    applied = target.apply(target.baseline, silent, {"cache_manager"})
    assert applied.actions == ("cache_manager restart",)
    target = Target(target.parts, follows={"cache_manager": "fileserver"})
    applied = target.apply(target.baseline, silent, {"fileserver"})
    assert applied.actions == ("fileserver restart", "cache_manager restart")


def test_read_back_is_retried_a_few_times() -> None:
    target, server, _ = make()
    server.late = 3
    target.apply(target.baseline, silent)
    server.late = 100
    with pytest.raises(ConfigurationError, match="not yet"):
        target.apply(target.baseline, silent)
    assert server.late == 96


def test_a_program_that_is_gone_is_asked_once() -> None:
    target, server, _ = make()
    server.late, server.why = 100, ConfigurationError("it does not answer")
    with pytest.raises(ConfigurationError, match="it does not answer"):
        target.apply(target.baseline, silent)
    assert server.late == 99


def test_every_part_is_restored_although_one_cannot_be() -> None:
    target, server, client = make()
    server.fails = TestbedError("server: no answer")
    with pytest.raises(TestbedError, match="server: no answer"):
        target.restore(silent)
    assert client.log == ["restore"]
    server.fails = None
    assert target.restore(silent) == ["fileserver restored", "cache_manager restored"]


def test_a_difference_names_parameter_and_both_values() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"fileserver\.callbacks = 90000 is not in effect: xstat_fs\.nblks should show 90000, "
        "it shows 60000",
    ):
        verify_effective(FILESERVER, {"callbacks": 90000}, {}, {"xstat_fs.nblks": 60000})


def test_a_clamp_that_the_space_declares_is_no_difference() -> None:
    answers: dict[str, Value] = {"ss.rb": 2 * 212992}
    facts = {"net_core_rmem_max": 212992}
    effective = verify_effective(FILESERVER, {"udp_buffer": 1048576}, facts, answers)
    assert effective == {"udp_buffer": 212992}
    facts = {"net_core_rmem_max": 4194304}
    with pytest.raises(ConfigurationError, match=r"udp_buffer = 1048576 .* 2097152.* 425984"):
        verify_effective(FILESERVER, {"udp_buffer": 1048576}, facts, answers)


def test_what_is_not_shown_counts_as_requested() -> None:
    assert verify_effective(FILESERVER, {"sync_behavior": "always"}, {}, {}) == {
        "sync_behavior": "always"
    }


def test_a_setting_left_unset_can_do_harm_too() -> None:
    initial: dict[str, Value] = {
        "sync_behavior": "always",
        "rx_max_mtu": 1400,
        "jumbograms": True,
        "abort_threshold": 10,
    }
    target = Target({"fileserver": Remembering(FILESERVER, initial)})
    assert target.risks(Configuration.of({})) == {
        "fileserver.sync_behavior": Risk.DURABILITY,  # the default is less safe
        "fileserver.rx_max_mtu": Risk.AVAILABILITY,  # the default depends on the network
        "fileserver.jumbograms": Risk.PERFORMANCE,  # the default is safe
        # -abortthreshold 10 is the default: nothing changes.
    }
