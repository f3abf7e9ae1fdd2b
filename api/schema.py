"""Write the OpenAPI document next to this module: ``python -m api.schema``."""

from __future__ import annotations

import json
from pathlib import Path

from api.app import create_app

FILE = Path(__file__).with_name("openapi.json")


def document() -> str:
    """The text of the document."""
    # The document does not depend on stored state; its version is that of the package.
    schema = create_app(Path("unused")).openapi()
    return json.dumps(schema, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    FILE.write_text(document(), encoding="utf-8")
