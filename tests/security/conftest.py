"""The shared cell for the tests that attack real hosts."""

from tests.integration.conftest import cell, cells, state

__all__ = ["cell", "cells", "state"]
