"""JSON documents for other programs: campaigns, their trials, and the current status.

Times are in UTC, in ISO 8601; percentages are positive when faster, as in the recommendation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from tuner.model import Campaign, Trial
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import NamedComparison, ShownEffect
from tuner.records.none_ran import none_ran
from tuner.records.status import Status
from tuner.states import CampaignState
from tuner.text import percent_faster, unbounded

Json = dict[str, object]


def listed_json(campaigns: Collection[Campaign], stalled: Mapping[str, str]) -> str:
    """Return a list of campaigns as JSON."""
    return _text([campaign_document(each, stalled.get(each.id, "")) for each in campaigns])


def campaign_json(
    campaign: Campaign,
    trials: Sequence[Trial],
    estimates: Mapping[int, Estimate],
    absence: str,
    comparison: NamedComparison | None = None,
    noise: object = None,
) -> str:
    """Return one campaign as JSON, with its trials and, where given, comparison and noise.

    ``noise``: as returned by ``noise_document``.
    """
    rows = [_trial(trial, estimates.get(trial.number)) for trial in trials]
    document = {**campaign_document(campaign, absence), "trials": rows}
    if comparison is not None:
        document["compared"] = compared_document(comparison)
    if noise is not None:
        document["noise"] = noise
    return _text(document)


def compared_document(comparison: NamedComparison) -> Json:
    """Return a comparison of named configurations."""

    def of(effect: ShownEffect) -> Json:
        return {"result": effect.word, **_percentages(effect.estimate)}

    return {
        "delta": comparison.delta,
        "confidence": comparison.confidence,
        "together": comparison.together,
        "configurations": [
            {
                "name": row.name,
                "trial": row.trial,
                "blocks": row.blocks,
                "changes": row.changes,
                "reason": row.reason or None,
                **of(row.whole),
                "components": {name: of(each) for name, each in row.components.items()},
            }
            for row in comparison.rows
        ],
    }


def status_json(status: Status) -> str:
    """Return running campaigns, waiting campaigns and workers as JSON."""
    return _text(asdict(status))


def campaign_document(campaign: Campaign, stalled: str = "") -> Json:
    """Return a campaign. ``stalled``: why it makes no progress although its state is running."""
    c, answer = campaign, campaign.recommendation
    return {
        "id": c.id,
        "name": c.name,
        "state": c.state,
        "stalled": stalled or None,
        "reason": c.reason,
        "created": c.created,
        "updated": c.updated,
        "seed": c.seed,
        # A server does not say it while a campaign runs.
        "wall_s": c.time_use.wall_s or (None if c.state is CampaignState.RUNNING else 0.0),
        "answer": None if answer is None else answer.answer,
        "none_ran": answer is not None and none_ran(answer),
        "trial": None if answer is None else answer.trial,
        "percent": None if answer is None or answer.ratio is None else _percent(answer.ratio),
        "expired": None if answer is None else answer.expired or None,
        "verification": None if answer is None else answer.verification or None,
    }


def _trial(trial: Trial, estimate: Estimate | None) -> Json:
    return {
        "number": trial.number,
        "origin": trial.origin,
        "state": trial.state,
        "reason": trial.reason,
        "configuration": trial.configuration.as_dict(),
        "flags": {component: list(words) for component, words in trial.flags.items()},
        **_percentages(estimate),
    }


def _percentages(estimate: Estimate | None) -> Json:
    bounded = estimate is not None and not unbounded(estimate.lower, estimate.upper)
    return {
        "percent": None if estimate is None else _percent(estimate.ratio),
        "lower_percent": _percent(estimate.upper) if estimate and bounded else None,
        "upper_percent": _percent(estimate.lower) if estimate and bounded else None,
    }


def _percent(ratio: float) -> float:
    return round(percent_faster(ratio), 3)


def _text(document: object) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False, default=_plain)


def _plain(value: object) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
