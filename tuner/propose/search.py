"""Decide from the model of effects what to measure next and which configuration is best. Pure.

The next block is chosen by Thompson sampling (Thompson 1933): each arm is the best configuration of
one draw from the posterior, so that arms go where a gain is likely or not yet ruled out. The best
configuration is the one with the largest expected gain, times the probability that it runs and that
no component breaks its floor. The simplest one omits settings of it that together add next to
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from tuner.model import Configuration
from tuner.propose.ascent import Ascent
from tuner.propose.candidates import Candidates, unique
from tuner.propose.effects import EffectsModel, Ints
from tuner.propose.encoding import Encoding, Floats, Tunable
from tuner.propose.feasibility import Feasibility
from tuner.propose.objective import Objective
from tuner.propose.prediction import Contribution, Prediction
from tuner.propose.repair import Repairs, changed, without
from tuner.propose.search_trials import Arm, SearchTrial, differences, evidence_of, failing

#: Numbers of candidates for one decision: drawn at random, and variants of so many good ones.
_RANDOM_CANDIDATES = 150
_CHANGED = 200
_ROOTS = 6
#: Standard errors beyond which it is considered settled whether a setting pays off.
_CLEAR = 3.0
#: Standard errors by which a setting must pay off to stay in the simplest configuration.
_TELLS = 1.5
#: Number of blocks before subsets of the best configuration are tried.
_ESTABLISHED = 6
#: Number of draws for estimating a probability.
_HOPES = 100
#: Maximum number of repaired configurations in a block.
_REPAIRS = 3


class Search:
    """All that can be inferred from the arms so far, for one decision. Deterministic by seed."""

    def __init__(
        self,
        tunables: Mapping[str, Tunable],
        baseline: Configuration,
        trials: Sequence[SearchTrial],
        arms: Sequence[Arm],
        objective: Objective,
        seed: str,
        *,
        rounds: int | None = None,
    ) -> None:
        """``rounds``: number of decisions so far; None for the number of blocks."""
        self._objective = objective
        self._trials = [each for each in trials if each.configuration != baseline]
        self._baseline = baseline
        self._candidates = Candidates(tunables, seed)
        self._seed = [ord(letter) for letter in seed]
        self._rng = np.random.default_rng(self._seed)
        configurations = [each.configuration for each in self._trials]
        self._encoding = Encoding(tunables, baseline, configurations)
        self._features = self._encoding.features(configurations)
        self._row_of_trial = {each.number: row for row, each in enumerate(self._trials)}
        self._row_of = {each.configuration: row for row, each in enumerate(self._trials)}
        self._own = {each.configuration for each in self._trials if not each.earlier}
        weights = objective.weights
        evidence = evidence_of(arms, self._row_of_trial, weights, objective.floor)
        self._rounds = len({arm.block for arm in arms}) if rounds is None else rounds
        self._differences = differences(arms, self._row_of_trial)
        noise = [objective.noise * math.fsum(w * w for w in weights)]
        noise += [objective.noise] * len(weights)
        self.model = EffectsModel(self._encoding, self._features, evidence, noise, weights)
        self._pool: list[Configuration] = []
        self._best: Prediction | None = None
        self._usual: list[float] = []
        self._ascent = Ascent(tunables, self._encoding, self._rng)
        fails = failing(self._features, np.array([t.failed for t in self._trials], dtype=bool))
        self._feasibility = Feasibility(self.model.outputs[1:], fails, objective.floor)

    def arms(self, count: int, new: int | None = None) -> list[Configuration]:
        """Choose the configurations of the next block, all different, with at most ``new`` that are
        new to this campaign (None: any number). Every third block includes the best configuration,
        so that it gets the most measurements, every third one subsets of it, to learn what pays
        off, and the others repaired ones, which may gain more without breaking a floor.
        """
        if count < 1:
            return []
        free = [
            c
            for c in self._considered()
            if c != self._baseline and not self._is_out(c) and (new != 0 or c in self._own)
        ]
        if not free:
            return []
        arms: list[Configuration] = []
        room = len(free) if new is None else new
        for configuration in self._in_order(free, 4 * count, climb=room > 0):
            if len(arms) >= count:
                break
            is_new = configuration not in self._own
            if configuration not in arms and (room > 0 or not is_new):
                room -= is_new
                arms.append(configuration)
        return arms

    def _in_order(
        self, free: Sequence[Configuration], count: int, *, climb: bool
    ) -> Iterator[Configuration]:
        """Yield, by turns, the best configuration, up to four variants of it that each omit half of
        its doubtful settings, or configurations whose broken floor a change may repair; then the
        best configuration of each of several draws.
        """
        yield from self._of_turn(climb)
        features = self._encoding.features(free)
        rows = self._rows(free)
        design = self.model.design(features, rows)
        chance = self._feasibility.chances(design, features)
        weights = self.model.outputs[0].draw(self._rng, count)
        draws = self._with_own(design @ weights, rows, self._rng)
        for column in range(count):
            value = np.maximum(-draws[:, column], 1e-6) * chance
            start = free[int(value.argmax())]
            top = self._climbed(start, weights[:, column]) if climb else start
            yield start if self._is_out(top) or top == self._baseline else top

    def _of_turn(self, climb: bool) -> list[Configuration]:
        """Return this turn's arms about the best configuration; draws favour all the others."""
        best = self.best().configuration
        turn = self._rounds % 3 if climb else 0
        if turn == 0:
            return [best] if best != self._baseline else []
        halves = self._halves(best) if turn == 1 else []
        return halves or self._repaired()

    def _climbed(self, start: Configuration, weights: Floats) -> Configuration:
        """Return the best configuration near ``start`` if these were the score's weights."""

        def worth(features: Floats) -> Floats:
            design = self.model.design(features)
            gain = -(design @ weights)
            return np.where(gain > 0.0, gain * self._roughly(design, features), gain)

        return self._candidates.valid(self._ascent.climb(start, worth))

    def _halves(self, best: Configuration) -> list[Configuration]:
        """Return the best configuration without half of its doubtful settings, then without the
        other half, for two different splits, so that every arm gives information on all of them.
        Empty in the first blocks, and if no setting is doubtful.
        """
        if self._rounds < _ESTABLISHED:
            return []
        order = [str(name) for name in self._rng.permutation(self._doubtful(best))]
        middle = (len(order) + 1) // 2
        halves = []
        for names in (order[:middle], order[middle:], order[0::2], order[1::2]):
            values = best.as_dict()
            for name in names:
                values = without(values, name, self._baseline)
            halves.append(self._candidates.valid(values))
        return [
            c for c in unique(halves) if c not in (best, self._baseline) and not self._is_out(c)
        ]

    def _doubtful(self, configuration: Configuration) -> list[str]:
        """Return the settings for which it is not settled whether they pay off."""
        less = self._less_each(configuration)
        if not less:
            return []
        fewer = [*less.values()]
        own, *others = self._values([configuration, *fewer])
        doubt = np.abs(own - np.array(others) - self._objective.tolerance[1] / 2.0)
        clear = doubt >= _CLEAR * self._errors(configuration, fewer)
        return [name for name, sure in zip(less, clear, strict=True) if not sure]

    def _repaired(self) -> list[Configuration]:
        """Return configurations that gain more than the best one except for one component's floor,
        each with a change that may compensate.
        """
        best = self.best()
        repairs = Repairs(
            self.model,
            self._ascent,
            self._objective,
            self._baseline,
            self._candidates.valid,
            [self._trials[row].configuration for row in self._differences],
            self._rng,
        )
        variants = repairs.of(best.configuration, best.gain + self._objective.tolerance[1])
        others = (
            c
            for c in variants
            if c not in (best.configuration, self._baseline) and not self._is_out(c)
        )
        return unique(islice((*self._surprises(best.gain), *others), _REPAIRS))

    def _surprises(self, least: float) -> list[Configuration]:
        """Return the configuration that gained most, more than ``least``, in its only one or two
        blocks, and kept every floor there although the model doubts it; empty if there is none.
        """
        rows = [
            row
            for row, logs in self._differences.items()
            if len(logs) <= 2 and not self._is_out(self._trials[row].configuration)
        ]
        if not rows:
            return []
        design = self.model.design(self._features[rows], rows)
        doubts = self._feasibility.chances(design, self._features[rows]) < 0.5
        weights, surprises = np.asarray(self._objective.weights), []
        for row, doubt in zip(rows, doubts, strict=True):
            mean = np.mean(self._differences[row], axis=0)
            gain = -float(mean @ weights)
            if doubt and gain > least and float(mean.max()) <= self._objective.floor:
                surprises.append((gain, row))
        return [self._trials[row].configuration for _, row in sorted(surprises)[-1:]]

    def hope(self, gain: float, *, new: bool = True) -> float:
        """Return the probability that some candidate gains more than ``gain`` and keeps every
        floor. Unless ``new``, only those that this campaign has measured count.
        """
        pool = [c for c in self._considered() if not self._is_out(c) and (new or c in self._own)]
        if not pool:
            return 0.0
        features = self._encoding.features(pool)
        rows = self._rows(pool)
        design = self.model.design(features, rows)
        likely = self._feasibility.chances(design, features) >= 0.5
        if not likely.any():
            return 0.0
        rng = np.random.default_rng([*self._seed, 0])  # hopes do not depend on earlier draws
        weights = self.model.outputs[0].draw(rng, _HOPES)
        draws = self._with_own(design[likely] @ weights, rows[likely], rng)
        return float((-draws.min(axis=0) > gain).mean())

    def best(self) -> Prediction:
        """Return the configuration that looks best, or the baseline if nothing looks better. A
        setting that puts more than performance at risk is in it only if it is expected to pay off.
        """
        if self._best is None:
            pool = [each for each in self._considered() if not self._is_out(each)]
            value = self._values(pool)
            start = pool[int(value.argmax())]
            top = self._climbed(start, self.model.outputs[0].mean)
            if self._is_out(top) or self._values([top])[0] < value.max():
                top = start
            self._best = self.prediction(self._without_idle_risks(top))
        return self._best

    def _without_idle_risks(self, configuration: Configuration) -> Configuration:
        """Return the configuration without settings that put more than performance at risk and are
        not expected to gain half of the larger tolerance.
        """
        risks = self._candidates.risks(configuration)
        for _ in risks:
            fewer = self._fewer(configuration, risks)
            own, *others = self._values([configuration, *fewer])
            lost = own - np.array(others)
            if lost.min(initial=math.inf) >= self._objective.tolerance[1] / 2.0:
                break
            configuration = fewer[int(lost.argmin())]
        return configuration

    def simplest(self, certified: Configuration) -> Prediction:
        """Return the best configuration without the settings that add less than the tolerance: less
        than can be distinguished from nothing, within the limits of the objective. It may gain less
        than the ``certified`` one, but is not known to lose more than the larger tolerance, and is
        expected to gain at least that much: less would not be worth a certificate.

        Early, when no single setting is known to matter, this would give up much of the gain: many
        settings then have a small expected effect each.
        """
        configuration = self.best().configuration
        low, high = self._objective.tolerance
        gain = self._values([certified])[0]
        while fewer := self._fewer(configuration):
            own, *others = self._values([configuration, *fewer])
            minimum = np.clip(_TELLS * self._errors(configuration, fewer), low, high)
            bearable = gain - np.array(others) <= high + self._errors(certified, fewer)
            bearable &= np.array(others) >= high
            missed = np.where(bearable, own - np.array(others) - minimum, math.inf)
            best = int(missed.argmin())
            if missed[best] > 0.0:
                break
            configuration = fewer[best]
        return self.prediction(configuration)

    def prediction(self, configuration: Configuration) -> Prediction:
        """Predict one configuration."""
        features = self._encoding.features([configuration])
        row = self._row_of.get(configuration, -1)
        design = self.model.design(features, [row])
        score, *components = self.model.outputs
        own = 0.0 if row in self.model.repeated else score.own
        if configuration == self._baseline:
            own = 0.0
        mean, variance = score.predict(design)
        predicted = [component.predict(design) for component in components]
        parts = tuple((float(m[0]), math.sqrt(float(v[0]))) for m, v in predicted)
        return Prediction(
            configuration,
            -float(mean[0]),
            math.sqrt(float(variance[0]) + own),
            float(self._feasibility.chances(design, features)[0]),
            parts,
            len(changed(configuration.as_dict(), self._baseline)),
        )

    def contributions(self, configuration: Configuration) -> list[Contribution]:
        """Return the contribution of each setting that differs from the baseline, given the others;
        the largest first. Settings that are invalid without another one are removed with it, and
        get the same contribution; one that cannot be left out, such as a fixed one, has none.
        """
        less = self._less_each(configuration)
        if not less:
            return []
        features = self._encoding.features([configuration, *less.values()])
        score = self.model.outputs[0]
        # The effect that the configuration has of its own is not attributed to any setting, nor is
        # that of the others without it: both are unknown.
        design = self.model.design(features)
        mean, variance = score.predict(design[1:] - design[0])
        contributions = [
            Contribution(name, float(m), math.sqrt(float(v) + 2.0 * score.own))
            for name, m, v in zip(less, mean, variance, strict=True)
        ]
        return sorted(contributions, key=lambda each: (-each.gain, each.name))

    def _is_out(self, configuration: Configuration) -> bool:
        row = self._row_of.get(configuration)
        return row is not None and (self._trials[row].out or self._trials[row].failed)

    def _rows(self, pool: Sequence[Configuration]) -> Ints:
        return np.array([self._row_of.get(each, -1) for each in pool], np.int64)

    def _values(self, pool: Sequence[Configuration]) -> Floats:
        features = self._encoding.features(pool)
        design = self.model.design(features, self._rows(pool))
        gain = -(design @ self.model.outputs[0].mean)
        # A low probability of being feasible must not make a loss look smaller.
        chance = self._feasibility.chances(design, features)
        values: Floats = np.where(gain > 0.0, gain * chance, gain)
        return values

    def _fewer(
        self, configuration: Configuration, names: Collection[str] | None = None
    ) -> list[Configuration]:
        """Return the variants that each omit one setting (of ``names``) that can be omitted."""
        less = self._less_each(configuration)
        fewer = [each for name, each in less.items() if names is None or name in names]
        return [each for each in fewer if not self._is_out(each)]

    def _less_each(self, configuration: Configuration) -> dict[str, Configuration]:
        """Return, by setting that can be left out, the nearest valid configuration without it."""
        values = configuration.as_dict()
        names = changed(values, self._baseline)
        fewer = [self._candidates.valid(without(values, n, self._baseline)) for n in names]
        return {name: c for name, c in zip(names, fewer, strict=True) if c != configuration}

    def _errors(self, configuration: Configuration, fewer: Sequence[Configuration]) -> Floats:
        """Return the standard error of each simpler configuration's loss of gain, log units."""
        each = [configuration, *fewer]
        design = self.model.design(self._encoding.features(each), self._rows(each))
        _, variance = self.model.outputs[0].predict(design[1:] - design[0])
        return np.sqrt(np.maximum(variance, 1e-12))

    def _considered(self) -> list[Configuration]:
        """Return this decision's candidates: measured ones, variations of the best, random ones."""
        if self._pool:
            return self._pool
        usable = [each.configuration for each in self._trials if not each.failed and not each.out]
        random = self._candidates.random(_RANDOM_CANDIDATES)
        ranked = sorted(zip(-self._values(usable), range(len(usable)), strict=True))
        roots = [self._baseline, *(usable[at] for _, at in ranked[:_ROOTS])]
        first = self._candidates.changed(roots, [*random, *usable], _CHANGED)
        order = np.argsort(-self._values(first))
        again = [first[int(at)] for at in order[:_ROOTS]]
        second = self._candidates.changed(again, [*random, *usable], _CHANGED)
        self._pool = unique([self._baseline, *usable, *random, *first, *second])
        return self._pool

    def _with_own(self, draws: Floats, rows: Ints, rng: np.random.Generator) -> Floats:
        """Add the own effects of new configurations to draws of effects, (rows, count)."""
        new = ~np.isin(rows, self.model.repeated)
        spread = math.sqrt(self.model.outputs[0].own)
        draws[new] += spread * rng.standard_normal((int(new.sum()), draws.shape[1]))
        return draws

    def _roughly(self, design: Floats, features: Floats) -> Floats:
        """See ``Feasibility.roughly``; uses the typical standard errors of candidates."""
        if not self._usual:
            usual = self._encoding.features(self._considered()[:_RANDOM_CANDIDATES])
            self._usual = self._feasibility.spreads(self.model.design(usual))
        return self._feasibility.roughly(design, features, self._usual)
