"""What collectors count, as metrics: every field of the dataclass that a collector's `stats()` returns."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from monitor.telemetry import Gauge


@runtime_checkable
class Counting(Protocol):
    """A collector that counts; not all do."""

    def stats(self) -> object:
        """Return a dataclass of numbers, durations, and mappings from a short word to a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """How one field is exported, beside the label `collector`."""

    name: str
    """Without the `rag_monitor_` prefix."""
    description: str
    label: str = "key"
    """Of the keys, where the field is a mapping."""
    counter: bool = True


_REJECTED = Exported(
    name="records_rejected", label="reason", description="Records left out of what was accepted, by reason"
)
_REFUSED = Exported(name="batches_refused", description="Batches that the intake could not take, and that then waited")
METRICS: Mapping[str, Exported] = MappingProxyType(
    {
        "requests": Exported(
            name="requests",
            label="outcome",
            description="Requests by outcome: accepted, refused (come again), slow, disconnected, fault, "
            "or why not read",
        ),
        "rejected": _REJECTED,
        "bad": _REJECTED,
        "ignored": Exported(
            name="records_ignored",
            label="what",
            description="What is accepted and not kept: log records without a trace context, metrics requests",
        ),
        "connections": Exported(name="connections", counter=False, description="Connections of clients open now"),
        "clients_refused": Exported(
            name="clients_refused", label="reason", description="Clients not let in, or sent away, by reason"
        ),
        "stored": Exported(
            name="records_stored", label="signal", description="Records of files made durable, each delivery counted"
        ),
        "refused": _REFUSED,
        "refusals": _REFUSED,
        "deleted": Exported(name="files_deleted", description="Finished files deleted"),
        "files": Exported(name="files", counter=False, description="Files in the folder now, read or not"),
        "records": Exported(
            name="records_consumed",
            label="outcome",
            description="Kafka records by outcome: accepted, empty, tombstone, or why not read",
        ),
        "record_bytes": Exported(name="records_consumed_bytes", description="Bytes of the values of Kafka records"),
        "dead_letters": Exported(
            name="dead_letters", label="outcome", description="Unreadable Kafka records: copied or not_copied"
        ),
        "commits": Exported(
            name="commits", label="outcome", description="Commits of offsets: committed, or the class of the error"
        ),
        "failures": Exported(
            name="consumers_failed", label="problem", description="Kafka consumers closed because of an error"
        ),
        "opened": Exported(name="consumers_opened", description="Times that the Kafka cluster was entered"),
        "partitions": Exported(name="partitions_assigned", counter=False, description="Partitions assigned now"),
        "lag": Exported(
            name="lag_records", label="topic", counter=False, description="Kafka records that are not durable here yet"
        ),
        "silent_for": Exported(
            name="silent_seconds", counter=False, description="Time since the Kafka cluster last answered"
        ),
    }
)
"""By the field's name."""


def exported(field: str) -> Exported:
    """Return how a field is exported; one that `METRICS` does not know, of a collector from elsewhere, by its name."""
    return METRICS.get(field) or Exported(
        name=f"collector_{field}", counter=False, description=f"`{field}` of the collector's stats"
    )


def fields_of(stats: object) -> tuple[str, ...]:
    """Return the names of the fields; empty when `stats` is no dataclass."""
    if not dataclasses.is_dataclass(stats):
        return ()
    return tuple(field.name for field in dataclasses.fields(stats))


def gauges(collector: str, stats: object) -> Iterator[Gauge]:
    """Yield the fields that are numbers, durations (as seconds) or mappings to numbers."""
    for field in fields_of(stats):
        metric, value = exported(field), getattr(stats, field)
        labels = {"collector": collector}
        if isinstance(value, Mapping):
            for key, count in value.items():
                if not isinstance(count, int | float):
                    raise TypeError(f"{field}: expected numbers, found {type(count).__name__}")
                yield Gauge(name=metric.name, value=count, labels={**labels, metric.label: key})
        elif isinstance(value, timedelta):
            yield Gauge(name=metric.name, value=value.total_seconds(), labels=labels)
        elif isinstance(value, int | float):
            yield Gauge(name=metric.name, value=value, labels=labels)
