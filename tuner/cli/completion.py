"""Shell completion of names that are available locally.

Completion creates nothing, upgrades nothing and uses no network. If something fails, it offers
nothing instead of printing an error.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

#: Maximum number of campaigns offered, newest first.
_MOST = 30


def campaigns(ctx: Any, incomplete: str) -> list[str]:
    """Complete 'last', and the campaigns in the state directory."""
    return _beginning(["last"], incomplete) + named_campaigns(ctx, incomplete)


def named_campaigns(ctx: Any, incomplete: str) -> list[str]:
    """Complete campaigns in the state directory: identifiers, unique one-word names."""
    from tuner.settings import ClientSettings, Settings
    from tuner.store import Store, holds_one
    from tuner.store.pages import Pages

    words: list[str] = []
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
    """Complete packaged search spaces."""
    import search_spaces

    return _beginning(search_spaces.names(), incomplete)


def parameters(ctx: Any, incomplete: str) -> list[str]:
    """Complete parameters of the search space named earlier on the command line."""
    import search_spaces

    names: list[str] = []
    with suppress(Exception):
        names = list(search_spaces.load(ctx.params["name"]).by_name)
    return _beginning(names, incomplete)


def workloads(incomplete: str) -> list[str]:
    """Complete packaged workloads."""
    from workloads import packaged

    return _beginning(packaged(), incomplete)


def _beginning(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
