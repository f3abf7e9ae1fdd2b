"""Validator for the subset of JSON Schema (2020-12) used by the published schema, for tests."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
_KEYWORDS = {
    *("type", "properties", "additionalProperties", "required", "enum", "items", "pattern"),
    *("minProperties", "$ref", "if", "else", "anyOf"),
    *("$schema", "$defs", "title", "description"),
}


def complaints(document: Any, schema: Any, root: Any = None, path: str = "") -> list[str]:
    """List the errors in a document, one line each. Fails on unknown schema keywords."""
    if schema is True or schema is False:
        return [] if schema else [f"{path}: is not allowed"]
    root = schema if root is None else root
    assert schema.keys() <= _KEYWORDS, schema.keys() - _KEYWORDS
    messages: list[str] = []

    def inner(part: Any, by: Any, name: object) -> None:
        messages.extend(complaints(part, by, root, f"{path}.{name}"))

    if "$ref" in schema:
        messages += complaints(
            document, root["$defs"][schema["$ref"].rpartition("/")[2]], root, path
        )
    if "anyOf" in schema and all(complaints(document, s, root, path) for s in schema["anyOf"]):
        messages.append(f"{path}: fits none")
    if "if" in schema and complaints(document, schema["if"], root, path):
        messages += complaints(document, schema["else"], root, path)
    if "type" in schema and not _is(document, schema["type"]):
        return [*messages, f"{path}: {document!r} is not of type {schema['type']}"]
    if "enum" in schema and document not in schema["enum"]:
        messages.append(f"{path}: {document!r} is not one of {schema['enum']}")
    if isinstance(document, str) and not re.search(schema.get("pattern", ""), document):
        messages.append(f"{path}: {document!r} does not match")
    if isinstance(document, list) and "items" in schema:
        for number, item in enumerate(document):
            inner(item, schema["items"], number)
    if isinstance(document, dict):
        messages += [
            f"{path}: {k} is missing" for k in schema.get("required", []) if k not in document
        ]
        if len(document) < schema.get("minProperties", 0):
            messages.append(f"{path}: is empty")
        properties = schema.get("properties", {})
        for key, value in document.items():
            inner(value, properties.get(key, schema.get("additionalProperties", True)), key)
    return messages


def _is(document: Any, types: str | list[str]) -> bool:
    for name in [types] if isinstance(types, str) else types:
        expected = _TYPES[name]
        if isinstance(document, expected) and (not isinstance(document, bool) or expected is bool):
            return True
    return False
