"""Settings become the parts that `run`, `replay` and `demo` share: store, metrics, judge, dialects, keys."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, cast

from monitor import plugins
from monitor.assembly.exclusions import Exclusions
from monitor.assembly.rules import ReadingRules, reading_rules
from monitor.dialects._configured import Fields, NamedDialect, places
from monitor.errors import ConfigError
from monitor.judging import prompt_metric
from monitor.judging.coded.lex5 import GroundednessProxy, Lex5
from monitor.judging.coded.registry import NAMES as CODED
from monitor.judging.coded.registry import coded
from monitor.judging.endpoint.limiter import Limiter
from monitor.judging.endpoint.pacing import PacedJudge
from monitor.judging.endpoint.prices import KNOWN, Price, price_of
from monitor.judging.judges import Judges
from monitor.model.judgements import Rubric
from monitor.model.spans import Decoded, Fragment
from monitor.payloads.otlp.fragments import decode_otlp
from monitor.payloads.turn_records.fragments import decode_turns
from monitor.ports import Channel, Clock, Collector, Dialect, Metric, Proxy, Sink
from monitor.runtime.isolation import GuardedChannel, GuardedSink, PluginFailures, guarded_dialect
from monitor.runtime.listening import check_places
from monitor.runtime.renewed_channel import RenewedChannel
from monitor.runtime.store_opening import open_settled
from monitor.settings.nearest import suggestion
from monitor.settings.renewed_files import renewed
from monitor.settings.section import authorities, header_secret
from monitor.settings.tree import (
    EndpointSettings,
    JudgeSettings,
    PluginSection,
    SampleSettings,
    Settings,
)
from monitor.settings.turn_choice import ExcludeSettings
from monitor.store.pseudonyms import pseudonym
from monitor.store.sql_store import SqlStore

if TYPE_CHECKING:
    from monitor.grafana.publisher import GrafanaPublisher
    from monitor.judging.endpoint.client import OpenAIJudge


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the stages work with."""

    settings: Settings
    store: SqlStore
    metrics: tuple[Metric, ...]
    judge: Judges | None
    """None when every metric is computed in code."""
    proxy: Proxy | None
    """None for no cheap score of turns."""
    rules: ReadingRules
    """How traces become turns."""
    failures: PluginFailures
    """Of plug-ins that other distributions bring."""
    fields: Fields
    """Attributes that the settings name for them."""
    worker: str
    """Names this process and run of it."""

    @property
    def rubrics(self) -> tuple[Rubric, ...]:
        """What is measured, in the order of the settings."""
        return tuple(metric.rubric for metric in self.metrics)

    def decode(self, fragment: Fragment) -> Decoded:
        """Read a stored fragment; imported turns lose their user ids here, as captured ones do in assembly."""
        if fragment.signal != "turns":
            return self.fields.identified(decode_otlp(fragment))
        decoded = decode_turns(fragment)
        turns = (replace(t, user_id=self.rules.hash_user(t.user_id)) if t.user_id else t for t in decoded.turns)
        return replace(decoded, turns=tuple(turns))


@asynccontextmanager
async def open_parts(settings: Settings) -> AsyncIterator[Parts]:
    """Open the store and the judge, and close them in reverse.

    Raises:
        ConfigError: a setting cannot be used.
        StoreUnavailable: the database cannot be opened.
    """
    failures = PluginFailures()
    dialects = load_dialects(settings, failures)
    judge = build_judge(settings.judge)
    store = open_settled(settings)
    try:
        lexical = Lex5()
        metrics = build_metrics(settings, judge, lexical=lexical, fence_key=store.key("fence"))
        parts = Parts(
            settings=settings,
            store=store,
            metrics=metrics,
            judge=judge,
            proxy=lexical,
            rules=reading_rules(
                dialects,
                hash_user=partial(pseudonym, key=store.key("user")),
                max_spans=settings.assemble.max_spans,
                exclusions=_exclusions(settings.assemble.exclude),
                version=_rules_version(settings, dialects),
            ),
            failures=failures,
            fields=_fields(settings),
            worker=f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}",
        )
        if judge is None:
            yield parts
        else:
            async with judge:
                yield parts
    finally:
        store.close()


def _rules_version(settings: Settings, dialects: Sequence[Dialect]) -> str:
    """Return a text that changes whenever traces may be read otherwise."""
    named = (*(dialect.name for dialect in dialects), settings.assemble.model_dump_json())
    return f"{version('rag-monitor')} {hashlib.blake2b(repr(named).encode(), digest_size=6).hexdigest()}"


def _exclusions(settings: ExcludeSettings) -> Exclusions:
    return Exclusions(apps=settings.apps, scopes=settings.scopes, models=settings.models, routes=settings.routes)


def build_judge(settings: JudgeSettings) -> Judges | None:
    """Return the judge model and its fallback, not entered, or None when no judge model is configured."""
    if settings.kind == "none":
        return None
    for where, endpoint in (("judge", settings), ("judge.fallback", settings.fallback)):
        limited = settings.budget.daily_usd is not None or settings.budget.monthly_usd is not None
        if limited and endpoint and price_of(build_prices(endpoint), endpoint.model) is None:
            raise ConfigError(
                f"a budget needs the price of {endpoint.model!r}; "
                f"expected {where}.prices: {{{endpoint.model}: {{input: 0.15, output: 0.6}}}}, 0 for what is free",
                where=f"{where}.prices",
            )
    fallback = _paced(settings.fallback, "judge.fallback") if settings.fallback else None
    return Judges(_paced(settings, "judge"), fallback)


def _paced(settings: EndpointSettings, where: str) -> PacedJudge:
    limits = Limiter(requests_per_minute=settings.requests_per_minute, tokens_per_minute=settings.tokens_per_minute)
    return PacedJudge(build_endpoint(settings, where), limiter=limits, where=where)


def build_prices(settings: EndpointSettings) -> Mapping[str, Price]:
    """Return the prices by model: the settings' above the known ones, which hold at OpenAI and Azure only."""
    configured = {
        model: Price(price.input, price.output, cached=price.cached, cache_write=price.cache_write)
        for model, price in settings.prices.items()
    }
    return {**KNOWN, **configured}


def build_endpoint(settings: EndpointSettings, where: str) -> OpenAIJudge:
    """Return the client of one endpoint, not entered; `where` is its key path, such as `judge.fallback`."""
    named = f"{where}.api_key"
    read = partial(header_secret, settings.api_key, settings.api_key_file, named)
    key = renewed((settings.api_key_file,), read, named)
    if settings.api_version and settings.base_url is None:
        raise ConfigError(
            f"needs {where}.base_url, the address of the Azure OpenAI resource", where=f"{where}.api_version"
        )
    if key() is None and settings.base_url is None:
        raise ConfigError(
            "kind openai needs api_key, api_key_file or OPENAI_API_KEY, or a base_url that takes no key", where=where
        )
    client = cast("type[OpenAIJudge]", plugins.on_demand("monitor.judging.endpoint.client").OpenAIJudge)
    return client(
        model=settings.model,
        api_key=key,
        base_url=settings.base_url,
        timeout=settings.timeout,
        api_version=settings.api_version,
        prices=build_prices(settings),
        max_prompt_tokens=settings.max_prompt_tokens,
        trust=authorities(settings.ca_file, f"{where}.ca_file"),
    )


def build_publisher(settings: Settings, clock: Clock) -> GrafanaPublisher | None:
    """Return what publishes to Grafana; None when the settings name none.

    Raises:
        ConfigError: the address is none, or the packages of the extra `grafana` are not installed.
    """
    if not settings.grafana.url:
        return None
    module = plugins.on_demand("monitor.grafana.publisher", extra="grafana", where="grafana.url")
    publisher = cast("type[GrafanaPublisher]", module.GrafanaPublisher)
    return publisher(settings.grafana, clock=clock)


def build_metrics(
    settings: Settings, judge: Judges | None, *, fence_key: bytes, lexical: Lex5 | None = None
) -> tuple[Metric, ...]:
    """Return the metrics that can be measured: without a judge model only those computed in code.

    Raises:
        ConfigError: a metric cannot be found, with a judge or without, is measured twice, or is named by a rule only.
    """
    named = named_metrics(settings, judge.name if judge else "", fence_key=fence_key, lexical=lexical)
    metrics = tuple(metric for brought in named.values() for metric in brought)
    _check_rules(settings.sample, [metric.rubric.metric for metric in metrics])
    if judge:
        return metrics
    proxy = () if GroundednessProxy.rubric.metric in named else (GroundednessProxy(lexical),)
    return *proxy, *(metric for metric in metrics if not metric.max_output_tokens)


def _check_rules(settings: SampleSettings, measured: Sequence[str]) -> None:
    """Raise a `ConfigError` for a rule about a metric that nobody measures: it would do nothing, and not say so."""
    known = (*measured, GroundednessProxy.rubric.metric)
    for i, rule in enumerate(settings.rules):
        if not any(fnmatchcase(metric, rule.metric) for metric in known):
            raise ConfigError(
                f"no metric {rule.metric!r}{suggestion(rule.metric, known)}",
                where=f"sample.rules[{i}].metric",
            )


def named_metrics(
    settings: Settings, judge_name: str, *, fence_key: bytes, lexical: Lex5 | None = None
) -> Mapping[str, Sequence[Metric]]:
    """Return all metrics of the settings by the name that brings them; those with `max_output_tokens` need a judge.

    Raises:
        ConfigError: as `build_metrics`.
    """
    named: dict[str, Sequence[Metric]] = {}
    sources: dict[str, str] = {}
    for i, name in enumerate(settings.metrics):
        brought = _metrics_of(name, f"metrics[{i}]", judge_name, fence_key, lexical)
        for measured in (metric.rubric.metric for metric in brought):
            if measured in sources:
                raise ConfigError(
                    f"{measured} is measured by {sources[measured]!r} already; keep one", where=f"metrics[{i}]"
                )
            sources[measured] = name
        named[name] = brought
    return named


def _metrics_of(name: str, where: str, judge_name: str, fence_key: bytes, lexical: Lex5 | None) -> Sequence[Metric]:
    if computed := coded(name, where=where):
        return (computed,)
    if name == GroundednessProxy.rubric.metric:
        return (GroundednessProxy(lexical),)
    others = (*CODED, GroundednessProxy.rubric.metric, *plugins.scorers())
    try:
        return prompt_metric.load_all(name, judge_name=judge_name, fence_key=fence_key, others=others)
    except ConfigError as error:
        raise error.at(where) from None


def load_dialects(settings: Settings, failures: PluginFailures) -> tuple[Dialect, ...]:
    """Return the telemetry conventions to read, in order of priority; those of other distributions are guarded."""
    listed = settings.assemble.dialects
    if listed is None:
        loaded = [plugins.dialect(kind, "assemble.dialects") for kind in plugins.kinds("dialects")]
    else:
        loaded = [plugins.dialect(kind, f"assemble.dialects[{i}]") for i, kind in enumerate(listed)]
    guarded = [
        guarded_dialect(d, failures, brought_by=bringer) if (bringer := plugins.brought_by("dialects", d.name)) else d
        for d in loaded
    ]
    ordered = tuple(sorted(guarded, key=lambda dialect: dialect.priority))
    named = _fields(settings)
    if named.query.keys or named.response.keys or named.documents.keys:
        return NamedDialect(named, ordered), *ordered
    return ordered


def _fields(settings: Settings) -> Fields:
    named = settings.assemble.fields
    return Fields(
        query=places(named.query),
        response=places(named.response),
        documents=places(named.documents),
        session_id=places(named.session_id),
        user_id=places(named.user_id),
    )


def build_collectors(
    settings: Settings, sink: Sink, failures: PluginFailures, *, clock: Clock
) -> Mapping[str, Collector]:
    """Return the configured collectors, not entered, by their names."""
    built: dict[str, Collector] = {}
    for i, section in enumerate(settings.collectors):
        where = f"collectors[{i}]"
        kind, name = kind_and_name(section, where)
        if name in built:
            raise ConfigError(f"{name!r} is taken; give collectors of one kind different names", where=f"{where}.name")
        own_sink = sink
        if bringer := plugins.brought_by("collectors", kind):
            failures.watch("collector", name, bringer)
            own_sink = GuardedSink(sink, name)
        built[name] = plugins.collector(kind, section, where, sink=own_sink, clock=clock)
    check_places(settings)
    return built


def build_channels(settings: Settings, failures: PluginFailures) -> Mapping[str, Channel]:
    """Return the configured alert channels by their names; those of other distributions are guarded."""
    built: dict[str, Channel] = {}
    for i, section in enumerate(settings.channels):
        where = f"channels[{i}]"
        kind, name = kind_and_name(section, where)
        if name in built:
            raise ConfigError(f"{name!r} is taken; give channels of one kind different names", where=f"{where}.name")
        files = [Path(value) for key, value in section.items() if key.endswith("_file") and isinstance(value, str)]
        present = renewed(files, partial(plugins.channel, kind, section, where, name=name), where)
        channel: Channel = RenewedChannel(present) if files else present()
        if bringer := plugins.brought_by("channels", kind):
            failures.watch("channel", name, bringer)
            channel = GuardedChannel(channel, name, failures)
        built[name] = channel
    return built


def kind_and_name(section: PluginSection, where: str) -> tuple[str, str]:
    """Return the kind of a collector or channel, and its name, which is the kind when the section has none.

    Raises:
        ConfigError: there is no kind, or one of them is no text.
    """
    kind, name = section.get("kind"), section.get("name")
    if not isinstance(kind, str):
        raise ConfigError("missing; every entry names its kind", where=f"{where}.kind")
    if name is not None and not isinstance(name, str):
        raise ConfigError(f"expected a text, found {type(name).__name__}", where=f"{where}.name")
    return kind, name or kind
