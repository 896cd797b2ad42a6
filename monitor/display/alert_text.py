"""An alert in plain words, for every place where a person reads one: what, since when, how much, and what is normal."""

from __future__ import annotations

from datetime import UTC, datetime

from monitor.model.trends import Alert, AlertState, Regression, Series
from monitor.text.invisible import escaped

_MARKUP = str.maketrans({character: chr(ord(character) + 0xFEE0) for character in "<>&[]@*`~"})
"""Each becomes its full-width form, which looks like it and means nothing to anybody who reads markup."""


def headline(alert: Alert) -> str:
    """Return one line that says what happened; whether it is over comes from `alert.state`.

    A resolved alert's line names the rate that it had, since the reader may not remember.
    """
    regression = alert.regression
    rate, normal = percent(regression.rate), percent(regression.baseline_rate)
    event = f"defect rate rose to {rate} (normal: {normal})"
    if alert.state is AlertState.RESOLVED:
        event = f"incident is over, the defect rate was {rate} (normal: {normal})"
    remark = "; the model of the judge changed at about that time" if regression.judge_change else ""
    return plain(f"{subject(regression.series)}: {event}{remark}")


def explanation(alert: Alert) -> str:
    """Return the sentences behind the headline: rate and interval, normal rate, release, judge, times, promise."""
    regression = alert.regression
    rate, normal = percent(regression.rate), percent(regression.baseline_rate)
    interval = f"95 % interval: {percent(regression.rate_lower)} to {percent(regression.rate_upper)}"
    sentences = [
        f"{_span(regression)} {rate} of the judged turns are defects ({interval}).",
        f"The normal rate is {normal}; up to {percent(regression.null_rate)} still counts as normal.",
    ]
    if regression.release:
        sentences.append(f"Most of these turns ran on release {one_line(regression.release)}.")
    if regression.judge_change:
        # It names models as their endpoint does.
        sentences.append(escaped(regression.judge_change))
    sentences.append(f"Detected on {instant(regression.detected_at)}.")
    if regression.promise:
        sentences.append(regression.promise)
    return plain(" ".join(sentences))


def subject(series: Series) -> str:
    """Return what a series is about, such as `groundedness of support-bot (production, language=de)`."""
    where = ", ".join(one_line(part) for part in (series.environment, series.slice) if part)
    return f"{one_line(series.metric)} of {one_line(series.app)}" + (f" ({where})" if where else "")


def one_line(text: str, *, most: int = 60) -> str:
    r"""Return a name as it may stand in a line: nothing that would break it, and `most` characters of it.

    >>> one_line("shop\nhelp"), one_line("shop" * 20, most=8)
    ('shop\\nhelp', 'shopsho…')
    """
    # No longer than needed: the name may be as long as a request.
    line = escaped(text[: most + 1])
    return line if len(line) <= most else f"{line[: most - 1]}…"


def plain(sentence: str) -> str:
    r"""Return a sentence in which senders chose the names as it may be sent: text to Grafana, Slack, Teams and mail.

    Whoever passes an alert on may take it for HTML, Markdown or Slack's own markup, in which a name could be a link, a
    picture or a call to a whole channel.

    >>> plain("<!channel> https://x.example") == "\uff1c!channel\uff1e https\uff1a//x.example"
    True
    """
    return sentence.translate(_MARKUP).replace("://", "\uff1a//")


def percent(share: float) -> str:
    """Return a share as a percentage with three significant digits or so.

    >>> percent(0.1234), percent(0.0205), percent(0.00052)
    ('12.3 %', '2.05 %', '0.052 %')
    """
    value = share * 100
    digits = 1 if value >= 10 else 2 if value >= 1 else 3  # noqa: PLR2004 -- significant digits
    return f"{value:.{digits}f} %"


def instant(at: datetime) -> str:
    """Return an instant for people, in UTC and to the minute.

    >>> instant(datetime(2026, 5, 4, 10, 0, tzinfo=UTC))
    '4 May 2026 10:00 UTC'
    """
    utc = at.astimezone(UTC)
    return f"{utc.day} {utc:%b %Y %H:%M} UTC"


def _span(regression: Regression) -> str:
    if regression.recovered_at is None:
        return f"Since {instant(regression.began_at)}"
    return f"From {instant(regression.began_at)} to {instant(regression.recovered_at)}"
