"""``fstune report``: write a campaign's report."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli.options import (
    CampaignReference,
    Database,
    Server,
    StateDir,
    open_store,
    server_address,
)
from tuner.cli.output import AsJson
from tuner.cli.say import say
from tuner.errors import NotFoundError, SpecError
from tuner.new_file import new_file
from tuner.page.forms import ReportForm, file_name, report_text


def report(
    campaign: CampaignReference = "last",
    html: Annotated[
        str | None,
        typer.Option(
            "--html",
            metavar="PATH",
            help="Write one self-contained HTML file, which must not exist. A directory gets a "
            "file named after the campaign; - is standard output.",
            show_default=False,
        ),
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print Markdown, the default.")
    ] = False,
    as_json: AsJson = False,
    state_dir: StateDir = None,
    database: Database = None,
    server: Server = None,
) -> None:
    """Write a report for readers who were not involved: question, answer, evidence, threats.

    The HTML file contains its plots and needs no network: attach it to a change request. Campaigns
    that still run, failed or found nothing have reports too, which say so.
    """
    if sum((html is not None, markdown, as_json)) > 1:
        raise SpecError("--html, --markdown, --json: choose one")
    form = ReportForm.JSON if as_json else ReportForm.MARKDOWN
    if html is not None:
        form = ReportForm.HTML
    name, text = _report(campaign, form, state_dir, database, server)
    if html is None or html == "-":
        say(text, nl=False)
        return
    file = Path(html)
    if file.is_dir():
        file /= file_name(name, form)
    elif html.endswith("/"):
        raise NotFoundError(f"{html}: there is no such directory")
    with new_file(file, private=False) as output:
        output.write(text.encode())
    say(f"campaign {name}: report written to {file}")


def _report(
    campaign: str,
    form: ReportForm,
    state_dir: Path | None,
    database: str | None,
    server: str | None,
) -> tuple[str, str]:
    """Return a campaign's full identifier, and its report."""
    if (address := server_address(server, state_dir, database)) is not None:
        from tuner.cli import remote

        output = BytesIO()
        return remote.report(address, campaign, form, output), output.getvalue().decode()
    from tuner.page.snapshot import SnapshotCache

    with open_store(state_dir, database) as store:
        name = store.campaign(campaign).id
        return name, report_text(SnapshotCache(store), name, form)
