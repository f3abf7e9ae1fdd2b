"""What JSON values of columns become when they are read."""

from __future__ import annotations

from collections.abc import Mapping

from tuner.model import SettingEffect


def flags(document: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Return the options of each program."""
    return {part: tuple(options) for part, options in document.items()}


def setting_effects(document: Mapping[str, list[float]]) -> dict[str, SettingEffect]:
    """Return the effect of each setting."""
    return {name: SettingEffect(*numbers) for name, numbers in document.items()}
