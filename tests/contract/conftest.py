"""The same store over both databases, and the values its tests are made of."""

import hashlib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from monitor.model.judgements import Detail, Exchange, Finding, Job, Reason, Rubric, Sampling, Unscored, Verdict
from monitor.model.spans import Assembly, Fragment
from monitor.model.turns import Citation, Message, Turn, turn_id
from monitor.store.migration import migrate
from monitor.store.sql_store import open_store
from monitor.store.tables import metadata
from monitor.stores import Store

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Make:
    """Values with telling defaults; each trace, turn and payload it makes is another one."""

    now = NOW
    rubric = Rubric(
        metric="groundedness", rubric_id="g1", needs=frozenset({"query", "response"}), scale_min=1, scale_max=5
    )

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def trace_id(self) -> str:
        """A new trace id."""
        return hashlib.blake2b(str(next(self._numbers)).encode(), digest_size=16).hexdigest()

    def fragment(self, trace_id: str | None = None, payload: bytes | None = None, *, at: datetime = NOW) -> Fragment:
        """A fragment received `at`, of bytes that no other has unless they are given."""
        payload = payload if payload is not None else f"payload {next(self._numbers)}".encode()
        return Fragment(
            trace_id=trace_id or self.trace_id(),
            signal="traces",
            payload=payload,
            count=3,
            received_at=at,
            digest=hashlib.blake2b(payload, digest_size=16).digest(),
        )

    def turn(
        self,
        trace_id: str | None = None,
        *,
        root: str = "root",
        app: str = "shop",
        release: str = "1.0",
        query: str | None = "What does it cost?",
        started_at: datetime = NOW,
    ) -> Turn:
        """A turn with something in every field."""
        trace_id = trace_id or self.trace_id()
        return Turn(
            turn_id=turn_id(trace_id, root),
            trace_id=trace_id,
            span_id=root,
            app=app,
            environment="production",
            release=release,
            session_id="session 1",
            user_id="5f3a",
            query=query,
            history=(Message(role="user", content="Hello"), Message(role="assistant", content="Hello, who is there?")),
            retrieval_queries=("cost", "price list"),
            citations=(
                Citation(
                    id="d1",
                    title="Prices",
                    content="It costs 5 €.",
                    score=0.75,
                    score_kind="similarity",
                    source="https://example.org/prices",
                    rank=1,
                    used=True,
                ),
                Citation(content="Something else."),
            ),
            response="It costs 5 €.",
            ground_truth="5 €",
            relevant_ids=("kb-1", "kb-9"),
            model="gpt-4o-mini",
            input_tokens=1200,
            output_tokens=34,
            error=None,
            streaming=True,
            started_at=started_at,
            ended_at=started_at + timedelta(seconds=2, microseconds=345_678),
            dialect="openinference",
            facets={"language": "en", "search_type": "hybrid"},
            flags=frozenset({"redacted", "truncated"}),
        )

    def job(self, turn: Turn, metric: str = "groundedness", rubric_id: str = "g1", probability: float = 0.5) -> Job:
        """A job about the turn as it is."""
        return Job(
            turn_id=turn.turn_id,
            content_hash=turn.content_hash(),
            metric=metric,
            rubric_id=rubric_id,
            probability=probability,
            stratum="plain",
        )

    def sampling(self, turn: Turn, *jobs: Job, unmet: tuple[Job, ...] = (), proxy: float | None = 0.25) -> Sampling:
        """The decision to judge the turn by these jobs, whose metrics' needs it meets, and not by `unmet`."""
        return Sampling(
            turn_id=turn.turn_id,
            content_hash=turn.content_hash(),
            jobs=jobs,
            unscored=tuple(self.unscored(job, Reason.NO_GROUND_TRUTH, at=NOW) for job in unmet),
            proxy=proxy,
            proxy_version="lexical 1",
            decided_at=NOW,
        )

    def verdict(self, job: Job, *, score: float | None = 2.0, defect: bool = True, at: datetime = NOW) -> Verdict:
        """A verdict with something in every field."""
        return Verdict(
            job=job,
            finding=Finding(
                score=score,
                defect=defect,
                label="poor",
                severity=3,
                reason="The second sentence is not in the documents.",
                details=(
                    Detail(index=1, verdict="supported", reason="said so", evidence="5 €", citation="d1"),
                    Detail(index=2, verdict="unsupported", reason="made up"),
                ),
                flags=frozenset({"context_truncated"}),
            ),
            exchange=Exchange(
                judge_model="judge-2026-01",
                prompt="Is it grounded?",
                reply='{"score": 2}',
                calls=2,
                input_tokens=900,
                output_tokens=80,
                cost_usd=0.00125,
                latency=timedelta(milliseconds=1234),
                fingerprint="fp_1",
            ),
            judged_at=at,
        )

    def unscored(self, job: Job, reason: Reason = Reason.TIMEOUT, *, at: datetime = NOW) -> Unscored:
        """A failure to judge."""
        return Unscored(job=job, reason=reason, detail="after 3 attempts", judged_at=at)

    def assembled(self, store: Store, *turns: Turn) -> None:
        """Store a fragment for each turn's trace, and the turns as what their traces became."""
        by_trace: dict[str, list[Turn]] = {}
        for turn in turns:
            by_trace.setdefault(turn.trace_id, []).append(turn)
        store.append([self.fragment(trace_id) for trace_id in by_trace])
        stored = store.fragments(tuple(by_trace))
        store.replace_turns(
            [
                Assembly(trace_id=trace_id, through=stored[trace_id][-1].position, turns=tuple(of_trace))
                for trace_id, of_trace in by_trace.items()
            ],
            now=NOW,
        )

    def sampled(self, store: Store, *turns: Turn) -> tuple[Job, ...]:
        """Store turns and the decision to judge each by one metric; return the jobs."""
        self.assembled(store, *turns)
        jobs = tuple(self.job(turn) for turn in turns)
        store.record_samplings([self.sampling(turn, job) for turn, job in zip(turns, jobs, strict=True)])
        return jobs


@pytest.fixture
def make() -> Make:
    """The maker of values."""
    return Make()


@pytest.fixture(params=["sqlite", "postgresql", "pooled"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each database in turn, PostgreSQL both itself and behind PgBouncer."""
    kind: str = request.param
    return kind


@pytest.fixture
def store_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is empty and not migrated."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url" if kind == "postgresql" else "pooled_url")
    return url


@pytest.fixture(scope="session")
def migrated_postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a migrated PostgreSQL database for the whole session: making one takes longer than most tests."""
    server = request.getfixturevalue("postgres_server")
    name = server.create_database()
    migrate(server.url(name))
    yield server.url(name)
    server.drop_database(name)


@pytest.fixture
def migrated_url(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that is migrated and has no rows."""
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("migrated_postgres")
    engine = create_engine(url)
    with engine.begin() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    engine.dispose()
    return request.getfixturevalue("pgbouncer").url(url) if kind == "pooled" else url


@pytest.fixture
def store(migrated_url: str) -> Iterator[Store]:
    """An empty store."""
    store = open_store(migrated_url)
    yield store
    store.close()
