"""A kind of service for tests that watch a campaign: a simulated one whose runs take real time.

On a simulated testbed a campaign uses all of a processor for as long as it is watched. This one
mostly sleeps. ``installed`` has the entry point by which processes of fstune find the kind.
"""

from __future__ import annotations

from pathlib import Path

INSTALLED = Path(__file__).parent / "installed"
