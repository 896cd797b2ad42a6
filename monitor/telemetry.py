"""Our own metrics (`rag_monitor_*`) through opentelemetry-sdk, rendered for Prometheus.

Names follow Prometheus: a counter `rag_monitor_<noun>_<past participle>_total{reason}`, seconds and bytes in the name.
Labels never hold user text. Nothing here is global.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """One number as of now. `name` is without the `rag_monitor_` prefix."""

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


class Telemetry:
    """Counters, histograms and gauges of one running monitor."""

    content_type = CONTENT_TYPE_LATEST

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=self._registry)
        self._provider = MeterProvider(
            metric_readers=(reader,),
            resource=Resource.create({"service.name": "rag-monitor", "service.version": version}),
            views=(
                View(
                    instrument_type=Histogram,
                    instrument_name="*_seconds",
                    aggregation=ExplicitBucketHistogramAggregation(_SECONDS),
                ),
            ),
            shutdown_on_exit=False,
        )
        meter = self._provider.get_meter("rag_monitor")
        self._meter = meter
        self._rows = meter.create_counter("rag_monitor_tick_rows", description="Rows that ticks of a stage wrote")
        self._ticks = meter.create_histogram("rag_monitor_tick_duration_seconds", description="Duration of ticks")
        self._failures = meter.create_counter("rag_monitor_tick_failed", description="Ticks that raised, by reason")
        self._missed = meter.create_counter("rag_monitor_tick_skipped", description="Ticks not started in time")
        self._commits = meter.create_histogram(
            "rag_monitor_intake_commit_duration_seconds", description="Duration of the intake's commits that succeeded"
        )
        self._names: set[str] = set()
        self.watch("info", lambda: [Gauge(name="info", value=1, labels={"version": version})], description="Who runs")

    def ticked(self, tick: str, *, rows: int, seconds: float) -> None:
        """Record one finished tick of a stage."""
        self._rows.add(rows, {"tick": tick})
        self._ticks.record(seconds, {"tick": tick})

    def failed(self, tick: str, *, reason: str) -> None:
        """Record one tick that raised; `reason` is an error class or a `StoreUnavailable.reason`."""
        self._failures.add(1, {"tick": tick, "reason": reason})

    def skipped(self, tick: str) -> None:
        """Record a tick that did not begin in time, since the one before was still running."""
        self._missed.add(1, {"tick": tick, "reason": "overlap"})

    def committed(self, took: timedelta) -> None:
        """Record one transaction of the intake that succeeded."""
        self._commits.record(took.total_seconds())

    def watch(self, name: str, read: Callable[[], Sequence[Gauge]], *, description: str, counter: bool = False) -> None:
        """Export `rag_monitor_<name>`, read anew at every scrape; `read` must be quick and must not raise.

        Raises:
            ValueError: the name is taken.
        """
        if name in self._names:
            raise ValueError(f"metric {name!r} is watched already")
        self._names.add(name)

        def callback(_: CallbackOptions) -> list[Observation]:
            return [Observation(gauge.value, dict(gauge.labels)) for gauge in read() if gauge.name == name]

        create = self._meter.create_observable_counter if counter else self._meter.create_observable_gauge
        create(f"rag_monitor_{name}", callbacks=[callback], description=description)

    def render(self) -> bytes:
        """Return all metrics in the Prometheus text format."""
        return generate_latest(self._registry)

    def close(self) -> None:
        """Stop collecting."""
        self._provider.shutdown()
