"""The shared cell for the tests that attack real hosts."""

from tests.integration.conftest import cell, cells, shared_cell, state

__all__ = ["cell", "cells", "shared_cell", "state"]
