"""The scipy functions that the statistics need, imported lazily.

Importing scipy takes as long as everything else that most commands do, and most do not need it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_Real = float | NDArray[np.float64] | NDArray[np.int64]


def ndtri(p: _Real) -> Any:
    """Return x with P(Z <= x) = p for a standard normal Z, elementwise."""
    from scipy import special

    return special.ndtri(p)


def stdtr(freedom: _Real, t: _Real) -> Any:
    """P(T <= t) for Student's T with `freedom` degrees of freedom, elementwise."""
    from scipy import special

    return special.stdtr(freedom, t)


def stdtrit(freedom: _Real, p: _Real) -> Any:
    """Return t with P(T <= t) = p for Student's T with `freedom` degrees, elementwise."""
    from scipy import special

    return special.stdtrit(freedom, p)


def fdtrc(over: _Real, under: _Real, x: _Real) -> Any:
    """P(F > x) for F with `over` numerator and `under` denominator degrees, elementwise."""
    from scipy import special

    return special.fdtrc(over, under, x)


def chdtri(freedom: _Real, p: _Real) -> Any:
    """Return x with P(X > x) = p for chi-square X with `freedom` degrees, elementwise."""
    from scipy import special

    return special.chdtri(freedom, p)
