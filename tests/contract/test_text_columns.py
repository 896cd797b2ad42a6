"""Which columns hold what users wrote: those that erasing and retention empty, and no others."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import LargeBinary, Text, TypeDecorator, create_engine, select
from sqlalchemy.types import TypeEngine

from monitor.model.judgements import Detail
from monitor.model.turns import Citation, Message
from monitor.store.tables import metadata

if TYPE_CHECKING:
    from monitor.stores import Store
    from tests.contract.conftest import Make

CANARY = "canary-7f3c91"

USER_TEXT = {
    "exchanges.detail_texts",
    "exchanges.prompt",
    "exchanges.reason_text",
    "exchanges.reply",
    "spans.payload",
    "turn_texts.citations",
    "turn_texts.ground_truth",
    "turn_texts.history",
    "turn_texts.query",
    "turn_texts.relevant_ids",
    "turn_texts.response",
    "turn_texts.retrieval_queries",
    "turn_texts.session_id",
}
"""What users wrote, what they were answered and shown, and ids as their apps sent them."""

HASHES = {
    "asked_metrics.asked",
    "erased_traces.trace_hash",
    "jobs.content_hash",
    "notifications.channel_digest",
    "outcomes.content_hash",
    "spans.digest",
    "turns.asked",
    "turns.content_hash",
    "turns.session_hash",
    "turns.user_id",
}
"""Of sessions and users under a key of the store, of contents without one."""

RANDOM_IDS = {
    "alerts.alert_id",
    "awaited_links.linked_trace_id",
    "awaited_links.trace_id",
    "exchanges.turn_id",
    "jobs.turn_id",
    "keys.value",
    "notifications.alert_id",
    "outcomes.turn_id",
    "second_opinions.turn_id",
    "spans.trace_id",
    "traces.trace_id",
    "turn_texts.turn_id",
    "turns.span_id",
    "turns.trace_id",
    "turns.turn_id",
    "unassembled.trace_id",
    "under_way.subject",
}
"""Of traces, spans and turns, which SDKs draw, and what is made of them; keys that the store draws."""


def _is_text(kind: TypeEngine[object]) -> bool:
    inner = kind.impl_instance if isinstance(kind, TypeDecorator) else kind
    return isinstance(inner, Text | LargeBinary)


def _columns() -> set[str]:
    return {str(c) for table in metadata.sorted_tables for c in table.columns if _is_text(c.type)}


NAMES = {
    "alerts": "app environment fingerprint judge_change metric promise release rubric_id rule slice state",
    "asked_metrics": "metric rubric_id",
    "baselines": "app environment metric pinned_by rubric_id slice",
    "changed_windows": "app environment",
    "exchanges": "metric rubric_id",
    "jobs": "metric rubric_id stratum",
    "judge_versions": "fingerprint judge model",
    "keys": "name",
    "leases": "holder name",
    "names": "app environment kind name",
    "notifications": "channel failure transition",
    "outcomes": "details fingerprint flags judge_model label metric reason reason_detail rubric_id stratum",
    "rollups": "app environment histogram metric release rubric_id slice unscored weighted_histogram",
    "rubrics": "metric rubric_id",
    "second_opinions": "fingerprint judge_model kind metric rubric_id",
    "spans": "signal",
    "spend": "worker",
    "traces": "rules unread",
    "turn_texts": "sent_names",
    "turns": "app dialect environment error facets flags model proxy_version release",
    "under_way": "kind worker",
}
"""Words that operators, programs and judges' rubrics choose: of apps, models, metrics, classes of errors."""


def test_every_column_is_classified() -> None:
    """A new column of text or bytes says here what it holds, and whoever erases must know."""
    names = {f"{table}.{name}" for table, columns in NAMES.items() for name in columns.split()}
    assert _columns() == USER_TEXT | HASHES | RANDOM_IDS | names
    assert len(_columns()) == len(USER_TEXT) + len(HASHES) + len(RANDOM_IDS) + len(names)


def test_user_text_is_where_it_may_be(store: Store, migrated_url: str, make: Make) -> None:
    """What stands in every text of a turn, its spans and its verdict is in these columns, and after erasing in none."""
    turn = replace(
        make.turn(),
        session_id=CANARY,
        query=CANARY,
        history=(Message(role="user", content=CANARY),),
        retrieval_queries=(CANARY,),
        citations=(Citation(id=CANARY, title=CANARY, content=CANARY, source=CANARY),),
        response=CANARY,
        ground_truth=CANARY,
        relevant_ids=(CANARY,),
    )
    store.append([make.fragment(turn.trace_id, CANARY.encode())])
    (job,) = make.sampled(store, turn)
    verdict = make.verdict(job)
    detail = Detail(index=1, verdict="unsupported", reason=CANARY, evidence=CANARY, citation=CANARY)
    finding = replace(verdict.finding, reason=CANARY, details=(detail,))
    exchange = replace(verdict.exchange, prompt=CANARY, reply=CANARY)
    store.finish([replace(verdict, finding=finding, exchange=exchange)])
    assert USER_TEXT == _with_canary(migrated_url)
    store.kept_text.erase([turn.trace_id])
    assert set() == _with_canary(migrated_url)


def _with_canary(url: str) -> set[str]:
    engine = create_engine(url)
    with engine.connect() as connection:
        found = {
            str(column)
            for table in metadata.sorted_tables
            for row in connection.execute(select(table)).mappings()
            for column in table.columns
            if CANARY in str(row[column])
        }
    engine.dispose()
    return found
