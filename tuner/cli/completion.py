"""What a shell offers to complete a word with: names that are at hand without asking anybody.

Nothing is made, brought up to date or fetched for it, and what goes wrong offers nothing: a key
press is no place for errors.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

#: Campaigns that are offered, newest first.
_MOST = 30


def campaigns(ctx: Any, incomplete: str) -> list[str]:
    """Campaigns of the state directory's file: 'last', identifiers, and names of one word."""
    from tuner.settings import ClientSettings, Settings
    from tuner.store import Store, holds_one
    from tuner.store.pages import Pages

    words = ["last"]
    with suppress(Exception):
        state_dir: Path | None = ctx.params.get("state_dir")
        directory = Settings().state_dir if state_dir is None else Path(state_dir)
        elsewhere = ctx.params.get("server") or ctx.params.get("database")
        if state_dir is None:
            elsewhere = elsewhere or Settings().database_url or ClientSettings().server
        if not elsewhere and holds_one(directory):
            with Store.open(directory) as store:
                newest = Pages(store).campaigns(_MOST)
            words += [campaign.id for campaign in newest]
            names = [campaign.name for campaign in newest]
            words += [name for name in names if " " not in name and names.count(name) == 1]
    return _beginning(words, incomplete)


def spaces(incomplete: str) -> list[str]:
    """Packaged search spaces."""
    import search_spaces

    return _beginning(search_spaces.names(), incomplete)


def parameters(ctx: Any, incomplete: str) -> list[str]:
    """Parameters of the space that was named before."""
    import search_spaces

    names: list[str] = []
    with suppress(Exception):
        names = list(search_spaces.load(ctx.params["name"]).by_name)
    return _beginning(names, incomplete)


def workloads(incomplete: str) -> list[str]:
    """Packaged workloads."""
    from workloads import packaged

    return _beginning(packaged(), incomplete)


def _beginning(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
