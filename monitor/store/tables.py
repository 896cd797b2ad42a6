"""The schema: one table per double bar of the architecture's picture, and a few that keep the books.

User text is in three tables only: `spans`, `turn_texts` and `exchanges`; retention deletes from these. Instants are
microseconds since 1970 UTC, counts 64 bits. A change here needs a migration; a test compares the two.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    false,
)

from monitor.store.columns import CleanText, Count, Duration, Instant, Label, Number, Position
from monitor.store.naming import index_some, metadata

REVISION = "0017"
"""The schema that this version of the program reads and writes."""

_SERIES = ("app", "environment", "slice", "metric", "rubric_id")

spans = Table(
    "spans",
    metadata,
    # Ids as 32 characters of hex cost 2 % more than 16 bytes and can be read by people.
    Column("position", Position, primary_key=True, autoincrement=True),
    Column("trace_id", Text, nullable=False),
    Column("signal", Text, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("received_at", Instant, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    # Last, so that SQLite reads the other columns without following the payload's overflow pages.
    Column("payload", LargeBinary, nullable=False),
    UniqueConstraint("trace_id", "digest"),
    # A position is never used again, not even that of a deleted last row.
    sqlite_autoincrement=True,
)

# A narrow queue beside the wide rows: a flag in `spans` would rewrite ten kilobytes a row to say that it was read.
unassembled = Table(
    "unassembled",
    metadata,
    Column("position", Position, primary_key=True, autoincrement=False),
    Column("trace_id", Text, nullable=False),
    Column("received_at", Instant, nullable=False),
)

traces = Table(
    "traces",
    metadata,
    Column("trace_id", Text, nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("turns", BigInteger, nullable=False),
    Column("unread", CleanText, nullable=False),
    Column("assembled_at", Instant, nullable=False),
    Column("pruned", Boolean, nullable=False),
    Column("rules", CleanText, nullable=False, server_default=""),
    Column("failed", Boolean, nullable=False, server_default=false()),
    PrimaryKeyConstraint("trace_id"),
)
index_some("ix_traces_failed", traces.c.trace_id, where=traces.c.failed)

erased_traces = Table(
    "erased_traces",
    metadata,
    Column("trace_hash", Text, nullable=False),
    Column("erased_at", Instant, nullable=False),
    PrimaryKeyConstraint("trace_hash"),
)

# Narrow, and empty but for what is being read or was when a process died.
under_way = Table(
    "under_way",
    metadata,
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("worker", CleanText, nullable=False),
    Column("deaths", BigInteger, nullable=False),
    PrimaryKeyConstraint("kind", "subject"),
)

turns = Table(
    "turns",
    metadata,
    Column("turn_id", Text, nullable=False),
    Column("trace_id", Text, nullable=False),
    Column("span_id", CleanText, nullable=False),
    Column("app", Label, nullable=False),
    Column("environment", Label, nullable=False),
    Column("release", Label, nullable=False),
    # A keyed hash, as `user_id` is; the id itself stands with the text.
    Column("session_hash", Text),
    Column("user_id", CleanText),
    Column("model", CleanText),
    Column("input_tokens", Count),
    Column("output_tokens", Count),
    Column("error", CleanText),
    Column("streaming", Boolean),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant, nullable=False),
    Column("dialect", CleanText, nullable=False),
    Column("facets", CleanText, nullable=False),
    Column("flags", CleanText, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("decided_at", Instant),
    # Names a list in `asked_metrics`; "" while nothing is decided, and where it was before there were lists.
    Column("asked", Text, nullable=False, server_default=""),
    Column("proxy", Number),
    Column("proxy_version", CleanText, nullable=False),
    PrimaryKeyConstraint("turn_id"),
)
Index(None, turns.c.trace_id)
Index(None, turns.c.app, turns.c.environment, turns.c.started_at)
Index(None, turns.c.started_at)
index_some("ix_turns_undecided", turns.c.started_at, where=turns.c.decided_at.is_(None))

turn_texts = Table(
    "turn_texts",
    metadata,
    Column("turn_id", Text, ForeignKey("turns.turn_id", ondelete="CASCADE"), nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("session_id", CleanText),
    Column("query", CleanText),
    Column("history", CleanText, nullable=False),
    Column("retrieval_queries", CleanText, nullable=False),
    Column("citations", CleanText),
    Column("response", CleanText),
    Column("ground_truth", CleanText),
    Column("relevant_ids", CleanText),
    Column("sent_names", CleanText),
    PrimaryKeyConstraint("turn_id"),
)
Index(None, turn_texts.c.started_at)

jobs = Table(
    "jobs",
    metadata,
    Column("turn_id", Text, ForeignKey("turns.turn_id", ondelete="CASCADE"), nullable=False),
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("probability", Number, nullable=False),
    Column("stratum", CleanText, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("failures", BigInteger, nullable=False, server_default="0"),
    Column("created_at", Instant, nullable=False),
    Column("not_before", Instant),
    Column("leased_until", Instant),
    # The later of the two and of `created_at`: one index serves the claim, whatever made the job wait.
    Column("claimable_at", Instant, nullable=False),
    Column("requested_at", Instant),
    PrimaryKeyConstraint("turn_id", "metric", "rubric_id"),
)
Index(None, jobs.c.claimable_at)
Index(None, jobs.c.rubric_id, jobs.c.claimable_at)
Index(None, jobs.c.created_at)

asked_metrics = Table(
    "asked_metrics",
    metadata,
    Column("asked", Text, nullable=False),
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    PrimaryKeyConstraint("asked", "metric", "rubric_id"),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("turn_id", Text, ForeignKey("turns.turn_id", ondelete="CASCADE"), nullable=False),
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("probability", Number, nullable=False),
    Column("stratum", CleanText, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    # False for needs that were found unmet when sampling: every turn is asked about those, not only the sample.
    Column("sampled", Boolean, nullable=False),
    # NULL for verdicts.
    Column("reason", Text),
    Column("reason_detail", CleanText, nullable=False),
    Column("score", Number),
    Column("label", CleanText),
    Column("defect", Boolean, nullable=False),
    Column("severity", Count),
    Column("details", CleanText, nullable=False),
    Column("flags", CleanText, nullable=False),
    Column("judge_model", CleanText, nullable=False),
    Column("calls", Count, nullable=False),
    Column("input_tokens", Count, nullable=False),
    Column("output_tokens", Count, nullable=False),
    Column("cost_usd", Number, nullable=False),
    Column("latency", Duration, nullable=False),
    Column("fingerprint", CleanText),
    Column("judged_at", Instant, nullable=False),
    PrimaryKeyConstraint("turn_id", "metric", "rubric_id"),
    sqlite_with_rowid=False,
)
index_some("ix_outcomes_verdicts", outcomes.c.content_hash, outcomes.c.rubric_id, where=outcomes.c.reason.is_(None))

exchanges = Table(
    "exchanges",
    metadata,
    Column("turn_id", Text, nullable=False),
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("prompt", CleanText, nullable=False),
    Column("reply", CleanText, nullable=False),
    Column("reason_text", CleanText, nullable=False),
    Column("detail_texts", CleanText, nullable=False),
    PrimaryKeyConstraint("turn_id", "metric", "rubric_id"),
    ForeignKeyConstraint(
        ["turn_id", "metric", "rubric_id"],
        ["outcomes.turn_id", "outcomes.metric", "outcomes.rubric_id"],
        ondelete="CASCADE",
    ),
)
Index(None, exchanges.c.started_at)

changed_windows = Table(
    "changed_windows",
    metadata,
    Column("app", Label, nullable=False),
    Column("environment", Label, nullable=False),
    Column("window_start", Instant, nullable=False),
    Column("mark", BigInteger, nullable=False),
    PrimaryKeyConstraint("app", "environment", "window_start"),
)

window_length = Table(
    "window_length",
    metadata,
    Column("length", Duration, primary_key=True, autoincrement=False),
)

rubrics = Table(
    "rubrics",
    metadata,
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    Column("step", Number, nullable=False),
    PrimaryKeyConstraint("metric", "rubric_id"),
)

rollups = Table(
    "rollups",
    metadata,
    *(Column(name, Label, nullable=False) for name in _SERIES),
    Column("release", Label, nullable=False),
    Column("window_start", Instant, nullable=False),
    Column("length", Duration, nullable=False),
    *(Column(name, BigInteger, nullable=False) for name in ("turns", "sampled", "pending")),
    Column("not_asked", BigInteger, nullable=False, server_default="0"),
    Column("n", BigInteger, nullable=False),
    Column("k", BigInteger, nullable=False),
    *(Column(name, Number, nullable=False) for name in ("sw", "sw2", "swx", "sw2x", "sws", "sws2")),
    Column("proxied", BigInteger, nullable=False),
    *(Column(name, Number, nullable=False) for name in ("f", "f2", "swf", "swf2", "swxf", "sw2f", "sw2f2", "sw2xf")),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cost_usd", Number, nullable=False),
    Column("unscored", CleanText, nullable=False),
    Column("histogram", CleanText, nullable=False),
    Column("weighted_histogram", CleanText, nullable=False),
    PrimaryKeyConstraint("app", "environment", "slice", "metric", "rubric_id", "release", "window_start"),
)
Index(None, rollups.c.window_start)

baselines = Table(
    "baselines",
    metadata,
    *(Column(name, Label, nullable=False) for name in _SERIES),
    Column("started_at", Instant, nullable=False),
    Column("ended_at", Instant, nullable=False),
    Column("pinned_by", CleanText, nullable=False),
    PrimaryKeyConstraint("app", "environment", "slice", "metric", "rubric_id"),
)

alerts = Table(
    "alerts",
    metadata,
    Column("alert_id", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("state", Text, nullable=False),
    *(Column(name, Label, nullable=False) for name in _SERIES),
    Column("rule", Text, nullable=False),
    Column("began_at", Instant, nullable=False),
    Column("detected_at", Instant, nullable=False),
    # When detection saw the recovery; `resolved_at` is when the alert said so.
    Column("recovered_at", Instant),
    *(Column(name, Number, nullable=False) for name in ("rate", "rate_lower", "rate_upper")),
    *(Column(name, Number, nullable=False) for name in ("baseline_rate", "null_rate")),
    Column("evidence_log10", Number, nullable=False),
    Column("threshold_log10", Number, nullable=False),
    Column("release", Label, nullable=False),
    Column("promise", CleanText, nullable=False),
    Column("judge_change", CleanText, nullable=False, server_default=""),
    Column("pending_at", Instant, nullable=False),
    Column("firing_at", Instant),
    Column("resolved_at", Instant),
    Column("annotated", Boolean, nullable=False),
    PrimaryKeyConstraint("alert_id"),
)
Index(None, alerts.c.pending_at)

notifications = Table(
    "notifications",
    metadata,
    Column("alert_id", Text, ForeignKey("alerts.alert_id", ondelete="CASCADE"), nullable=False),
    Column("channel", CleanText, nullable=False),
    Column("transition", Text, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("sent_at", Instant),
    Column("not_before", Instant),
    Column("failure", CleanText, nullable=False),
    Column("waiting_since", Instant),
    Column("channel_digest", CleanText, nullable=False, server_default=""),
    PrimaryKeyConstraint("alert_id", "channel", "transition"),
)
index_some("ix_notifications_unsent", notifications.c.alert_id, where=notifications.c.sent_at.is_(None))

names = Table(
    "names",
    metadata,
    # "" where a name belongs to no app, or to no environment.
    *(Column(name, Label, nullable=False) for name in ("kind", "app", "environment", "name")),
    *(Column(name, Instant, nullable=False) for name in ("first_seen", "last_seen")),
    PrimaryKeyConstraint("kind", "app", "environment", "name"),
)

leases = Table(
    "leases",
    metadata,
    Column("name", Text, nullable=False),
    Column("holder", CleanText, nullable=False),
    Column("expires_at", Instant, nullable=False),
    PrimaryKeyConstraint("name"),
)

spend = Table(
    "spend",
    metadata,
    # The UTC day's first instant.
    Column("day", Instant, nullable=False),
    Column("worker", Label, nullable=False),
    Column("usd", Number, nullable=False),
    Column("calls", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    PrimaryKeyConstraint("day", "worker"),
)

judge_versions = Table(
    "judge_versions",
    metadata,
    Column("judge", Label, nullable=False),
    Column("model", Label, nullable=False),
    Column("fingerprint", Label, nullable=False),
    Column("first_seen", Instant, nullable=False),
    PrimaryKeyConstraint("judge", "model", "fingerprint"),
)

second_opinions = Table(
    "second_opinions",
    metadata,
    # Kept when the turn is gone: it holds no text, and says how far the judge agrees with itself.
    Column("turn_id", Text, nullable=False),
    Column("metric", Label, nullable=False),
    Column("rubric_id", Label, nullable=False),
    Column("kind", Text, nullable=False),
    Column("judge_model", Label, nullable=False),
    Column("fingerprint", Label, nullable=False),
    Column("score", Number),
    Column("defect", Boolean, nullable=False),
    Column("first_score", Number),
    Column("first_defect", Boolean, nullable=False),
    Column("judged_at", Instant, nullable=False),
    PrimaryKeyConstraint("turn_id", "metric", "rubric_id", "kind", "judge_model", "fingerprint"),
)
Index(None, second_opinions.c.judged_at)
index_some("ix_second_opinions_anchors", second_opinions.c.judged_at, where=second_opinions.c.kind == "anchor")

keys = Table(
    "keys",
    metadata,
    Column("name", Text, primary_key=True),
    # Made by us at first use; it is worth nothing without the data beside it.
    Column("value", LargeBinary, nullable=False),
)
