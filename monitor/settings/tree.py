"""One typed, strict, frozen tree of settings, read once: `load(path, environ)`.

The file is YAML with `${NAME}` and `${NAME:-default}` taken from the environment. `RAG_MONITOR__STORE__URL` overrides
`store.url`, and so on for every key. Durations carry a unit ("15s", "5m", "2h", "7d"). A secret may be given as
`<name>_file`, a path. The sections of plug-ins (collectors, channels) stay plain mappings here: each plug-in's file has
the `Config` class that reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from pydantic import (
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from monitor.errors import ConfigError
from monitor.settings import file as settings_file
from monitor.settings.addresses import EndpointAddress, GrafanaAddress
from monitor.settings.listener import Listener
from monitor.settings.name_places import NamePlaces
from monitor.settings.problems import WHOLE, problems
from monitor.settings.rates import SampleRule
from monitor.settings.section import Duration, HeaderSecret, Section
from monitor.settings.store import StoreSettings
from monitor.settings.turn_choice import ExcludeSettings, FieldSettings

LONGEST_WINDOW = timedelta(days=1)

PluginSection: TypeAlias = Mapping[str, object]
"""`kind` and whatever that kind's `Config` takes."""


S = TypeVar("S", bound=Section)


class IntakeSettings(Section):
    """The one buffer between collectors and the store."""

    max_pending: int = Field(default=64 * 1024 * 1024, gt=0)
    """Bytes of payload that may wait for their commit; beyond it senders are asked to come back."""
    max_batch: int = Field(default=8 * 1024 * 1024, gt=0)
    """Bytes of payload per transaction."""


class AssembleSettings(Section):
    """When a trace counts as complete."""

    every: Duration = timedelta(seconds=1)
    """How often traces are looked at that may have settled."""
    quiet: Duration = timedelta(seconds=10)
    """A trace settles when nothing arrived for it for this long. At least twice the exporters' batch delay."""
    max_age: Duration = timedelta(minutes=10)
    """A trace settles at this age even if it is still growing."""
    dialects: tuple[str, ...] | None = None
    """Telemetry conventions to read; null for all."""
    fields: FieldSettings = FieldSettings()
    exclude: ExcludeSettings = ExcludeSettings()
    max_spans: int = Field(default=10_000, gt=0)
    """Spans of one trace that are looked at; the rest are counted and flagged."""
    max_bytes: int = Field(default=64 * 1024 * 1024, gt=0)
    """Of one trace, as received, that are looked at; what came after them is counted and flagged as above."""
    batch: int = Field(default=200, gt=0)
    """Traces per transaction."""
    names: NamePlaces = NamePlaces()


class SampleSettings(Section):
    """Which turns are judged."""

    every: Duration = timedelta(seconds=2)
    """How often it is decided about new turns."""
    rate: float = Field(default=1.0, ge=0, le=1)
    """Share of turns to judge, where no rule says otherwise; 0 for none."""
    rules: tuple[SampleRule, ...] = ()
    """Rates by app, environment and metric; the first that matches counts."""
    salt: str = "rag-monitor"
    """Changing it draws another sample; equal salts make equal decisions on every machine."""
    batch: int = Field(default=500, gt=0)
    """Turns per transaction."""

    def rate_of(self, app: str, environment: str, metric: str) -> float:
        """Return the share of an app's turns in an environment that is judged by a metric."""
        matching = (rule.rate for rule in self.rules if rule.matches(app, environment, metric))
        return next(matching, self.rate)


class PriceSettings(Section):
    """What a million tokens cost, in US dollars."""

    input: float = Field(ge=0, allow_inf_nan=False)
    """Of prompts."""
    output: float = Field(ge=0, allow_inf_nan=False)
    """Reasoning included."""
    cached: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of input tokens that the endpoint had cached; null for no discount."""
    cache_write: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Of input tokens that it wrote to its cache; null for no surcharge."""


class BudgetSettings(Section):
    """What all processes together may spend on judges, in US dollars; null for no limit.

    When one is spent nothing more is asked: due jobs become unscored with reason `budget`. Calls under way finish.
    """

    daily_usd: float | None = Field(default=None, ge=0)
    """Per UTC day."""
    monthly_usd: float | None = Field(default=None, ge=0)
    """Per calendar month, in UTC."""


class EndpointSettings(Section):
    """One model at one OpenAI-compatible endpoint."""

    base_url: EndpointAddress = None
    """Null: the environment's `OPENAI_BASE_URL`, else OpenAI's own."""
    api_version: str | None = None
    """Only for Azure OpenAI by deployment: its version, such as `2024-10-21`. `base_url` is then the resource's address
    and `model` the deployment's name."""
    api_key: HeaderSecret | None = None
    """Null: the environment's `OPENAI_API_KEY`."""
    api_key_file: Path | None = None
    """A file that holds it."""
    ca_file: Path | None = None
    """Certificates of the authorities that the endpoint is trusted by, in PEM; null for the machine's own."""
    model: str = "gpt-4o-mini"
    """As the endpoint calls it."""
    timeout: Duration = timedelta(seconds=30)
    """For one call, from connecting to the last byte."""
    requests_per_minute: int | None = Field(default=None, gt=0)
    """What one process may send; null for no limit of ours. The endpoint's own 429s are obeyed in any case."""
    tokens_per_minute: int | None = Field(default=None, gt=0)
    """Of prompts and replies together, likewise."""
    max_prompt_tokens: int | None = Field(default=None, gt=0)
    """About what the model takes; documents are cut to fit. Null: to half, when a prompt turns out too long."""
    prices: Mapping[str, PriceSettings] = {}
    """By model as configured or as the endpoint names it, above known prices; a model without one costs nothing."""


class SecondOpinionSettings(Section):
    """What is asked of the judge again, to know how far it agrees with itself. It enters no rate."""

    share: float = Field(default=0.02, ge=0, le=1)
    """Of judged turns, those that are judged twice at once; a model at temperature 0 need not repeat itself."""
    anchors: int = Field(default=200, ge=0)
    """Verdicts of each metric that are judged again when the endpoint begins to answer with another model."""


class JudgeSettings(EndpointSettings):
    """Who judges."""

    kind: Literal["none", "openai"] = "none"
    """`none` measures what is computed in code, with a lexical proxy of groundedness, and needs no key; `openai` asks
    any OpenAI-compatible endpoint."""
    fallback: EndpointSettings | None = None
    """Asked about turns that the judge refuses, filters or answers unreadably; with the same `model` it also takes over
    while the judge cannot be reached."""
    budget: BudgetSettings = BudgetSettings()
    second_opinions: SecondOpinionSettings = SecondOpinionSettings()

    @field_validator("kind", mode="before")
    @classmethod
    def _present_name(cls, kind: object) -> object:
        if kind == "offline":
            raise ValueError("'offline' is called 'none' now")
        return kind


class ScoreSettings(Section):
    """How jobs are worked off."""

    concurrency: int = Field(default=8, gt=0)
    """Calls of the judge at once by one process; a quarter more jobs are claimed ahead."""
    attempts: int = Field(default=8, gt=0)
    """Failures of one job, while others are answered, before it becomes unscored; with the default backoff that takes
    20 minutes. An endpoint that answers nobody uses up no attempts."""
    backoff: Duration = timedelta(seconds=10)
    """Wait before the second attempt; doubled for each further one."""
    max_job_age: Duration = timedelta(days=2)
    """Jobs of turns older than this become unscored with reason `expired`; of those that `rag-monitor score` asked for,
    that long after it did."""


class RollupSettings(Section):
    """Windows of trends."""

    every: Duration = timedelta(seconds=15)
    """How often changed windows are recomputed."""
    window: Duration = Field(default=timedelta(hours=1), gt=timedelta(0), le=LONGEST_WINDOW)
    """Length of a window, a whole fraction of a day, so that days add up."""
    lateness: Duration = timedelta(minutes=15)
    """A window is closed for detection this long after its end; later verdicts still correct its numbers."""

    @model_validator(mode="after")
    def _windows_fill_days(self) -> RollupSettings:
        if LONGEST_WINDOW % self.window:
            raise ValueError(f"window ({self.window}) does not divide a day; 5m, 15m, 1h, 6h and 24h do")
        return self


class DetectSettings(Section):
    """When a rise counts as a regression (the evidence meter)."""

    every: Duration = timedelta(seconds=30)
    """How often closed windows are looked at."""
    reference: Duration = timedelta(days=7)
    """Length of the baseline: the first this long of a series, unless one is pinned."""
    min_reference_windows: int = Field(default=24, ge=4)
    """Windows with data that a baseline must have before anything can fire."""
    min_effect: float = Field(default=0.10, ge=0)
    """Relative rises up to this count as no change."""
    false_alarms_per_month: float = Field(default=1.0, gt=0)
    """False alarms allowed in 30 days over all series of one app together."""
    horizon: Duration = timedelta(days=7)
    """No new alert about windows older than this."""


class AlertSettings(Section):
    """How people are told."""

    every: Duration = timedelta(seconds=15)
    """How often alerts move on and messages are sent."""
    hold: Duration = timedelta(0)
    """A regression must last this long before it fires."""
    retry_for: Duration = timedelta(days=1)
    """How long a message that a channel does not take is tried, counted from its first attempt."""
    backoff: Duration = timedelta(seconds=15)
    """Wait before the second attempt; doubled for each further one, up to an hour."""

    @model_validator(mode="before")
    @classmethod
    def _present_name(cls, section: object) -> object:
        if isinstance(section, Mapping) and "attempts" in section:
            raise ValueError("attempts is now retry_for, a time such as 1d")
        return section


class GrafanaSettings(Section):
    """Grafana's HTTP API, with the extra `grafana`; nothing is pushed while `url` is null."""

    url: GrafanaAddress = None
    """Null: the environment's `GRAFANA_URL`."""
    token: HeaderSecret | None = None
    """Null: the environment's `GRAFANA_TOKEN`."""
    token_file: Path | None = None
    """A file that holds it."""
    org_id: int | None = None
    """The organisation that the token must belong to, or that a login in `url` works in; null for its own."""
    datasource: str | None = None
    """Name or uid of a PostgreSQL or Prometheus data source; null when there is exactly one that fits."""
    folder: str = "rag-monitor"
    """Uid of the folder; made when missing."""
    every: Duration = timedelta(seconds=60)
    """How often dashboards and annotations are brought up to date."""
    timeout: Duration = timedelta(seconds=10)
    """For one request."""
    ca_file: Path | None = None
    """The authority that signed Grafana's certificate; null for those of the system."""


class WebSettings(Listener):
    """Health and metrics pages."""

    port: int = Field(default=8080, ge=0, le=65535)
    """0 for any free one."""


class RetentionSettings(Section):
    """How long text is kept. Verdicts' scores and rollups stay."""

    every: Duration = timedelta(minutes=1)
    """How often old rows are deleted, for up to 20 seconds."""
    text: Duration = timedelta(days=30)
    """Of turns, prompts and replies, by when the turn began."""
    spans: Duration = timedelta(days=2)
    """As they were received, by when that was; user ids as the app sent them are only here."""
    rewrite_every: Duration | None = None
    """How often the tables of text are written anew, so that no byte of what was deleted stays in the database's
    files for longer. Senders are told to come back meanwhile, and text needs its room twice. Unset: never."""


class RuntimeSettings(Section):
    """The process."""

    stop_within: Duration = Field(default=timedelta(seconds=20), gt=timedelta(0))
    """How long it may take to end after SIGTERM. Work under way may be finished in most of it, and is given back in the
    rest. Less than whoever kills the process waits: 30 s in Kubernetes, 10 s in Docker."""


class LogSettings(Section):
    """Our own logging."""

    level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = "INFO"
    """What is at least as grave is written, to standard error."""
    format: Literal["text", "json"] = "text"
    """`json` for an object a line: `time` in UTC, `level`, `logger`, `message`, and where there are any `fields` and
    `exception`. What keeps `run` from starting is said as text."""


class Settings(Section):
    """The whole tree; with no file at all these defaults run."""

    store: StoreSettings = StoreSettings()
    intake: IntakeSettings = IntakeSettings()
    collectors: tuple[PluginSection, ...] = ({"kind": "otlp_http"}, {"kind": "otlp_grpc"})
    """Where telemetry comes from; each entry names its `kind`, and what that kind takes follows."""
    assemble: AssembleSettings = AssembleSettings()
    sample: SampleSettings = SampleSettings()
    judge: JudgeSettings = JudgeSettings()
    metrics: tuple[str, ...] = ("groundedness", "relevance", "safety")
    """Names of shipped prompt files or of metrics computed in code, or paths of prompt files of your own; see
    docs/metrics.md."""
    score: ScoreSettings = ScoreSettings()
    rollup: RollupSettings = RollupSettings()
    detect: DetectSettings = DetectSettings()
    alert: AlertSettings = AlertSettings()
    channels: tuple[PluginSection, ...] = ()
    """Who is told of alerts, likewise."""
    grafana: GrafanaSettings = GrafanaSettings()
    web: WebSettings = WebSettings()
    retention: RetentionSettings = RetentionSettings()
    runtime: RuntimeSettings = RuntimeSettings()
    log: LogSettings = LogSettings()

    @model_validator(mode="after")
    def _quiet_before_age(self) -> Settings:
        if self.assemble.quiet > self.assemble.max_age:
            raise ValueError(
                f"assemble.quiet ({self.assemble.quiet}) is longer than assemble.max_age ({self.assemble.max_age})"
            )
        return self


def load(path: Path | None, environ: Mapping[str, str]) -> Settings:
    """Return the settings of `path` (None: defaults) with the environment's overrides.

    Raises:
        ConfigError: the file cannot be read or keys are wrong; a line per problem: the file or the variable that says
            so, key path, what is allowed.
    """
    tree = settings_file.tree(path, environ)
    try:
        return Settings.model_validate(tree.values)
    except ValidationError as error:
        raise tree.blamed(ConfigError.several(problems(Settings, error))) from None


def blamed(error: ConfigError, path: Path | None, environ: Mapping[str, str]) -> ConfigError:
    """Return an error about settings that `load` took, such as a plug-in's section, with what says so in front."""
    return settings_file.tree(path, environ).blamed(error)


def plugin_config(model: type[S], section: PluginSection, where: str) -> S:
    """Return `section` (without `kind` and `name`) as a plug-in's own `Config`; `where` is its key path."""
    own = {key: value for key, value in section.items() if key not in {"kind", "name"}}
    return validate(model, own, where=where, whole="")


def validate(model: type[S], tree: Mapping[str, object], *, where: str, whole: str = WHOLE) -> S:
    """Return `tree` as `model`, or raise a `ConfigError` with one line per problem; `whole` is the place of no key."""
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        raise ConfigError.several(problems(model, error, whole=whole)).at(where) from None
