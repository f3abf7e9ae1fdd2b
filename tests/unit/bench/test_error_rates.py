"""The error-rate study: its rules against the code they model, a small run, its committed rows."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import optuna
import pytest
import scipy

from bench.error_rates import study
from bench.error_rates.guards import (
    CANDIDATES,
    MISTAKES,
    PILOT_BLOCKS,
    PILOTS,
    RACE_BLOCKS,
    Detection,
    Look,
    campaigns_of,
    pilot_ends,
)
from bench.error_rates.noise import NOISES, ON_TWO_TESTBEDS, Noise, Stage
from bench.error_rates.rules import (
    ALPHA_PRUNE,
    RULES,
    Paths,
    certified,
    confirmed,
    wilcoxon_level,
    wilcoxon_pruned,
)
from bench.output import with_table, write_csv
from tests.unit.bench.committed import committed, rows_of
from tuner.judge import ministat
from tuner.judge.certify import CertificateOutcome, PairedTimes, certify
from tuner.judge.evalue import Floats
from tuner.judge.pilot import PilotBlock, PilotOutcome, PilotRules, assess_pilot
from tuner.judge.race import Action, RaceRules, decide
from tuner.judge.score import margin
from tuner.judge.verdict import Outcome

pytestmark = pytest.mark.slow

BLOCKS = 12


def noise(name: str) -> Noise:
    return next(n for n in (*NOISES, *ON_TWO_TESTBEDS) if n.name == name)


def draw_paths(name: str, paths: int, blocks: int = BLOCKS, arms: int = 2) -> Floats:
    return noise(name).draw(np.random.default_rng(4), (paths, blocks, arms))


def looks(name: str, log_s: Floats, horizon: int = BLOCKS) -> np.ndarray:
    return next(rule for rule in RULES if rule.name == name).looks(Paths(log_s), horizon)


@pytest.mark.parametrize("kind", [*NOISES, *ON_TWO_TESTBEDS], ids=lambda n: n.name)
def test_no_arm_is_faster_than_another(kind: Noise) -> None:
    """Within four standard errors of the mean."""
    log_s = kind.draw(np.random.default_rng(1), (2000, 10, 3))
    assert log_s.shape == (2000, 10, 3)
    of_paths = (log_s[..., 1:] - log_s[..., :1]).mean(axis=(1, 2))
    assert abs(of_paths.mean()) < 4.0 * of_paths.std() / len(of_paths) ** 0.5


def test_what_the_noises_are_named_for() -> None:
    d = {n.name: np.diff(draw_paths(n.name, 3000, 10), axis=-1)[..., 0] for n in NOISES}
    assert scipy.stats.skew(d["skewed D, right"], axis=None) > 1.0
    assert scipy.stats.skew(d["skewed D, left"], axis=None) < -1.0
    for name, rho in (("AR(.3)", 0.0), ("walk", 0.0), ("dependent D, .3", 0.3)):
        lag_one = float(np.mean(d[name][:, 1:] * d[name][:, :-1]) / np.mean(d[name] ** 2))
        assert lag_one == pytest.approx(rho, abs=0.04)


def test_testbeds_take_turns_and_are_independent() -> None:
    kind = ON_TWO_TESTBEDS[1]
    log_s = kind.draw(np.random.default_rng(4), (3000, 10, 2))
    d = np.diff(log_s, axis=-1)[..., 0]
    for lag, rho in ((1, 0.0), (2, 0.5)):
        correlation = float(np.mean(d[:, lag:] * d[:, :-lag]) / np.mean(d**2))
        assert correlation == pytest.approx(rho, abs=0.04)


def test_pruning_is_the_races_rule() -> None:
    """Compare look by look whether the race drops a candidate that is delta faster."""
    rules = RaceRules(delta=0.02, max_blocks=BLOCKS, alpha_equivalent=1e-9)
    log_s = draw_paths("normal", 40)
    log_s[..., 1] += 0.02  # so that many are dropped
    flags = looks("prune", log_s)
    shifted = log_s - margin(rules.delta) * np.array([0.0, 1.0])
    for path, expected in zip(shifted, flags, strict=True):
        logs = path.T[:, :, np.newaxis]
        decisions = [decide(1, logs[:, :n], rules, (1.0,)) for n in range(3, BLOCKS)]
        assert [one.action is Action.PRUNE for one in decisions] == expected[:-1].tolist()
    assert 10 < flags[:, -1].sum() < 40


@pytest.mark.parametrize("robust", [False, True])
def test_certification_is_the_judges(robust: bool) -> None:
    log_s = draw_paths("normal", 30)
    log_s[..., 1] -= 0.02
    flags = (confirmed if robust else certified)(Paths(log_s), BLOCKS)
    for path, expected in zip(np.exp(log_s), flags, strict=True):
        pairs = [PairedTimes((float(b),), (float(a),)) for a, b in path]
        outcomes = [
            certify(pairs[:n], [1.0], floor=0.9, max_n=BLOCKS, robust=robust).outcome
            for n in range(3, BLOCKS + 1)
        ]
        assert [one is CertificateOutcome.CERTIFIED for one in outcomes] == expected.tolist()
    assert 5 < flags[:, -1].sum() < 30


def test_ministat_is_ministats() -> None:
    log_s = draw_paths("normal", 30)
    log_s[..., 1] += 0.01
    flags = looks("ministat, each look", log_s)
    for path, expected in zip(np.exp(log_s), flags, strict=True):
        proven = [
            ministat.difference(*(ministat.summarise(path[:n, arm]) for arm in (0, 1))).proven
            for n in range(3, BLOCKS + 1)
        ]
        assert proven == expected.tolist()
    assert (looks("ministat, once", log_s)[:, 0] == flags[:, -1]).all()
    assert 0 < flags.sum() < flags.size


def test_paired_t_is_scipys() -> None:
    log_s = draw_paths("t3", 30)
    log_s[..., 1] += 0.01
    flags = looks("paired t, each look", log_s)
    d = log_s[..., 1] - log_s[..., 0]
    for n in range(3, BLOCKS + 1):
        p = scipy.stats.ttest_1samp(d[:, :n], 0.0, axis=1, alternative="greater").pvalue
        assert np.array_equal(p < 0.05, flags[:, n - 3])
    assert 0 < flags.sum() < flags.size


def test_signed_rank_levels_are_exact() -> None:
    rng = np.random.default_rng(2)
    for n in (2, 3, 4, 5, 9, 25):
        for x in rng.normal(0.5, 1.0, (20, n)):
            result = scipy.stats.wilcoxon(x, alternative="greater", method="exact")
            assert (result.pvalue < 0.1) == (result.statistic >= wilcoxon_level(n, 0.1))


def test_wilcoxon_is_optunas() -> None:
    """Compare with Optuna itself after each step of each path; the best trial is the baseline."""
    log_s = draw_paths("log-normal", 25)
    log_s[..., 1] += 0.02
    seconds = np.exp(log_s)
    flags = wilcoxon_pruned(Paths(log_s), BLOCKS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        pruner = optuna.pruners.WilcoxonPruner()
    for path, expected in zip(seconds, flags, strict=True):
        study_ = optuna.create_study()
        steps = dict(enumerate(path[:, 0].tolist()))
        best = optuna.trial.create_trial(value=0.0, intermediate_values=steps)
        study_.add_trial(best)
        verdicts = [
            pruner.prune(
                study_,
                optuna.trial.create_trial(
                    value=1.0, intermediate_values=dict(enumerate(path[:n, 1].tolist()))
                ),
            )
            for n in range(2, BLOCKS + 1)
        ]
        assert verdicts == expected.tolist()
    assert 0 < flags.sum() < flags.size


def test_a_search_ends_where_a_candidate_is_dropped() -> None:
    campaigns = campaigns_of(noise("normal"), np.random.default_rng(1), 50, 2, -0.02)
    measured = (~np.isnan(campaigns.search)).sum(axis=-1)
    assert campaigns.search.shape == (50, 6, 2 * RACE_BLOCKS)
    assert (measured[~campaigns.dropped] == RACE_BLOCKS).all()
    assert (measured >= 3).all()
    assert (measured[campaigns.dropped] < RACE_BLOCKS).any()
    assert np.isnan(campaigns.search[:, :3, RACE_BLOCKS:]).all()
    assert campaigns.dropped.mean() > 0.3


def test_a_twin_is_as_noisy_as_the_baseline_and_states_last() -> None:
    stages = [Stage(10, 2, twin=True), Stage(10, 4)]
    for name, skew in (("skewed D, left", 1.0), ("skewed D, right", 0.0)):
        pilot, _ = noise(name).through(np.random.default_rng(1), 2000, stages)
        for arm in (0, 1):
            skewness = scipy.stats.skew(pilot[..., arm], axis=None)
            assert skewness == pytest.approx(skew * 1.9, abs=0.3)
    for name, rho in (("dependent D, .5", 0.5), ("walk", 0.85), ("normal", 0.0)):
        pilot, race = noise(name).through(np.random.default_rng(1), 3000, stages)
        last, first = pilot[:, -1, 0], race[:, 0, 0]
        assert np.corrcoef(last, first)[0, 1] == pytest.approx(rho, abs=0.1)


def test_a_pilot_ends_where_the_judge_ends_it() -> None:
    rules = PilotRules(
        weights=(1.0,),
        delta=0.02,
        floor=0.05,
        max_blocks=PILOT_BLOCKS,
        budget_s=1e9,
        arms=4,
        certify_blocks=20,
        certify_share=0.3,
    )
    twins = noise("normal").through(
        np.random.default_rng(3), 40, [Stage(PILOT_BLOCKS, 2, twin=True)]
    )[0]
    d = twins[..., 1] - twins[..., 0]
    for log_s, end in zip(np.exp(twins), pilot_ends(d), strict=True):
        run = [PilotBlock((b,), (a,), True, 60.0) for a, b in log_s.tolist()]
        # Chance refusals by a pilot's guards do not affect when it ends.
        assessments = [assess_pilot(run[:n], rules) for n in range(3, PILOT_BLOCKS + 1)]
        same = [
            one.verdict.outcome is Outcome.EQUIVALENT and one.outcome is not PilotOutcome.UNDECIDED
            for one in assessments
        ]
        assert end == (same.index(True) + 3 if True in same else PILOT_BLOCKS)


def test_guards_see_only_the_part_of_the_pilot_that_was_run() -> None:
    campaigns = campaigns_of(noise("normal"), np.random.default_rng(1), 5, 2, 0.0)
    blocks = {p: int((~np.isnan(campaigns.before(3, p)[0])).sum()) for p in PILOTS}
    assert blocks == {"none": 0, "as run": campaigns.pilot_ends[3], "20 blocks": PILOT_BLOCKS}
    assert 3 <= blocks["as run"] < PILOT_BLOCKS
    for pilot in PILOTS:
        assert np.array_equal(
            campaigns.before(3, pilot)[1:, PILOT_BLOCKS:], campaigns.search[3], equal_nan=True
        )


@pytest.mark.parametrize("where", ["", ", two testbeds"])
@pytest.mark.parametrize("mistake", MISTAKES)
def test_strong_dependence_is_caught(mistake: str, where: str) -> None:
    rng = np.random.default_rng(1)
    kind = noise(f"dependent D, .5{where}")
    detections = MISTAKES[mistake](kind, rng, 400, 4, Look(1000, 0))
    assert tuple(detections) == PILOTS
    for caught in detections.values():
        assert caught.matters
        assert caught.warned > 0.7 * caught.seen
        assert caught.left < 0.6 * caught.seen


def test_a_promise_is_broken_by_three_standard_errors() -> None:
    def counted(mistakes: int) -> Detection:
        return Detection(ALPHA_PRUNE, 10_000, mistakes, 0.0, 0, 0, 0, 0, 0)

    assert not counted(355).matters  # .0304 + 3 x .00172 = .0355
    assert counted(356).matters


def test_the_study_in_small(tmp_path: Path) -> None:
    errors = study.error_rows(200)
    assert len(errors) == len(NOISES) * len(RULES) * len(study.HORIZONS)
    assert errors == study.error_rows(200)
    by_rule = {(r.noise, r.rule): r.error for r in errors if r.blocks == max(study.HORIZONS)}
    assert by_rule["normal", "paired t, each look"] > 0.15
    assert by_rule["normal", "e-value .05, Ville"] < 0.1
    write_csv(errors, tmp_path / "errors.csv", ".4g")
    lines = (tmp_path / "errors.csv").read_text().splitlines()
    assert len(lines) == len(errors) + 1
    table = study.error_table(errors, 20)
    assert table.count("\n") == 2 + len(NOISES)
    marked = "a\n<!-- t: written by the study -->old<!-- t: written by the study -->\nz\n"
    assert with_table(marked, table, "t").count(table) == 1


def test_committed_errors_keep_the_promises(root: Path) -> None:
    rows = committed(root, "results.csv")
    assert len(rows) == len(NOISES) * len(RULES) * len(study.HORIZONS)
    for row in rows:
        wrong, paths, nominal = int(row["wrong"]), int(row["paths"]), float(row["nominal"])
        assert paths >= 20_000
        if row["promised"] == "True":
            error_se = (nominal * (1.0 - nominal) / paths) ** 0.5
            assert wrong / paths <= nominal + 3.0 * error_se, row
    promised = {(row["noise"], row["rule"]) for row in rows if row["promised"] == "True"}
    assert {n for n, _ in promised} == {n.name for n in NOISES if n.promised}
    assert {r for _, r in promised} >= {"prune", "promote", "certify"}


def test_committed_guards_catch_what_matters(root: Path) -> None:
    rows = [r for r in committed(root, "guards.csv") if r["matters"] == "True"]
    expected = {n.name for n in (*NOISES, *ON_TWO_TESTBEDS) if not n.promised}
    assert {r["noise"] for r in rows} == expected
    assert {r["pilot"] for r in rows} == set(PILOTS)
    as_run = [r for r in rows if r["pilot"] == "as run"]
    assert len(as_run) == 16
    assert min(float(r["warned_share"]) for r in as_run) >= 0.8


def test_committed_guards_are_quiet_under_normal_noise(root: Path) -> None:
    short, long = (races * CANDIDATES for races in study.RACES)
    most = {short: 0.15, long: 0.08}
    rows = [r for r in committed(root, "guards.csv") if r["noise"] == "normal"]
    assert {int(r["candidates"]) for r in rows} == set(most)
    for row in rows:
        assert float(row["warned_without_cause"]) <= most[int(row["candidates"])], row


def test_readme_shows_the_committed_figures(root: Path) -> None:
    text = (root / "bench" / "error_rates" / "README.md").read_text(encoding="utf-8")
    # The share has four digits in the file.
    rows = rows_of(study.ErrorRow, root, "results.csv")
    errors = [replace(row, error=row.wrong / row.paths) for row in rows]
    assert study.error_table(errors, 20) in text
    assert study.error_table(errors, 50) in text
    guards = rows_of(study.GuardRow, root, "guards.csv")
    # The remaining rate has one digit less in the file, so it may round differently.
    readme_rows = {tuple(line.split(" | ")[:5]) for line in text.splitlines()}
    assert {
        tuple(line.split(" | ")[:5]) for line in study.guard_table(guards).splitlines()
    } <= readme_rows
