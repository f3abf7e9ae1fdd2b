"""Arithmetic expressions in space files: what is allowed, and results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces import Expression, ExpressionError, SpaceError, Value

#: Numbers that Python can neither add to others nor take the logarithm of.
TOO_LARGE = ("1" + 400 * "0", "ceil_log2(1e308 * 10)")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 * threads + 1", 19),
        ("min(threads, 4) ** 2 // 3", 5),
        ("max(1, 2, threads) % 5", 4),
        ("7 / 2", 3.5),
        ("-threads", -9),
        ("not small or threads > 8", True),
        ("small and threads != 9", False),
        ("18 if threads < 10 else 20", 18),
        ("preset == 'none'", True),
        ("4 < threads <= 9", True),
        ("ceil_log2(threads)", 4),
    ],
)
def test_arithmetic(text: str, value: Value) -> None:
    assert Expression.of(text)({"threads": 9, "small": True, "preset": "none"}) == value


def test_names_are_known_before_it_is_computed() -> None:
    assert Expression.of("max(a, 2) if b else c").names == {"a", "b", "c"}
    assert Expression.of("(a if b == 'x' else max(c, 1)) * d").numbers == {"a", "c", "d"}


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "threads.__class__",
        "(lambda: 1)()",
        "[1 for _ in (1, 2)]",
        "threads[0]",
        "print(1)",
        "max",
        "max(*threads)",
        "max(1, key=threads)",
        "a := 1",
        "f'{threads}'",
        "None",
        "1 +",
        "a = 1",
        "",
        "1j",
        "'a' * 9",
        "threads * 'a'",
        "'%9d' % threads",
        "(threads or 'a') * 9",
        "max('a', 'b') * 9",
        "(threads if threads else 'a') * 9",
    ],
)
def test_expressions_that_are_not_allowed(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression.of(text)


@pytest.mark.parametrize(
    "text",
    [
        "1 // zero",
        "9 ** 9 ** 9",
        "word < 1",
        "unknown + 1",
        "1e308 * 10",
        "(0 - 8) ** 0.5",
        *TOO_LARGE,
    ],
)
def test_expressions_without_a_value(text: str) -> None:
    with pytest.raises(ExpressionError):
        Expression.of(text)({"zero": 0, "word": "x"})


@given(st.integers(min_value=1, max_value=2**70))
def test_ceil_log2_is_the_smallest_sufficient_exponent(number: int) -> None:
    exponent = Expression.of("ceil_log2(n)")({"n": number})
    assert isinstance(exponent, int)
    assert 2**exponent >= number
    assert exponent == 0 or 2 ** (exponent - 1) < number


def test_an_error_says_where_the_expression_was_read() -> None:
    expression = Expression.of("1 // (threads - 9)", "mine.yaml: parameters.width.at_most")
    with pytest.raises(SpaceError, match=r"^mine\.yaml: parameters\.width\.at_most: '1 // "):
        expression({"threads": 9})
