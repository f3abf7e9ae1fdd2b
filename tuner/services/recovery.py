"""What else a testbed can do whose hosts keep a configuration that a run has left there."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Recoverable(Protocol):
    """A testbed of a testbed file. It can be restored without being opened, also when it must not
    be used now; 'fstune testbed restore' does so by hand.
    """

    def put_back(self, campaign: str) -> list[str]:
        """Restore what earlier runs of a campaign have changed and not restored; return a sentence
        for each part. Nobody else's use is disturbed. Does nothing once ``open`` has taken hosts.

        Raises TestbedError when something could not be restored, after restoring the rest.
        """
        ...
