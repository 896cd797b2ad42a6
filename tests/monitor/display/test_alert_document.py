"""The published description of an alert's JSON says what the program writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from monitor.display.alert_document import AlertDocument
from monitor.store.tables import alerts

DOCS = Path(__file__).parents[3] / "docs"
MADE_WHEN_WRITTEN = {"version", "title", "message", "link"}
INTERNAL_COLUMNS = {"annotated"}


def documented_types() -> dict[str, str]:
    """Return the type of each key in the table of docs/alerts.md."""
    rows = re.findall(r"^\| `(\w+)` \| ([a-z ]+) \| [^|]*\| [^|]+ \|$", (DOCS / "alerts.md").read_text(), re.MULTILINE)
    return dict(rows)


def schema_type(field: dict[str, object]) -> str:
    """Return the word by which docs/alerts.md calls a schema's type."""
    if isinstance(field.get("anyOf"), list):
        return " or ".join(schema_type(option) for option in field["anyOf"])
    if field.get("format") == "date-time":
        return "time"
    return {"string": "text", "integer": "integer", "number": "number", "null": "null"}[
        str(field.get("type", "string"))
    ]


def test_the_schema_file_is_the_model() -> None:
    """docs/alert.schema.json is what `AlertDocument.model_json_schema(mode="serialization")` returns."""
    published = json.loads((DOCS / "alert.schema.json").read_text())
    assert AlertDocument.model_json_schema(mode="serialization") == published


def test_every_key_is_documented() -> None:
    """The table of docs/alerts.md has every key in order, with its type and whether it may be null."""
    properties = AlertDocument.model_json_schema(mode="serialization")["properties"]
    assert [(key, schema_type(field)) for key, field in properties.items()] == list(documented_types().items())


def test_keys_are_the_columns() -> None:
    """The document has the table's columns, and beside them only what is made when it is written."""
    assert set(AlertDocument.model_fields) - MADE_WHEN_WRITTEN == {c.name for c in alerts.c} - INTERNAL_COLUMNS
