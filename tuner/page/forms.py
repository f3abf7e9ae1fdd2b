"""The file formats of reports."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tuner.page.effects_cache import EffectsCache
    from tuner.page.snapshot import SnapshotCache


class ReportForm(StrEnum):
    """A kind of file."""

    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"

    @property
    def media_type(self) -> str:
        """The HTTP content type."""
        return {"html": "text/html", "markdown": "text/markdown", "json": "application/json"}[self]

    @property
    def ending(self) -> str:
        """The file name extension, without the dot."""
        return {"html": "html", "markdown": "md", "json": "json"}[self]


def file_name(campaign: str, form: ReportForm) -> str:
    """Return a file name for the report of a campaign. Imported identifiers may be any text."""
    return f"fstune-report-{re.sub(r'[^A-Za-z0-9-]', '_', campaign)}.{form.ending}"


def report_text(
    snapshots: SnapshotCache, campaign: str, form: ReportForm, effects: EffectsCache | None = None
) -> str:
    """Return the report of a campaign, given its full identifier.

    ``effects``: see ``report_document``. Raises NotFoundError.
    """
    # Imported here because commands that use a server need none of this.
    from tuner.page.html import report_html
    from tuner.page.markdown import report_markdown
    from tuner.page.report_builder import report_document

    document = report_document(snapshots, campaign, effects)
    match form:
        case ReportForm.HTML:
            return report_html(document)
        case ReportForm.MARKDOWN:
            return report_markdown(document)
        case ReportForm.JSON:
            return document.json_text()
