"""The ``testbed:`` section of a campaign file, with a key for each way to name a testbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import SerializerFunctionWrapHandler, create_model, model_serializer, model_validator

from tuner.documents import Section
from tuner.services.kind import Kind, TestbedType
from tuner.services.kinds import types_of_testbeds

if TYPE_CHECKING:
    _Keys = Section
else:
    # One key for each way to name a testbed; exactly one of them is given.
    _Keys = create_model(
        "_Keys",
        __base__=Section,
        **{
            key: (testbed_type.section | None, None)
            for key, (_, testbed_type) in types_of_testbeds().items()
        },
    )


class TestbedSection(_Keys):
    """Where to measure: exactly one way to name a testbed; see ``tuner.services``."""

    __test__ = False

    @model_validator(mode="after")
    def _one_way(self) -> TestbedSection:
        if sum(getattr(self, key) is not None for key in types_of_testbeds()) != 1:
            *others, last = (
                f"'{testbed_type.example}'" for _, testbed_type in types_of_testbeds().values()
            )
            raise ValueError(f"name exactly one kind: {', '.join(others)} or {last}")
        return self

    @model_serializer(mode="wrap")
    def _only_its_key(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Write no other keys: a campaign can then be read wherever its own kind is installed."""
        return {key: value for key, value in write(self).items() if value is not None}

    @property
    def key(self) -> str:
        """The key that specifies the testbed."""
        return next(key for key in types_of_testbeds() if getattr(self, key) is not None)

    @property
    def kind(self) -> Kind:
        """The kind of service of the testbed."""
        return types_of_testbeds()[self.key][0]

    @property
    def type(self) -> TestbedType[Any]:
        """How the testbed is specified."""
        return types_of_testbeds()[self.key][1]

    @property
    def section(self) -> Any:
        """The content under its key."""
        return getattr(self, self.key)

    @property
    def own_name(self) -> str | None:
        """Its unique name among testbeds of its kind; None if it belongs to the campaign alone."""
        return self.type.name(self.section)

    def of(self, section: object) -> TestbedSection:
        """Return the same with another section under its key."""
        return self.model_copy(update={self.key: section})
