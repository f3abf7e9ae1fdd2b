"""Safe arithmetic expressions in space files.

An expression is Python arithmetic over names: ``+ - * / // % **``, comparisons, ``and``, ``or``,
``not``, ``a if b else c``, ``min``, ``max`` and ``ceil_log2``. Nothing else is allowed, so an
untrusted space file can compute values but has no side effects.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Value = int | bool | str

#: Larger numbers are useless too, and could not be added and rounded any more.
LARGEST_NUMBER = 1e300

#: Larger powers are useless in a space file and would only consume memory.
LARGEST_EXPONENT = 64

_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Name,
    ast.Constant,
    ast.Load,
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow),
    *(ast.USub, ast.UAdd, ast.Not, ast.And, ast.Or),
    *(ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE),
)


#: Of a longer expression, an error shows the beginning.
_LONGEST_TEXT = 200


class SpaceError(ValueError):
    """Invalid space, narrowing or command line. The message is one line: where, what, why."""


class ExpressionError(SpaceError):
    """An expression that is invalid, or that has no value for the given numbers."""


def ceil_log2(number: float) -> int:
    """The smallest integer n >= 0 with 2**n >= ``number``."""
    whole = -int(-number // 1)
    return (whole - 1).bit_length() if whole > 1 else 0


def _power(base: float, exponent: float) -> float:
    if abs(exponent) > LARGEST_EXPONENT or abs(base) > 2**LARGEST_EXPONENT:
        raise ExpressionError(f"{base} ** {exponent} is too large")
    result: float | complex = base**exponent
    if isinstance(result, complex):
        raise ExpressionError(f"{base} ** {exponent} is not a real number")
    return result


_FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max, "ceil_log2": ceil_log2}
_GLOBALS = {"__builtins__": {}, "_power": _power, **_FUNCTIONS}


class _Checker(ast.NodeTransformer):
    """Rejects disallowed nodes, and turns each name into a lookup in the mapping ``v``."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.numbers: set[str] = set()

    def visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, _NODES):
            raise ExpressionError(f"{type(node).__name__} is not allowed")
        visited: ast.AST = super().visit(node)
        return visited

    def _part(self, node: ast.expr) -> ast.expr:
        visited = self.visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, int | float | str):
            raise ExpressionError(f"{node.value!r} is not allowed")
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS or node.keywords:
            raise ExpressionError(f"only {', '.join(_FUNCTIONS)} can be called")
        return ast.Call(node.func, [self._part(argument) for argument in node.args], [])

    def _must_be_number(self, node: ast.expr) -> None:
        """Reject strings as operands: they also support ``*`` and ``%``, which can exhaust memory.

        Names are recorded, so that their values can be checked.
        """
        match node:
            case ast.Constant(value=str()):
                raise ExpressionError(f"{node.value!r} is not a number")
            case ast.Name():
                self.numbers.add(node.id)
            case ast.IfExp():
                self._must_be_number(node.body)
                self._must_be_number(node.orelse)
            case ast.BoolOp(values=parts) | ast.Call(args=parts):
                for part in parts:
                    self._must_be_number(part)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self._must_be_number(node.left)
        self._must_be_number(node.right)
        left, right = self._part(node.left), self._part(node.right)
        if isinstance(node.op, ast.Pow):
            return ast.Call(ast.Name("_power", ast.Load()), [left, right], [])
        return ast.BinOp(left, node.op, right)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in _FUNCTIONS:
            raise ExpressionError(f"{node.id} is a function")
        self.names.add(node.id)
        return ast.Subscript(ast.Name("v", ast.Load()), ast.Constant(node.id), ast.Load())


@dataclass(frozen=True, slots=True)
class Expression:
    """A checked expression. ``names``: the names that must have a value; ``numbers``: those of them
    that must not be words. ``place``: file and key where it was read, for errors.
    """

    text: str
    names: frozenset[str] = field(compare=False)
    numbers: frozenset[str] = field(compare=False)
    _compute: Callable[[Mapping[str, Value]], Value] = field(repr=False, compare=False)
    place: str = field(default="", compare=False)

    @classmethod
    def of(cls, text: str, place: str = "") -> Expression:
        """Parse an expression. Raises ExpressionError if it is invalid or not allowed."""
        checker = _Checker()
        try:
            body = checker.visit(ast.parse(text.strip(), mode="eval"))
        except (SyntaxError, ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else str(error)
            raise ExpressionError(f"cannot read the expression {text!r}: {reason}") from None
        assert isinstance(body, ast.Expression)
        arguments = ast.arguments([], [ast.arg("v")], None, [], [], None, [])
        tree = ast.Expression(ast.Lambda(arguments, body.body))
        # Only allowed nodes reach this point, and only the names in _GLOBALS resolve.
        code = compile(ast.fix_missing_locations(tree), "<expression>", "eval")
        names, numbers = frozenset(checker.names), frozenset(checker.numbers)
        return cls(text.strip(), names, numbers, eval(code, dict(_GLOBALS)), place)

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Evaluate the expression. Raises ExpressionError if it has no value (division by 0)."""
        try:
            value = self._compute(values)
        except KeyError as error:
            raise self._error(f"{error.args[0]!r} has no value") from None
        except (ArithmeticError, TypeError, ValueError) as error:
            raise self._error(str(error)) from None
        if not isinstance(value, str) and not abs(value) < LARGEST_NUMBER:
            raise self._error("the result is too large")
        return value

    def _error(self, reason: str) -> ExpressionError:
        place = f"{self.place}: " if self.place else ""
        text = self.text if len(self.text) <= _LONGEST_TEXT else f"{self.text[:_LONGEST_TEXT]}..."
        return ExpressionError(f"{place}{text!r}: {reason}")

    def number(self, values: Mapping[str, Value]) -> float:
        """Evaluate an expression whose value must be a number."""
        value = self(values)
        if isinstance(value, str):
            raise self._error(f"the result is not a number but {value!r}")
        return value
