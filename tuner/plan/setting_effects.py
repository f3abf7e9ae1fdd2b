"""The effect of each of several recommended settings, and the caveats on it. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tuner.model import Configuration, SettingEffect
from tuner.propose.prediction import Contribution
from tuner.records.differences import differences, names_of_changes
from tuner.records.estimate import NORMAL_95, is_clear


def setting_effects(
    contributions: Sequence[Contribution], finalist: Configuration, baseline: Configuration
) -> dict[str, SettingEffect]:
    """Return the effect of each of several changed settings, the largest gain first."""
    names = {each.name for each in contributions}
    if len(names.union(names_of_changes(baseline, finalist))) < 2:
        return {}  # the gain of the answer is that of its only setting
    return {
        each.name: SettingEffect(
            math.exp(-each.gain),
            math.exp(-each.gain - NORMAL_95 * each.error),
            math.exp(-each.gain + NORMAL_95 * each.error),
        )
        for each in contributions
    }


def caveats(
    effects: Mapping[str, SettingEffect],
    finalist: Configuration,
    baseline: Configuration,
    *,
    certified: bool,
) -> tuple[str, ...]:
    """Caveats on the effects of several changed settings. ``certified``: together, they gain."""
    if not effects:
        return measured_together(finalist, baseline)
    sentences = [
        "the gain of each setting is what the others would lose without it, as the search model "
        "estimates it from all measurements; as these also selected the configuration, it may be "
        "optimistic"
    ]
    unclear = [name for name, of in effects.items() if not is_clear(of.lower, of.upper)]
    unknown = [name for name in names_of_changes(baseline, finalist) if name not in effects]
    if certified and len(unclear) == len(effects) and not unknown:
        sentences.append(
            "which settings the gain comes from is not shown; by itself, each may do nothing"
        )
    elif unclear:
        sentences.append(f"no effect is shown of {', '.join(unclear)}, which may do nothing")
    if unknown:
        sentences.append(
            f"the gain of {', '.join(unknown)} is not known, as the campaign never tries the "
            "others without"
        )
    return tuple(sentences)


def measured_together(finalist: Configuration, baseline: Configuration) -> tuple[str, ...]:
    """Caveat for a certificate of several changed settings: their effects were not separated."""
    changed, _ = differences(baseline, finalist)
    if len(changed) < 2:
        return ()
    return ("these settings were measured together; their individual effects were not tested",)
