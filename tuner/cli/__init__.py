"""The command line. ``main`` is the console script ``fstune``."""

import gc
import os
import sys

from tuner.errors import INTERRUPTED

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit with its status."""
    # Matrices are small: several threads would mostly wait for each other, which can take a hundred
    # times as long on a busy machine. Must be set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Plugins of pydantic add nothing here, and to look for them opens a file of each package.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # What imports create stays: to look for garbage among it would take much of their time. On
    # again before a command does its work: see tuner.cli.app.
    gc.disable()
    try:
        # Imported here so that Ctrl-C during the import prints no traceback.
        from tuner.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()
