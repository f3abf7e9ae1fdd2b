"""Exceptions for private cells, with messages that users can act on."""


class CellError(Exception):
    """A private cell could not be built, used or taken down.

    The message states what failed, where, and what to do.
    """


class CellSpecError(CellError):
    """A value in the specification of a cell is invalid."""


class CellTimeout(CellError, TimeoutError):
    """A command in a node exceeded its time limit and was killed."""
