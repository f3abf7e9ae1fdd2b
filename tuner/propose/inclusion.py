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
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from tuner.propose.encoding import Floats


def inclusion(
    means: Floats, covariances: Floats, variances: Floats, slabs: Floats, absent: Floats
) -> Floats:
    """Return the probability that each group has an effect; (groups,).

    ``means``: (groups, width), and ``covariances``: (groups, width, width), the posterior under
    prior ``variances``, (groups,); a group with fewer weights has zeros and its prior variance in
    their place. ``slabs``: (groups,), the variance of the weights if there is an effect;
    ``absent``: (groups,), prior probability that there is none, above 0 and below 1.
    """
    ratio = (slabs / variances)[:, None, None]
    relative = covariances / variances[:, None, None]
    mixed = relative + ratio * (np.eye(relative.shape[1]) - relative)
    solved = np.linalg.solve(relative, np.linalg.solve(mixed, means[:, :, None]))[:, :, 0]
    squares = slabs / variances**2 * np.einsum("gi,gi->g", means, solved)
    determinants = np.linalg.slogdet(relative)[1] - np.linalg.slogdet(mixed)[1]
    odds = np.log((1.0 - absent) / absent) + (determinants + squares) / 2.0
    probabilities: Floats = expit(odds)
    return probabilities
