"""An alert as JSON for programs: one set of keys for webhooks and `rag-monitor alerts --format jsonl`.

The keys are the names of the columns of the table `alerts`; `docs/alert.schema.json` is this model's JSON schema.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer, WithJsonSchema

from monitor.display.alert_text import explanation, headline
from monitor.model.trends import Alert, AlertState
from monitor.text.timestamps import rfc3339

# The schema states the limits, nothing enforces them: a rounding error must not keep an alert from people.
Share = Annotated[float, Field(json_schema_extra={"minimum": 0, "maximum": 1})]
Instant = Annotated[
    datetime, PlainSerializer(rfc3339), WithJsonSchema({"type": "string", "format": "date-time"}, mode="serialization")
]


class AlertDocument(BaseModel):
    """One incident: a defect rate that rose, as it is known when the document is written.

    Times are RFC 3339 in UTC. Rates are shares of the judged turns, from 0 to 1. A text that does not apply is "".
    """

    model_config = ConfigDict(
        frozen=True,
        title="Alert",
        use_attribute_docstrings=True,
        field_title_generator=lambda name, _: name,
        json_schema_extra={"$schema": "https://json-schema.org/draft/2020-12/schema"},
    )

    version: Literal[1]
    """Version of this schema. It grows when a key is removed or changes its meaning, not when a key is added."""
    alert_id: str
    """Identifies the incident. All documents about one incident have the same value."""
    fingerprint: str
    """Identifies the trend and the rule. All incidents of one trend and rule have the same value."""
    state: AlertState
    """State of the alert. In a webhook, the state that the message announces: `firing` or `resolved`."""
    title: str
    """What happened, in one line for people."""
    message: str
    """The details, in sentences for people."""
    link: str
    """Web page about the alert. Empty when the channel has no `link`, and on the command line."""
    app: str
    """Name of the app."""
    environment: str
    """Environment that the app runs in. Empty when its telemetry names none."""
    slice: str
    """Part of the app's turns, as `facet=value`. Empty for all turns."""
    metric: str
    """Name of the metric."""
    rubric_id: str
    """Identifies the prompt and the judge that gave the scores."""
    rule: Literal["continuous", "release"]
    """`continuous`: compared with the baseline. `release`: a new release compared with the one before it."""
    release: str
    """Release that most of the turns since `began_at` ran on. Empty when unknown."""
    began_at: Instant
    """Event time: estimated start of the incident."""
    detected_at: Instant
    """Event time: when the window that proved the incident was closed."""
    recovered_at: Instant | None
    """Event time: when the window that proved the recovery was closed, or when nothing more was expected to prove it
    (see docs/alerts.md). Null while the incident goes on."""
    pending_at: Instant
    """Processing time: when the alert was created."""
    firing_at: Instant | None
    """Processing time: when the alert began to fire. Null before that, and when it recovered before it could fire."""
    resolved_at: Instant | None
    """Processing time: when the alert was resolved. Null before that."""
    rate: Share
    """Defect rate from `began_at` on."""
    rate_lower: Share
    """Lower limit of the 95 % interval of `rate`."""
    rate_upper: Share
    """Upper limit of the 95 % interval of `rate`."""
    baseline_rate: Share
    """Defect rate that is normal: of the baseline, or of the release before."""
    null_rate: Share
    """Highest defect rate that still counts as normal."""
    evidence_log10: float
    """Evidence for the incident at `detected_at`, as a power of ten: 3 means 1,000."""
    threshold_log10: float
    """Evidence that was needed for an alert, as a power of ten."""
    promise: str
    """How rarely this rule raises a false alarm, in a sentence for people."""
    judge_change: str
    """That the model of the judge changed at about `began_at`, in sentences for people. Empty when it did not."""


def alert_document(alert: Alert, *, link: str = "") -> dict[str, object]:
    """Return the alert as a JSON object with the keys of `AlertDocument`, in that order."""
    regression = alert.regression
    document = AlertDocument.model_validate(
        {
            "version": 1,
            "alert_id": alert.alert_id,
            "fingerprint": alert.fingerprint,
            "state": alert.state,
            "title": headline(alert),
            "message": explanation(alert),
            "link": link,
            **asdict(regression.series),
            "rule": regression.rule,
            "release": regression.release,
            "began_at": regression.began_at,
            "detected_at": regression.detected_at,
            "recovered_at": regression.recovered_at,
            "pending_at": alert.pending_at,
            "firing_at": alert.firing_at,
            "resolved_at": alert.resolved_at,
            "rate": regression.rate,
            "rate_lower": regression.rate_lower,
            "rate_upper": regression.rate_upper,
            "baseline_rate": regression.baseline_rate,
            "null_rate": regression.null_rate,
            "evidence_log10": regression.evidence_log10,
            "threshold_log10": regression.threshold_log10,
            "promise": regression.promise,
            "judge_change": regression.judge_change,
        }
    )
    return document.model_dump(mode="json")
