"""Ground truth of a simulated testbed: performance, failures, noise and cost."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tuner.model import Configuration
from tuner.services.simulated.effects import Effect
from tuner.services.simulated.noise import Noise, Run

#: Processor time as a fraction of the duration of a run without noise.
_SERVER_SHARE = 0.30
_CLIENT_SHARE = 0.40
_ENGINE_SHARE = 0.15
_IRQ_SHARE = 0.03
_WAITING_SHARE = 0.02
#: Limit of log times in both directions, so that even absurd worlds do not overflow.
_MOST_LOG = 100.0


@dataclass(frozen=True, slots=True)
class Costs:
    """Durations in seconds.

    ``restart``: of a restart, by part; ``usual_restart``: of a restart of any other part;
    ``component``: of each component of the workload, without effects and noise.
    """

    restart: Mapping[str, float] = field(default_factory=dict)
    usual_restart: float = 1.0
    component: float = 1.0

    def restart_s(self, part: str) -> float:
        """Return the duration of a restart of a part."""
        return self.restart.get(part, self.usual_restart)


@dataclass(frozen=True, slots=True)
class Times:
    """The results of one run.

    ``seconds``: by component; ``diagnostics``: by the names that real hosts use (server and client
    on one machine), empty if the world has no load; ``cpu_s``: of the engine.
    """

    seconds: Mapping[str, float]
    diagnostics: Mapping[str, float | str]
    cpu_s: float

    @property
    def total_s(self) -> float:
        """The duration of the run."""
        return sum(self.seconds.values())


@dataclass(frozen=True, slots=True)
class World:
    """The ground truth: effects, noise and costs.

    ``references``: the time of a reference relative to a configuration without effects, by its
    name; 1 for any other reference. ``after_restart``: by part, the relative change of time of the
    first run after its restart; 0 for any other part.
    """

    effects: tuple[Effect, ...] = ()
    noise: Noise = field(default_factory=Noise)
    seed: int = 1
    costs: Costs = field(default_factory=Costs)
    references: Mapping[str, float] = field(default_factory=dict)
    after_restart: Mapping[str, float] = field(default_factory=dict)
    _logs: dict[tuple[str, ...], list[list[float]]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def restart_ratio(self, parts: Iterable[str]) -> float:
        """The ratio of the times of the first run after a restart of these parts."""
        return math.prod(1.0 + self.after_restart.get(part, 0.0) for part in parts)

    def log_change(self, configuration: Configuration, component: str) -> float:
        """The true log time ratio of one component to a configuration without effects."""
        return self.log_changes(configuration, (component,))[0]

    def log_changes(
        self, configuration: Configuration, components: Sequence[str]
    ) -> tuple[float, ...]:
        """The true log time ratio of each component to a configuration without effects."""
        values = configuration.as_dict()
        totals = [0.0] * len(components)
        for effect, logs in zip(self.effects, self.full_effects(tuple(components)), strict=True):
            if not effect.fails and (share := effect.share(values)) != 0.0:
                for index, log in enumerate(logs):
                    totals[index] += share * log
        return tuple(totals)

    def full_effects(self, components: tuple[str, ...]) -> list[list[float]]:
        """Every full effect on every component, in log time: always the same, so computed once."""
        if components not in self._logs:
            self._logs[components] = [
                [effect.log_change(component) for component in components]
                for effect in self.effects
            ]
        return self._logs[components]

    def failure(
        self, configuration: Configuration, kind: str, parts: Collection[str] | None = None
    ) -> str | None:
        """The parameter that makes a configuration fail in this way, if any.

        With ``parts``, only effects that depend on no other parts are considered.
        """
        values = configuration.as_dict()
        for effect in self.effects:
            is_concerned = parts is None or effect.parts.issubset(parts)
            if is_concerned and effect.fails == kind and effect.share(values) != 0.0:
                return effect.parameter
        return None

    def times(
        self,
        run: Run,
        configuration: Configuration,
        components: Sequence[str],
        ratio: float = 1.0,
    ) -> Times:
        """Draw one run of the workload, with its times multiplied by ``ratio``."""
        truth = self.log_changes(configuration, components)
        noise_draw = self.noise.draw(run, components)
        scale = self.costs.component * ratio
        seconds = {
            name: scale * _ratio(true + noise)
            for name, true, noise in zip(components, truth, noise_draw.logs, strict=True)
        }
        work_s = scale * sum(map(_ratio, truth))
        if noise_draw.others is None and noise_draw.stolen is None:
            return Times(seconds, {}, 0.0)
        total_s = sum(seconds.values())
        server_s, client_s, engine_s, interrupts_s = (
            share * work_s for share in (_SERVER_SHARE, _CLIENT_SHARE, _ENGINE_SHARE, _IRQ_SHARE)
        )
        ours_s = server_s + client_s + engine_s + 2.0 * interrupts_s
        diagnostics: dict[str, float | str] = {
            "client1.cpu_s": client_s,
            "client1.machine": "host",
            "host.busy_s": ours_s + (noise_draw.others or 0.0) * total_s,
            "host.elapsed_s": total_s,
            "host.iowait_s": _WAITING_SHARE * total_s,
            "host.irq_s": interrupts_s,
            "host.softirq_s": interrupts_s,
            "host.steal_s": (noise_draw.stolen or 0.0) * total_s,
            "server.cpu_s": server_s,
        }
        return Times(seconds, diagnostics, engine_s)


def _ratio(log: float) -> float:
    return math.exp(min(_MOST_LOG, max(-_MOST_LOG, log)))
