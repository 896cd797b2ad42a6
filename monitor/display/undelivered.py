"""What channels and Grafana have not taken, in a line for people."""

from __future__ import annotations

from collections.abc import Iterable

from monitor.display.alert_text import instant, one_line
from monitor.model.trends import Alert, Undelivered

_LONGEST_FAILURE = 200


def undelivered_line(undelivered: Undelivered) -> str:
    """Return how many messages a channel has not taken, since when and why."""
    waiting, given_up = undelivered.waiting, undelivered.given_up
    total = waiting + given_up
    line = f"{total} message{'s' if total > 1 else ''} not delivered, the oldest since {instant(undelivered.oldest_at)}"
    if not undelivered.failure:
        return f"{line}; not tried yet"
    line += f" ({one_line(undelivered.failure, most=_LONGEST_FAILURE)})"
    if not given_up:
        return f"{line}; sent again until taken or given up"
    if not waiting:
        return f"{line}; given up until the channel's settings change"
    return f"{line}; {waiting} of them {_is(waiting)} sent again, {given_up} {_is(given_up)} given up"


def unannotated_line(alerts: Iterable[Alert]) -> str:
    """Return how many alerts Grafana carries no annotation of, and since when; "" when it carries all."""
    since = [alert.to_annotate_since for alert in alerts if alert.to_annotate_since]
    if not since:
        return ""
    return f"{len(since)} alert{'s' if len(since) > 1 else ''} not annotated, the oldest since {instant(min(since))}"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"
