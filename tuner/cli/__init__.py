"""The command line. ``main`` is the console script ``fstune``."""

import os
import sys

from tuner.errors import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the command line; exits with the status of what happened."""
    # Matrices are small: several threads would wait for each other, on a busy machine a hundred
    # times as long. It counts when numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        # Here, so that Ctrl-C while it is imported is no traceback.
        from tuner.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
