"""The probability that each group of weights has an effect at all. Pure.

Of the many parameters of a service, few matter for a workload. With normal priors alone, the rest
is estimated to have small effects, and the configuration that looks best takes the most favourable
value of each: together they promise a gain that is not there. So the weights w of a group are zero
with a prior probability (a spike), and normal with variance s otherwise (a slab; Mitchell and
Beauchamp 1988). The measurements change the odds by the Bayes factor of the slab. It follows from
the group's posterior under a normal prior with another variance v, mean m and covariance C = v R:

    log BF = (log |R| - log |T| + r m' R^-1 T^-1 m / v) / 2,    T = R + r (I - R),    r = s / v

since R^-1 - I is the information on w in units of 1 / v, and R^-1 m / v the information times its
estimate. With r = 1, this is the Savage-Dickey ratio at zero (Dickey 1971).

Several outputs with the same groups inform about each other. A parameter matters with the prior
probability p, and one that matters has an effect on each output with probability q, independently
of the others. The measurements of another output then multiply the odds that it matters by

    1 - q + q BF.

So a parameter that has an effect on one component is soon believed to have one on the next, and one
that has shown none on several of them, to have none on the rest.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import expit, logit

from tuner.propose.encoding import Floats

#: Probability that a parameter that matters has an effect on a given output.
_ON_AN_OUTPUT = 0.5


def bayes_factors(means: Floats, covariances: Floats, variances: Floats, slabs: Floats) -> Floats:
    """Return the log Bayes factor of each group's effect, against none; (groups,).

    ``means``: (groups, width), and ``covariances``: (groups, width, width), the posterior under
    prior ``variances``, (groups,); a group with fewer weights has zeros and its prior variance in
    their place. ``slabs``: (groups,), the variance of the weights if there is an effect.
    """
    ratio = (slabs / variances)[:, None, None]
    relative = covariances / variances[:, None, None]
    mixed = relative + ratio * (np.eye(relative.shape[1]) - relative)
    solved = np.linalg.solve(relative, np.linalg.solve(mixed, means[:, :, None]))[:, :, 0]
    squares = slabs / variances**2 * np.einsum("gi,gi->g", means, solved)
    determinants = np.linalg.slogdet(relative)[1] - np.linalg.slogdet(mixed)[1]
    factors: Floats = (determinants + squares) / 2.0
    return factors


def inclusion(prior: Floats, factors: Floats) -> Floats:
    """Return the probability that each group has an effect, from its prior probability, above 0 and
    below 1, and its log Bayes factor; all (groups,).
    """
    probabilities: Floats = expit(logit(prior) + factors)
    return probabilities


def shared(prior: Floats, others: Sequence[Floats]) -> Floats:
    """Return the prior probability that each group has an effect on one of several outputs.

    ``prior``: (groups,), that its parameter matters at all; ``others``: the log Bayes factors of
    each other output measured so far, (groups,).
    """
    odds = logit(prior)
    for factors in others:
        odds = odds + np.logaddexp(np.log(1.0 - _ON_AN_OUTPUT), np.log(_ON_AN_OUTPUT) + factors)
    probabilities: Floats = _ON_AN_OUTPUT * expit(odds)
    return probabilities
