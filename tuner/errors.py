"""All failures that fstune reports: one tree of classes, with a slug, HTTP status and exit status.

The message of an error says what went wrong, where, and what to do, in one line. Any other
exception that escapes is a bug of fstune and shows its traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

Details = Mapping[str, str | int]

#: Exit status of a command interrupted by Ctrl-C, by the convention of shells.
INTERRUPTED = 130
#: Exit status of 'fstune recommend' when nothing is better than the baseline.
NO_IMPROVEMENT = 3


class TunerError(Exception):
    """Base class. ``slug`` names the kind for programs, ``http_status`` and ``exit_code`` go with
    it. ``details``: for programs, such as the command that failed.
    """

    slug: ClassVar[str] = "error"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str = "", details: Details | None = None) -> None:
        super().__init__(message)
        self.details: Details = details or {}


def of_kind(slug: str, message: str) -> TunerError | None:
    """Return an error of the kind with this slug, with this complete message; None if no kind has
    it. Only kinds in modules that have been imported are known.
    """
    todo: list[type[TunerError]] = [TunerError]
    while todo:
        kind = todo.pop()
        # A subclass without a slug of its own is a special case of its base.
        if vars(kind).get("slug") == slug:
            error = kind.__new__(kind)
            # The constructors of some kinds compose the message.
            TunerError.__init__(error, message)
            return error
        todo.extend(kind.__subclasses__())
    return None


def evidence(problem: BaseException) -> dict[str, str | int]:
    """Return the kind of a failure, and the details of it or of its cause."""
    data: dict[str, str | int] = {}
    if isinstance(problem, TunerError):
        data["failure"] = problem.slug
    cause: BaseException | None = problem
    while cause is not None:
        if isinstance(cause, TunerError) and cause.details:
            return data | dict(cause.details)
        cause = cause.__cause__
    return data


class SpecError(TunerError):
    """Wrong input from the user: a campaign, space, workload or testbed file, or an option."""

    slug = "bad-input"
    http_status = 422
    exit_code = 2


class OtherComponentsError(SpecError):
    """A stored campaign measured components that its workload does not have now: its file has
    changed.
    """

    slug = "other-components"

    def __init__(self, campaign: str) -> None:
        super().__init__(
            f"the workload of campaign {campaign} no longer has the components that were measured; "
            "restore its file"
        )


class NotFoundError(TunerError):
    """The requested item does not exist."""

    slug = "not-found"
    http_status = 404
    exit_code = 2


class ConflictError(TunerError):
    """The request conflicts with the current state: already running, already finished, in use."""

    slug = "conflict"
    http_status = 409
    exit_code = 4


class InUseError(ConflictError):
    """Another process uses a testbed or one of its hosts, or runs the campaign: later, it may be
    free.
    """

    slug = "in-use"


class StalePlanError(ConflictError):
    """The configuration in effect has changed since the approved plan was made."""

    slug = "stale-plan"


class StoreError(TunerError):
    """The database, or a file written from it, cannot be opened, read or written."""

    slug = "store"
    http_status = 503
    exit_code = 5


class TestbedError(TunerError):
    """A host of the testbed does not work as needed; the campaign cannot continue."""

    __test__ = False  # not a test class, whatever pytest thinks of the name
    slug = "testbed"
    http_status = 502
    exit_code = 6


class TransportError(TestbedError):
    """A command did not reach its host, or did not return in time."""

    slug = "transport"


class AccessError(TestbedError):
    """The host rejects our login, or we do not trust its key: retrying would not help."""

    slug = "access"


class TokenError(TestbedError):
    """The ticket or the token that a host needs cannot be obtained."""

    slug = "token"


class ConfigurationError(TunerError):
    """A configuration is infeasible: the server or client does not start with it, or does not adopt
    it.
    """

    slug = "configuration"
    http_status = 500
    exit_code = 7


class WorkloadError(TunerError):
    """A workload run is void: an operation failed, or did not read back what was written."""

    slug = "workload"
    http_status = 500
    exit_code = 8


class CampaignHalted(TunerError):
    """The campaign stopped itself: the baseline cannot be measured, or there were too many
    failures.
    """

    slug = "halted"
    http_status = 500
    exit_code = 9


class ServerError(TunerError):
    """A server cannot be reached, denies access, or sends an answer that is not understood."""

    slug = "server"
    http_status = 502
    exit_code = 10
