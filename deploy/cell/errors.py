"""What can go wrong with a private cell, as one exception with a sentence a person can act on."""


class CellError(Exception):
    """A private cell could not be built, used or taken down; the text says what, where and what to
    do.
    """


class CellTimeout(CellError, TimeoutError):
    """A command in a node has not ended in time; it was killed."""
