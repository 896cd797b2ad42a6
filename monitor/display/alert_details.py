"""An alert as names with short values, for services that show such a table beside the message."""

from __future__ import annotations

from collections.abc import Mapping

from monitor.display.alert_document import alert_document
from monitor.display.alert_text import one_line, plain
from monitor.model.trends import Alert

_KEYS = (
    "alert_id", "fingerprint", "app", "environment", "slice", "metric", "rule", "release", "began_at", "detected_at",
    "rate", "baseline_rate",
)  # fmt: skip
_LONGEST_VALUE = 200


def alert_details(alert: Alert, *, link: str) -> Mapping[str, str]:
    """Return what tells alerts apart, under the keys of `alert_document`, without those that say nothing."""
    document = alert_document(alert, link=link)
    details = {key: plain(one_line(str(document[key]), most=_LONGEST_VALUE)) for key in _KEYS if document[key] != ""}
    return {**details, "link": link} if link else details
