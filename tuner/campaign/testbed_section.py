"""The ``testbed:`` section of a campaign file: a key for each way that a kind of service offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import create_model, model_validator

from tuner.documents import Section
from tuner.services.kind import Kind, Way
from tuner.services.kinds import ways

if TYPE_CHECKING:
    _Keys = Section
else:
    # A key for each way that a kind of service offers; of these exactly one is given.
    _Keys = create_model(
        "_Keys",
        __base__=Section,
        **{key: (way.section | None, None) for key, (_, way) in ways().items()},
    )


class TestbedSection(_Keys):
    """Where to measure: exactly one way to name a testbed; see ``tuner.services``."""

    __test__ = False

    @model_validator(mode="after")
    def _one_way(self) -> TestbedSection:
        if sum(getattr(self, key) is not None for key in ways()) != 1:
            *others, last = (f"'{way.example}'" for _, way in ways().values())
            raise ValueError(f"name exactly one kind: {', '.join(others)} or {last}")
        return self

    @property
    def key(self) -> str:
        """The key of the way in which it is named."""
        return next(key for key in ways() if getattr(self, key) is not None)

    @property
    def kind(self) -> Kind:
        """The kind of service that it is a testbed of."""
        return ways()[self.key][0]

    @property
    def way(self) -> Way[Any]:
        """The way in which it is named."""
        return ways()[self.key][1]

    @property
    def section(self) -> Any:
        """What stands under its key."""
        return getattr(self, self.key)

    @property
    def own_name(self) -> str | None:
        """What tells it from others of its kind; None for one that is the campaign's own."""
        return self.way.name(self.section)

    def of(self, section: object) -> TestbedSection:
        """The same with another section under its key."""
        return self.model_copy(update={self.key: section})
