"""Proposals: valid, new, the same for the same question, and better for what is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from search_spaces import Space
from tests.unit.propose.spaces import CLIENT, FACTS, SERVER, SMALL_CLIENT, tunables
from tuner.model import Configuration
from tuner.propose.asking import OptunaProposer
from tuner.propose.proposer import Observation, Proposer
from tuner.propose.strategies import proposer as made

BASELINE = Observation(Configuration(), 0.0)
SAMPLERS = ("tpe", "cmaes", "nsga2", "random", "grid")


def proposer(
    sampler: str = "tpe", seed: int = 1, server: Space = SERVER, client: Space = CLIENT
) -> Proposer:
    found = made(sampler, tunables(server, client), seed)
    assert found is not None
    return found


def asking() -> OptunaProposer:
    found = proposer()
    assert isinstance(found, OptunaProposer)
    return found


def test_the_model_needs_no_proposer() -> None:
    assert made("model", tunables(), 1) is None


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_proposals_are_valid_new_and_complete(sampler: str) -> None:
    known = [BASELINE]
    for _ in range(6):
        found = proposer(sampler).propose(4, known)
        assert len(found) == 4
        assert {p.origin for p in found} == {sampler}
        for proposal in found:
            assert proposal.configuration not in {told.configuration for told in known}
            for space in (SERVER, CLIENT):
                values = proposal.configuration.part(space.component)
                assert space.violations(values, FACTS) == []
            known.append(Observation(proposal.configuration, 0.01))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_same_question_same_answer(sampler: str) -> None:
    known = [
        BASELINE,
        *(Observation(p.configuration, 0.1) for p in proposer().propose(9, [BASELINE])),
    ]
    assert proposer(sampler).propose(3, known) == proposer(sampler).propose(3, known)
    assert proposer(sampler).propose(3, known) != proposer(sampler, seed=2).propose(3, known)


def test_what_was_never_measured_is_not_proposed_again() -> None:
    first = proposer().propose(3, [BASELINE])
    again = proposer().propose(3, [BASELINE, *(Observation(p.configuration, None) for p in first)])
    assert not {p.configuration for p in first} & {p.configuration for p in again}


@pytest.mark.slow
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_small_space_is_used_up_and_then_there_is_nothing(sampler: str) -> None:
    small = CLIENT.narrow(only=("daemons",), ranges={"daemons": (4, 6)})
    server = SERVER.narrow(only=())
    one = proposer(sampler, server=server, client=small)
    found = one.propose(10, [BASELINE])
    assert 2 <= len(found) < 10
    known = [BASELINE, *(Observation(p.configuration, 0.0) for p in found)]
    assert one.propose(10, known) == []


def test_a_grid_covers_a_small_space_a_few_at_a_time() -> None:
    server = SERVER.narrow(only=("dir_buffers",))
    client = CLIENT.narrow(only=("daemons",), ranges={"daemons": (4, 6)})
    known = [BASELINE]
    while found := proposer("grid", server=server, client=client).propose(3, known):
        known += [Observation(p.configuration, 0.0) for p in found]
        assert len(known) < 100
    values = [told.configuration.as_dict() for told in known]
    daemons = {v.get("cache_manager.daemons") for v in values}
    buffers = {v.get("fileserver.dir_buffers") for v in values}
    assert daemons == {None, 4, 5, 6}
    assert {None, 70, 4096} < buffers
    assert len(known) == len({told.configuration for told in known}) == 4 * len(buffers)


@pytest.mark.slow
def test_it_learns_where_it_is_fast() -> None:
    """After enough questions on a plain slope, its proposals lie on the fast side."""
    server = SERVER.narrow(only=("dir_buffers",))
    client = SMALL_CLIENT
    known = [BASELINE]

    def difference(configuration: Configuration) -> float:
        buffers = configuration.as_dict().get("fileserver.dir_buffers", 90)
        assert isinstance(buffers, int)
        return 0.2 * (buffers > 1000)

    for _ in range(12):
        for proposal in proposer(server=server, client=client).propose(3, known):
            known.append(Observation(proposal.configuration, difference(proposal.configuration)))
    late = [told.difference for told in known[-12:]]
    early = [told.difference for told in known[1:9]]
    assert sum(d or 0.0 for d in late) / len(late) < max(0.1, sum(d or 0.0 for d in early) / 8)


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_configuration_from_elsewhere_can_be_told(sampler: str) -> None:
    """What was found on a host need not lie in the space's ranges."""
    strange = Configuration.of({"fileserver.threads": 9999, "fileserver.preset": "S"})
    assert len(proposer(sampler).propose(2, [BASELINE, Observation(strange, -0.5)])) == 2


def test_priors_guide_and_may_be_proposed_again() -> None:
    """They count for the sampler like what was measured, and for nothing else."""
    known = [
        BASELINE,
        *(Observation(p.configuration, 0.1) for p in proposer().propose(9, [BASELINE])),
    ]
    as_priors = [replace(told, prior=True) for told in known[1:]]
    one = proposer().propose(3, known)
    assert proposer().propose(3, [BASELINE, *as_priors]) == one
    first = proposer().propose(1, [BASELINE])[0].configuration
    prior = Observation(first, -0.5, prior=True)
    study = asking()._study([BASELINE, prior])
    assert [trial.value for trial in study.trials] == [0.0, -0.5]
    # What could not be proposed here would be told of another configuration.
    elsewhere = Configuration.of(first.as_dict() | {"fileserver.threads": 1_000_000})
    for strange in (elsewhere, Configuration.of({"moon.phase": 3})):
        study = asking()._study([BASELINE, Observation(strange, -0.5, prior=True)])
        assert [trial.value for trial in study.trials] == [0.0]
