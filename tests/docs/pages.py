"""Reads the code in documents."""

from __future__ import annotations

import re


def code_blocks(text: str, language: str) -> list[str]:
    """Return the fenced blocks in this language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def words_in_code(text: str, separator: str = r"\W+") -> set[str]:
    """Return the words of all code within lines."""
    return {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.split(separator, code)}
