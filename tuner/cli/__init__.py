"""The command line. ``main`` is the console script ``fstune``."""

import sys

from tuner.errors import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the command line; exits with the status of what happened."""
    try:
        # Here, so that Ctrl-C while it is imported is no traceback.
        from tuner.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
