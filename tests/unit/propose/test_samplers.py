"""Proposals: valid, new, deterministic, and better with more observations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from search_spaces import Space
from tests.unit.propose.spaces import CLIENT, FACTS, SERVER, SMALL_CLIENT, tunables
from tuner.model import Configuration
from tuner.propose.asking import OptunaProposer
from tuner.propose.proposer import Observation, Proposer
from tuner.propose.strategies import proposer as create_proposer

BASELINE = Observation(Configuration(), 0.0)
SAMPLERS = ("tpe", "cmaes", "nsga2", "random", "grid")


def proposer(
    sampler: str = "tpe", seed: int = 1, server: Space = SERVER, client: Space = CLIENT
) -> Proposer:
    result = create_proposer(sampler, tunables(server, client), seed)
    assert result is not None
    return result


def asking() -> OptunaProposer:
    result = proposer()
    assert isinstance(result, OptunaProposer)
    return result


def test_the_model_needs_no_proposer() -> None:
    assert create_proposer("model", tunables(), 1) is None


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_are_valid_new_and_complete(sampler: str) -> None:
    observations = [BASELINE]
    for _ in range(6):
        proposals = proposer(sampler).propose(4, observations)
        assert len(proposals) == 4
        assert {p.origin for p in proposals} == {sampler}
        for proposal in proposals:
            assert proposal.configuration not in {
                observation.configuration for observation in observations
            }
            for space in (SERVER, CLIENT):
                values = proposal.configuration.part(space.part)
                assert space.violations(values, FACTS) == []
            observations.append(Observation(proposal.configuration, 0.01))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_observations_same_proposals(sampler: str) -> None:
    observations = [
        BASELINE,
        *(Observation(p.configuration, 0.1) for p in proposer().propose(9, [BASELINE])),
    ]
    assert proposer(sampler).propose(3, observations) == proposer(sampler).propose(3, observations)
    assert proposer(sampler).propose(3, observations) != proposer(sampler, seed=2).propose(
        3, observations
    )


def test_a_configuration_without_a_result_is_not_proposed_again() -> None:
    first = proposer().propose(3, [BASELINE])
    again = proposer().propose(3, [BASELINE, *(Observation(p.configuration, None) for p in first)])
    assert not {p.configuration for p in first} & {p.configuration for p in again}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_small_space_is_exhausted(sampler: str) -> None:
    small = CLIENT.narrow(only=("daemons",), ranges={"daemons": (4, 6)})
    server = SERVER.narrow(only=())
    one = proposer(sampler, server=server, client=small)
    proposals = one.propose(10, [BASELINE])
    assert 2 <= len(proposals) < 10
    observations = [BASELINE, *(Observation(p.configuration, 0.0) for p in proposals)]
    assert one.propose(10, observations) == []


def test_a_grid_covers_a_small_space_a_few_at_a_time() -> None:
    server = SERVER.narrow(only=("dir_buffers",))
    client = CLIENT.narrow(only=("daemons",), ranges={"daemons": (4, 6)})
    observations = [BASELINE]
    while proposals := proposer("grid", server=server, client=client).propose(3, observations):
        observations += [Observation(p.configuration, 0.0) for p in proposals]
        assert len(observations) < 100
    values = [observation.configuration.as_dict() for observation in observations]
    daemons = {v.get("cache_manager.daemons") for v in values}
    buffers = {v.get("fileserver.dir_buffers") for v in values}
    assert daemons == {None, 4, 5, 6}
    assert {None, 70, 4096} < buffers
    assert (
        len(observations)
        == len({observation.configuration for observation in observations})
        == 4 * len(buffers)
    )


@pytest.mark.slow
def test_a_grid_of_combinations_that_become_identical_is_not_exhausted_early() -> None:
    """A preset makes most other settings of the fileserver invalid."""
    client = CLIENT.narrow(only=())
    observations = [BASELINE]
    while len(observations) < 300:
        proposals = proposer("grid", client=client).propose(8, observations)
        assert len(proposals) == 8
        observations += (Observation(each.configuration, 0.0) for each in proposals)


def test_results_of_earlier_campaigns_leave_out_nothing_of_the_grid() -> None:
    server = SERVER.narrow(only=("dir_buffers",))
    client = CLIENT.narrow(only=())
    priors = [
        Observation(Configuration.of({"fileserver.dir_buffers": 100 + n}), -0.1, prior=True)
        for n in range(6)
    ]
    alone, after = (
        proposer("grid", server=server, client=client).propose(9, [BASELINE, *some])
        for some in ([], priors)
    )
    assert len(alone) >= 4
    assert after == alone


@pytest.mark.slow
def test_proposals_move_to_the_fast_region() -> None:
    """After enough observations of a simple step, the proposals lie on the fast side."""
    server = SERVER.narrow(only=("dir_buffers",))
    client = SMALL_CLIENT
    observations = [BASELINE]

    def difference(configuration: Configuration) -> float:
        buffers = configuration.as_dict().get("fileserver.dir_buffers", 90)
        assert isinstance(buffers, int)
        return 0.2 * (buffers > 1000)

    for _ in range(12):
        for proposal in proposer(server=server, client=client).propose(3, observations):
            observations.append(
                Observation(proposal.configuration, difference(proposal.configuration))
            )
    late = [observation.difference for observation in observations[-12:]]
    early = [observation.difference for observation in observations[1:9]]
    assert sum(d or 0.0 for d in late) / len(late) < max(0.1, sum(d or 0.0 for d in early) / 8)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "nsga2"])
def test_what_is_proposed_depends_on_what_was_measured(sampler: str) -> None:
    """Most proposals set a parameter that gains, and few do if the same one loses."""

    def share(gain: float) -> float:
        observations = [BASELINE]
        for _ in range(20):
            for proposal in proposer(sampler).propose(4, observations):
                sets = "fileserver.threads" in proposal.configuration.as_dict()
                observations.append(Observation(proposal.configuration, -gain * sets))
        return sum(each.difference == -gain for each in observations[-24:]) / 24

    assert share(0.1) > 0.75
    assert share(-0.1) < 0.25


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_configuration_outside_the_ranges_can_be_observed(sampler: str) -> None:
    """A host's configuration as found need not lie in the space's ranges."""
    strange = Configuration.of({"fileserver.threads": 9999, "fileserver.preset": "S"})
    assert len(proposer(sampler).propose(2, [BASELINE, Observation(strange, -0.5)])) == 2


def test_priors_guide_and_may_be_proposed_again() -> None:
    """They count as measurements for the sampler, and for nothing else."""
    observations = [
        BASELINE,
        *(Observation(p.configuration, 0.1) for p in proposer().propose(9, [BASELINE])),
    ]
    as_priors = [replace(observation, prior=True) for observation in observations[1:]]
    one = proposer().propose(3, observations)
    assert proposer().propose(3, [BASELINE, *as_priors]) == one
    first = proposer().propose(1, [BASELINE])[0].configuration
    prior = Observation(first, -0.5, prior=True)
    study = asking()._study([BASELINE, prior])
    assert [trial.value for trial in study.trials] == [0.0, -0.5]
    # A configuration that cannot be proposed here would be recorded as a different one.
    elsewhere = Configuration.of(first.as_dict() | {"fileserver.threads": 1_000_000})
    for strange in (elsewhere, Configuration.of({"moon.phase": 3})):
        study = asking()._study([BASELINE, Observation(strange, -0.5, prior=True)])
        assert [trial.value for trial in study.trials] == [0.0]
