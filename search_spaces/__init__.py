"""Search spaces as data: one YAML document per part and version, with a typed API.

``load`` reads a space. A ``Space`` renders and parses command lines, finds violations, predicts
what reading back should show, and can be narrowed. ``draw`` generates valid configurations.
"""

from search_spaces.expressions import Expression, ExpressionError, Value
from search_spaces.fitting import Fitter
from search_spaces.inventory import installed
from search_spaces.loading import load, parse_space
from search_spaces.lookup import names
from search_spaces.model import (
    Bound,
    Change,
    Condition,
    Constraint,
    Expected,
    Fact,
    Form,
    HardLimits,
    Kind,
    Option,
    Outside,
    Parameter,
    Parsed,
    Preset,
    ReadBack,
    Risk,
    Role,
    SpaceError,
    Takes,
    Use,
)
from search_spaces.sampling import Ask, Chance, Sampler, answers, draw, questions
from search_spaces.space import Space

__all__ = [
    "Ask",
    "Bound",
    "Chance",
    "Change",
    "Condition",
    "Constraint",
    "Expected",
    "Expression",
    "ExpressionError",
    "Fact",
    "Fitter",
    "Form",
    "HardLimits",
    "Kind",
    "Option",
    "Outside",
    "Parameter",
    "Parsed",
    "Preset",
    "ReadBack",
    "Risk",
    "Role",
    "Sampler",
    "Space",
    "SpaceError",
    "Takes",
    "Use",
    "Value",
    "answers",
    "draw",
    "installed",
    "load",
    "names",
    "parse_space",
    "questions",
]
