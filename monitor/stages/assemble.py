"""Settled traces become turns, through dialects; a trace is assembled anew whenever something arrives for it.

Turns depend on what was delivered, never on order, grouping or repetition of deliveries, nor on which traces happen
to be assembled together. A span link is followed to what had arrived by then, and again when more of that arrives.
"""

from __future__ import annotations

import logging
import traceback
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import accumulate, islice
from typing import Protocol

from monitor.assembly.duplicates import duplicates
from monitor.assembly.join import join
from monitor.assembly.links import LinkedTrace, awaited, linked_turn
from monitor.assembly.rules import ReadingRules
from monitor.assembly.trace_turns import TraceTurns, read_trace
from monitor.errors import PluginFailed
from monitor.model.names import NameLimits
from monitor.model.spans import PROCESS_DIED, Assembly, StoredFragment, Trace
from monitor.model.stored import Extent
from monitor.model.turns import Turn
from monitor.portions import portions
from monitor.ports import Decoder, GoOn, to_the_end
from monitor.settings.tree import AssembleSettings
from monitor.stores import DEATHS, SpanStore, TurnStore, UnderWayStore

log = logging.getLogger(__name__)

_ROUNDS = 25
"""Batches per tick: one tick must end well within the lease of the schedule."""
_AHEAD = timedelta(minutes=1)
"""More than the clocks of processes that work together differ."""
_LONGEST = timedelta(seconds=60)
"""How long before a lone model call the turn that it belongs to may have begun."""
_SLACK = timedelta(milliseconds=10)
_MOST_AWAITED = 16
"""Traces that one trace waits for."""


class TraceStore(UnderWayStore, SpanStore, TurnStore, Protocol):
    """What this stage reads and writes."""


def tick(
    store: TraceStore,
    settings: AssembleSettings,
    *,
    now: datetime,
    decode: Decoder,
    rules: ReadingRules,
    worker: str,
    go_on: GoOn = to_the_end,
) -> int:
    """Assemble the traces that are due and return how many turns were written; `worker` is this run of a process.

    `go_on` is asked after each portion of them.

    A trace that cannot be assembled for a fault of ours loses its turns, counts as unread with reason `internal`, and
    is not tried again before something new arrives for it, or a program with other rules comes by; one whose dialect
    from another distribution fails likewise, with reason `dialect_failed:<name>`. One that two processes died of,
    reading it alone, is set aside with reason `process_died` until a person reopens it or other rules come by.

    Raises:
        StoreUnavailable: the database cannot be read or written; nothing of the current batch was kept.
    """
    assembler = _Assembler(store, settings, decode=decode, rules=rules, worker=worker)
    room = settings.names
    limits = NameLimits(apps=room.max_apps, environments=room.max_environments, releases=room.max_releases)
    written = 0
    failed = store.failed_traces(rules=rules.version, limit=settings.batch)
    reopen(store, failed, settings, now=now)
    for _ in range(_ROUNDS):
        due = store.due(
            quiet_since=now - settings.quiet,
            open_since=now - settings.max_age,
            limit=settings.batch,
            ahead=now + _AHEAD,
        )
        for trace_ids, is_set_aside in portions(store, "trace", due, worker=worker):
            assemblies = assembler.set_aside(trace_ids) if is_set_aside else assembler.assemblies(trace_ids)
            store.replace_turns(assemblies, now=now, limits=limits)
            written += sum(len(assembly.turns) for assembly in assemblies)
            if not go_on():
                return written
        if len(due) < settings.batch:
            break
    return written


def reopen(store: SpanStore, trace_ids: Sequence[str], settings: AssembleSettings, *, now: datetime) -> int:
    """Have traces read again at the next tick, and return how many will be.

    Not those of which fragments were pruned: what is left of them says less than was read once. A turn that comes out
    as before keeps its outcomes.
    """
    return store.reopen(trace_ids, as_of=now - settings.quiet - _SLACK) if trace_ids else 0


class _Assembler:
    """Reads traces of one store."""

    def __init__(
        self, store: TraceStore, settings: AssembleSettings, *, decode: Decoder, rules: ReadingRules, worker: str
    ) -> None:
        self._store = store
        self._most_bytes = settings.max_bytes
        self._worker = worker
        self._decode = decode
        self._rules = rules

    def assemblies(self, trace_ids: Sequence[str]) -> tuple[Assembly, ...]:
        """Return what the traces became, and their neighbours that turn out to be described twice now."""
        batch = self._read(trace_ids)
        around = self._read(tuple(self._neighbours(batch)))
        dropped = duplicates((*batch, *around))
        rewritten = [trace for trace in around if trace.trace_id in dropped]
        linked = self._linked([trace for trace in batch if trace.trace_id not in dropped])
        return tuple(
            _without_turns(trace) if trace.trace_id in dropped else _with_links(trace, linked, self._rules)
            for trace in (*batch, *rewritten)
        )

    def set_aside(self, trace_ids: Sequence[str]) -> tuple[Assembly, ...]:
        """Return what traces become that must not be read again, and say so: somebody should look at them."""
        for trace_id in trace_ids:
            log.error("trace %s set aside: %d processes died while reading it", trace_id, DEATHS)
        return tuple(
            Assembly(
                trace_id=trace_id,
                through=size.through,
                turns=(),
                unread={PROCESS_DIED: size.records},
                rules=self._rules.version,
                failed=True,
            )
            for trace_id, size in self._store.sizes(trace_ids).items()
        )

    def _read(self, trace_ids: Sequence[str]) -> list[TraceTurns]:
        if not trace_ids:
            return []
        fragments = self._store.fragments(trace_ids)
        return [self._read_one(trace_id, fragments[trace_id]) for trace_id in trace_ids if fragments.get(trace_id)]

    def _read_one(self, trace_id: str, fragments: Sequence[StoredFragment]) -> TraceTurns:
        ordered = sorted(fragments, key=lambda stored: stored.position)
        through = ordered[-1].position
        try:
            looked_at = _within(ordered, self._most_bytes)
            trace = join(trace_id, [self._decode(stored.fragment) for stored in looked_at])
            left_out = sum(stored.fragment.count for stored in ordered[len(looked_at) :])
            return _cut_off(read_trace(trace, self._rules, through=through), left_out)
        except PluginFailed as error:
            reason = f"{error.kind}_failed:{error.name}"
        except Exception as error:  # noqa: BLE001 -- one trace must not stop the others; it is counted and marked
            at = traceback.extract_tb(error.__traceback__)[-1]
            log.error("trace %s lost: %s in %s:%s", trace_id, type(error).__name__, at.filename, at.lineno)  # noqa: TRY400 -- the message of a foreign error may hold user text
            reason = "internal"
        lost = {reason: sum(stored.fragment.count for stored in fragments)}
        rules = self._rules.version
        return TraceTurns(
            assembly=Assembly(trace_id=trace_id, through=through, turns=(), unread=lost, rules=rules, failed=True)
        )

    def _linked(self, batch: Sequence[TraceTurns]) -> Mapping[str, LinkedTrace]:
        """The traces that turns of the batch link to, as far as they arrived; none that must not be read."""
        ids = {link.trace_id: None for trace in batch for links in trace.links.values() for link in links}
        traces: dict[str, LinkedTrace] = {}
        suspect = self._store.deaths("trace", tuple(ids), worker=self._worker)
        readable = tuple(trace_id for trace_id in ids if trace_id not in suspect)
        fragments = self._store.fragments(readable) if readable else {}
        for trace_id in readable:
            stored = fragments.get(trace_id, ())
            trace = Trace(trace_id=trace_id, spans=())
            try:
                parts = _within(stored, self._most_bytes)
                trace = join(trace_id, [self._decode(part.fragment) for part in parts])
            except Exception:  # noqa: BLE001 -- it is counted and logged where the trace itself is read
                log.debug("trace %s, to which others link, cannot be read", trace_id)
            through = max((part.position for part in stored), default=0)
            traces[trace_id] = LinkedTrace(trace=trace, through=through)
        return traces

    def _neighbours(self, batch: Sequence[TraceTurns]) -> Iterator[str]:
        """Traces in the store that may describe a call of the batch, or be described by one."""
        seen = {trace.trace_id for trace in batch}
        by_app: defaultdict[str, list[tuple[Turn, bool]]] = defaultdict(list)
        for trace in batch:
            if trace.calls:
                for turn in trace.assembly.turns:
                    by_app[turn.app].append((turn, trace.is_single_call))
        for app, turns in by_app.items():
            around = _Around([turn for turn, alone in turns if alone], [turn for turn, alone in turns if not alone])
            for stored in self._store.extents(
                app,
                since=around.since,
                until=around.until,
                ended_since=around.ended_since,
                single_calls=around.whole_only,
            ):
                if stored.trace_id not in seen and around.concerns(stored):
                    seen.add(stored.trace_id)
                    yield stored.trace_id


class _Around:
    """Which stored turns may describe a call of these turns again, or be described by one of theirs."""

    def __init__(self, lone: Sequence[Turn], whole: Sequence[Turn]) -> None:
        self._lone = sorted(lone, key=lambda turn: turn.started_at)
        self._starts = [turn.started_at for turn in self._lone]
        self._whole = whole
        self._by_response: defaultdict[str | None, list[Turn]] = defaultdict(list)
        for turn in lone:
            self._by_response[turn.response].append(turn)
        every = (*lone, *whole)
        self.since = min(turn.started_at for turn in every) - (_LONGEST if lone else _SLACK)
        self.until = max(turn.ended_at for turn in every) + _SLACK
        self.ended_since = min(turn.started_at for turn in every) - _SLACK
        self.whole_only = not lone
        """Then only single calls can be described twice."""

    def concerns(self, stored: Extent) -> bool:
        """Return whether the times fit, and between two lone calls also the responses."""
        if stored.single_call:
            alike = self._by_response.get(stored.response, ())
            return any(_encloses(turn, stored) for turn in self._whole) or any(
                _encloses(turn, stored) or _encloses(stored, turn) for turn in alike
            )
        for at in range(bisect_left(self._starts, stored.started_at - _SLACK), len(self._lone)):
            if self._lone[at].started_at > stored.ended_at:
                return False
            if _encloses(stored, self._lone[at]):
                return True
        return False


def _encloses(outer: Turn | Extent, inner: Turn | Extent) -> bool:
    return outer.started_at - _SLACK <= inner.started_at and inner.ended_at <= outer.ended_at + _SLACK


def _with_links(trace: TraceTurns, linked: Mapping[str, LinkedTrace], rules: ReadingRules) -> Assembly:
    """What became of a trace, its turns with the session and user of what they link to."""
    if not trace.links:
        return trace.assembly
    turns = tuple(
        linked_turn(turn, trace.links[turn.turn_id], linked, rules) if turn.turn_id in trace.links else turn
        for turn in trace.assembly.turns
    )
    waiting: dict[str, int] = {}
    for turn in turns:
        waiting |= awaited(turn, trace.links.get(turn.turn_id, ()), linked)
    return replace(trace.assembly, turns=turns, awaited=dict(islice(waiting.items(), _MOST_AWAITED)))


def _without_turns(trace: TraceTurns) -> Assembly:
    """What becomes of a trace whose call another one describes with more around it."""
    unread = Counter(trace.assembly.unread) + Counter({"duplicate": len(trace.calls)})
    return replace(trace.assembly, turns=(), unread=unread)


def _within(ordered: Sequence[StoredFragment], most_bytes: int) -> Sequence[StoredFragment]:
    """The first fragments of a trace whose payloads are so large together; the first one in any case."""
    sizes = accumulate(len(stored.fragment.payload) for stored in ordered)
    return ordered[: max(1, sum(size <= most_bytes for size in sizes))]


def _cut_off(trace: TraceTurns, left_out: int) -> TraceTurns:
    """Say in turns and counts that records of a trace were not looked at."""
    if not left_out:
        return trace
    assembly = trace.assembly
    turns = tuple(replace(turn, flags=turn.flags | {"span_limit"}) for turn in assembly.turns)
    unread = Counter(assembly.unread) + Counter({"over_limit": left_out})
    return replace(trace, assembly=replace(assembly, turns=turns, unread=unread))
