"""Conversion of documents from a server to the records used in reports.

What a document does not contain stays empty in its record. Unknown fields are ignored: the server
may be newer. ServerError for an invalid document.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

import search_spaces
from tuner.errors import ServerError
from tuner.judge.noise_records import NoiseLevel, NoiseReport
from tuner.model import (
    BASELINE,
    Answer,
    Block,
    BlockKind,
    Campaign,
    ComponentEffect,
    Configuration,
    Event,
    Measurement,
    Recommendation,
    SettingEffect,
    Trial,
    Value,
)
from tuner.page.document import Noise
from tuner.page.names import Names
from tuner.page.recommendations import KnownRecommendation
from tuner.records.comparison import Comparison
from tuner.records.estimate import Estimate
from tuner.records.named_comparison import ComparedConfiguration, NamedComparison, ShownEffect, Word
from tuner.records.none_ran import NONE_RAN
from tuner.records.status import Absence, Status
from tuner.report.recommendation_document import Options, RecommendationDocument
from tuner.text import clean
from tuner.time_use import TimeUse

Record = TypeVar("Record")

_CAMPAIGN = TypeAdapter(Campaign)
_TRIAL = TypeAdapter(Trial)
_BLOCK = TypeAdapter(Block)
_MEASUREMENT = TypeAdapter(Measurement)
_EVENT = TypeAdapter(Event)
_STATUS = TypeAdapter(Status)
_PRESENCE: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])
_ANSWER = TypeAdapter(RecommendationDocument)
_NOISE = TypeAdapter(Noise)
_ROW = TypeAdapter(ComparedConfiguration)
_VALUES: TypeAdapter[dict[str, Value]] = TypeAdapter(dict[str, Value])
_VERDICTS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(list[dict[str, Any]])


def read_campaign(document: Any) -> Campaign:
    """Read a campaign, with the part of its answer that lists have: trial, ratio, why it has
    expired, which certificate it verified, whether nothing ran.
    """
    fields = mapping(document)
    answer = fields.get("answer")
    answer_record = None
    if answer is not None:
        failed = fields.get("none_ran") is True
        answer_record = Recommendation(
            answer=checked(TypeAdapter(Answer), answer),
            reason=NONE_RAN if failed else clean(str(fields.get("verification") or "")),
            trial=checked(TypeAdapter(int), fields.get("trial") or BASELINE),
            configuration=Configuration(),
            baseline=Configuration(),
            flags={},
            baseline_flags={},
            confidence=0.0,
            blocks=0,
            ratio=checked(TypeAdapter(float | None), fields.get("ratio")),
            notes=(clean(str(expiry)),) if (expiry := fields.get("expired")) else (),
        )
    use = fields.get("time_use") or TimeUse()
    replacements = {
        "spec": _spaces(fields.get("spaces")),
        "baseline": None,
        "recommendation": answer_record,
        "time_use": use,
    }
    return checked(_CAMPAIGN, fields | replacements)


def _spaces(spaces: object) -> str:
    """Return the part of the specification that a server reports: the packaged spaces by
    part.
    """
    packaged = search_spaces.names()
    items = spaces.items() if isinstance(spaces, dict) else ()
    return json.dumps({"spaces": {c: {"name": name} for c, name in items if name in packaged}})


def read_trial(document: Any) -> Trial:
    """Read a trial."""
    fields = mapping(document)
    return checked(
        _TRIAL, fields | {"configuration": read_configuration(fields.get("configuration"))}
    )


def read_event(document: Any) -> Event:
    """Read an event; a string is parsed as JSON."""
    if isinstance(document, str):
        try:
            return _EVENT.validate_json(document)
        except ValidationError as problem:
            raise _misunderstanding(problem) from None
    return checked(_EVENT, document)


def read_status(document: Any) -> Status:
    """Read what is running and what is waiting."""
    return checked(_STATUS, document)


def read_absence(document: str, campaign: str) -> Absence | None:
    """Read from the text of a document why a campaign is not progressing; None: it is."""
    try:
        presence = _PRESENCE.validate_json(document)
    except ValidationError as problem:
        raise _misunderstanding(problem) from None
    sentence = clean(str(presence.get("reason", "")))
    queued, verifies = (presence.get(name) is True for name in ("queued", "verifies"))
    return Absence(campaign, sentence, queued, verifies) if sentence else None


def read_blocks(blocks: Iterable[Any], measurements: Iterable[Any] = ()) -> list[Block]:
    """Read blocks with their measurements, without the runs of references."""
    of: dict[object, list[Measurement]] = defaultdict(list)
    for document in measurements:
        fields = mapping(document)
        configured = {n: read_configuration(fields.get(n)) for n in ("requested", "effective")}
        of[fields.get("block")].append(checked(_MEASUREMENT, fields | configured))
    all_blocks = []
    for document in blocks:
        fields = mapping(document)
        all_blocks.append(checked(_BLOCK, fields | {"measurements": of[fields.get("number")]}))
    return all_blocks


def read_estimates(verdicts: Any, kind: BlockKind) -> dict[int, tuple[Estimate, int]]:
    """Read, by trial, its time ratio to the baseline in blocks of one kind, and the number of
    blocks.
    """
    estimates: dict[int, tuple[Estimate, int]] = {}
    for verdict in checked(_VERDICTS, verdicts):
        if verdict.get("kind") == kind and verdict.get("ratio") is not None:
            trial, blocks, ratio = (verdict.get(n) for n in ("trial", "blocks", "ratio"))
            lower, upper = verdict.get("lower_ratio"), verdict.get("upper_ratio")
            number = checked(TypeAdapter(tuple[int, int]), (trial, blocks))
            estimate = Estimate(checked(TypeAdapter(float), ratio), *_bounds(lower, upper))
            estimates[number[0]] = (estimate, number[1])
    return estimates


def read_ratios(points: Any) -> list[float]:
    """Read the baseline's time in each block over its mean of all blocks."""
    documents = checked(TypeAdapter(list[dict[str, Any]]), points)
    return [checked(TypeAdapter(float), document.get("ratio")) for document in documents]


def read_recommendation(document: Any) -> KnownRecommendation:
    """Read a certified recommendation, with what it was measured on."""
    fields = mapping(document)
    text = {
        name: clean(checked(TypeAdapter(str), fields.get(name)))
        for name in ("campaign", "testbed", "identity", "fingerprint", "expired", "workload")
    }
    answer = read_answer(fields.get("recommendation"))
    return KnownRecommendation(
        campaign=text["campaign"],
        finished=checked(TypeAdapter(datetime), fields.get("finished")),
        names=Names(
            text["testbed"],
            text["workload"],
            checked(TypeAdapter(dict[str, str]), fields.get("spaces")),
        ),
        identity=text["identity"],
        fingerprint=text["fingerprint"],
        expired=text["expired"],
        answer=recommendation_of(answer),
        document=answer,
    )


def read_comparison(document: Any) -> NamedComparison:
    """Read the results of a campaign that compares given configurations."""
    fields = mapping(document)
    of = checked(TypeAdapter(list[dict[str, Any]]), fields.get("configurations"))
    levels = (fields.get(name) for name in ("confidence", "together", "delta"))
    confidence, together, delta = checked(TypeAdapter(tuple[float, float, float]), tuple(levels))
    return NamedComparison(tuple(map(_row, of)), confidence, together, delta)


def _row(fields: Mapping[str, Any]) -> ComparedConfiguration:
    components = mapping(fields.get("components"))
    whole, by_component = _effect(fields), {n: _effect(of) for n, of in components.items()}
    return checked(_ROW, {**fields, "whole": whole, "components": by_component})


def _effect(document: Any) -> ShownEffect:
    fields = mapping(document)
    ratio, lower, upper = (fields.get(n) for n in ("ratio", "lower_ratio", "upper_ratio"))
    estimate = None
    if ratio is not None:
        estimate = Estimate(checked(TypeAdapter(float), ratio), *_bounds(lower, upper))
    return ShownEffect(checked(TypeAdapter(Word), fields.get("result")), estimate)


def read_sentences(document: Any) -> list[str]:
    """Read the sentences of a document."""
    sentences = checked(TypeAdapter(list[str]), mapping(document).get("sentences"))
    return list(map(clean, sentences))


def read_noise(document: Any) -> tuple[NoiseReport, tuple[str, ...]]:
    """Read how much each noise-reduction measure helped, and the components."""
    noise = checked(_NOISE, document)
    levels = tuple(
        NoiseLevel(one.measure, one.variance, tuple(one.components.values()), one.share)
        for one in noise.levels
    )
    report = NoiseReport(levels, noise.arms, noise.freedom, noise.again, clean(noise.adjustment))
    return report, tuple(noise.levels[0].components) if noise.levels else ()


def read_answer(document: Any) -> RecommendationDocument:
    """Read the document of a recommendation."""
    return checked(_ANSWER, document)


def recommendation_of(document: RecommendationDocument) -> Recommendation:
    """Return the recommendation that a document was made from; percents are rounded to 0.001."""
    d, effect = document, document.improvement
    lower, upper = (
        (None, None) if effect.ratio is None else _bounds(effect.lower_ratio, effect.upper_ratio)
    )
    largest = effect.largest_compatible_percent
    if largest is None and effect.ratio is not None and d.trial != BASELINE:
        largest = math.inf
    return Recommendation(
        answer=d.answer,
        reason=d.reason,
        trial=d.trial,
        configuration=Configuration.of(d.configuration),
        baseline=Configuration.of(d.baseline),
        flags=_arguments(d.flags),
        baseline_flags=_arguments(d.baseline_flags),
        confidence=effect.confidence,
        blocks=d.blocks,
        ratio=effect.ratio,
        lower=lower,
        upper=upper,
        largest_compatible_improvement=None if largest is None else largest / 100.0,
        e_value=d.e_value,
        threshold=d.threshold,
        components={
            name: ComponentEffect(
                math.inf if c.ratio is None else c.ratio,
                *_bounds(c.lower_ratio, c.upper_ratio),
                floor_held=c.floor_held,
            )
            for name, c in d.components.items()
        },
        notes=tuple(d.notes),
        settings={
            name: SettingEffect(of.ratio, *_bounds(of.lower_ratio, of.upper_ratio))
            for name, of in d.settings.items()
            if of.ratio is not None
        },
    )


def comparisons_of(document: RecommendationDocument) -> list[Comparison]:
    """Return a document's comparisons with references."""
    return [
        Comparison(
            r.reference,
            r.settings,
            Estimate(r.ratio, *_bounds(r.lower_ratio, r.upper_ratio)),
            r.blocks,
            r.clients,
            r.cold,
        )
        for r in document.references
    ]


def _arguments(options: Mapping[str, Options]) -> dict[str, tuple[str, ...]]:
    return {name: tuple(of.arguments) for name, of in options.items()}


def _bounds(lower: float | None, upper: float | None) -> tuple[float, float]:
    """Return an interval of ratios; a missing bound is null in a document."""
    return 0.0 if lower is None else float(lower), math.inf if upper is None else float(upper)


def read_configuration(values: Any) -> Configuration:
    """Read a configuration from its values by name."""
    by_name: dict[str, Value] = checked(_VALUES, values)
    return Configuration.of(by_name)


def mapping(document: Any) -> dict[str, Any]:
    """Return a document that is a mapping. ServerError when it is not."""
    if not isinstance(document, dict):
        raise ServerError("the server's answer is not understood: it is not a document")
    return document


def checked(adapter: TypeAdapter[Record], value: Any) -> Record:
    """Return a value validated for its type. ServerError."""
    try:
        return adapter.validate_python(value)
    except ValidationError as problem:
        raise _misunderstanding(problem) from None


def _misunderstanding(problem: ValidationError) -> ServerError:
    first = problem.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return ServerError(f"the server's answer is not understood: {where}: {first['msg'].lower()}")
