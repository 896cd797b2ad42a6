"""Kinds become modules, and what another distribution brings is looked at before anything runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import pytest

from monitor import plugins
from monitor.errors import ConfigError
from monitor.model.spans import Fragment

Install: TypeAlias = Callable[..., None]

DIALECT = """
from monitor.model.spans import Role, Step

class Acme:
    name = "acme"
    priority = 5

    def claims(self, span):
        return "acme.kind" in span.attributes

    def role(self, span):
        return Role.CHAIN

    def read(self, span):
        return Step(span=span, role=Role.CHAIN, dialect="acme")

DIALECT = Acme()
"""
CHANNEL = """
from monitor.settings.section import Section

class Config(Section):
    room: str = "ops"

class Room:
    async def send(self, alert):
        pass

    async def check(self):
        pass

def build(config, name):
    return Room()
"""
COLLECTOR = """
from monitor.settings.section import Section

class Config(Section):
    pass

class Source:
    async def __aenter__(self):
        return self

    async def __aexit__(self, kind, error, traceback):
        pass

    def health(self):
        return {}

def build(config, sink, clock):
    return Source()
"""


class Nowhere:
    """A sink that nothing is put into."""

    async def put(self, fragments: Sequence[Fragment]) -> None:
        """Refuse."""
        raise NotImplementedError(len(fragments))


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Another distribution of one module, with entry points; its module is forgotten afterwards."""
    before = set(sys.modules)

    def make(source: str, entries: Mapping[str, str], *, distribution: str = "acme-rag") -> None:
        folder = tmp_path / distribution
        info = folder / f"{distribution.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{distribution.replace('-', '_')}.py").write_text(source, encoding="utf-8")
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n", encoding="utf-8")
        lines = "".join(f"[rag_monitor.{group}]\n{line}\n" for group, line in entries.items())
        (info / "entry_points.txt").write_text(lines, encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))

    yield make
    for name in set(sys.modules) - before:
        if name.startswith("acme"):
            del sys.modules[name]


def build_channel() -> object:
    """The channel `acme` as the settings ask for it."""
    return plugins.channel("acme", {"kind": "acme"}, "channels[0]", name="acme")


def build_collector() -> object:
    """The collector `acme` as the settings ask for it."""
    return plugins.collector(
        "acme", {"kind": "acme"}, "collectors[0]", sink=Nowhere(), clock=lambda: datetime(2026, 3, 1, tzinfo=UTC)
    )


def test_kinds_are_the_public_files() -> None:
    """A folder is a kind of collector and a file one of channel; a leading underscore is none, nor a file beside."""
    assert ("file", "kafka", "otlp_grpc", "otlp_http") == plugins.kinds("collectors")
    assert ("alertmanager", "opsgenie", "pagerduty", "slack", "smtp", "teams", "webhook") == plugins.kinds("channels")


def test_unknown_kind_lists_the_known_ones() -> None:
    """The error names the key path, what was found and what is allowed."""
    with pytest.raises(
        ConfigError, match=r"^collectors\[1\]\.kind: no collector 'otlp'; known: .*otlp_grpc, otlp_http"
    ):
        plugins.load("collectors", "otlp", "collectors[1].kind")


def test_kinds_of_another_distribution(install: Install) -> None:
    """A dialect, a channel and a collector of another distribution are loaded and built by their entry points' name."""
    install(DIALECT, {"dialects": "acme = acme_rag"})
    install(CHANNEL, {"channels": "acme = acme_channel"}, distribution="acme-channel")
    install(COLLECTOR, {"collectors": "acme = acme_collector"}, distribution="acme-collector")
    assert "acme" in plugins.kinds("dialects")
    assert ("acme", 5) == (plugins.dialect("acme", "here").name, plugins.dialect("acme", "here").priority)
    assert ("Room", "Source") == (type(build_channel()).__name__, type(build_collector()).__name__)
    assert ("acme_channel of acme-channel", "") == (
        plugins.brought_by("channels", "acme"),
        plugins.brought_by("channels", "webhook"),
    )


@pytest.mark.parametrize(
    ("instead", "problem"),
    [
        (("DIALECT = Acme()", ""), "DIALECT: missing; expected an object with name, priority, claims, role and read"),
        (("DIALECT = Acme()", "DIALECT = Acme"), "DIALECT.claims: missing a required argument: 'span'; expected `def"),
        (('name = "acme"', 'name = "other"'), "DIALECT.name: found 'other'; expected 'acme', as the entry point is"),
        (("priority = 5", 'priority = "5"'), "DIALECT.priority: found '5'; expected a whole number from 0"),
        (("priority = 5", "priority = True"), "DIALECT.priority: found True; expected a whole number from 0"),
        (("priority = 5", "priority = -5"), "DIALECT.priority: found -5; expected a whole number from 0"),
        (("priority = 5", ""), "DIALECT.priority: missing; expected a whole number from 0"),
        (("def claims", "claims = True\n    def other"), "DIALECT.claims: found True; expected `def claims(span)`"),
        (("claims(self, span)", "claims(self)"), "DIALECT.claims: too many positional arguments; expected `def claims"),
        (("    def read", "    async def read"), "DIALECT.read: found `async def`; expected `def read(span)`"),
        (("def role", "def roles"), "DIALECT.role: missing; expected `def role(span)`"),
        (('"acme.kind" in', 'span.attributes["kind"] in'), "DIALECT.claims: raised KeyError at "),
        (('"acme.kind" in', "exit() in"), "DIALECT.claims: raised SystemExit at "),
        (('"acme.kind" in span.attributes', "None"), "DIALECT.claims: returned NoneType; expected True or False"),
        (("from monitor.model", "from monitor.nodel"), "cannot import it: ModuleNotFoundError: No module named 'mon"),
        (("DIALECT = Acme()", "1 / 0"), "cannot import it: ZeroDivisionError at "),
        (("DIALECT = Acme()", "raise SystemExit('users only')"), "cannot import it: SystemExit at "),
        (("DIALECT = Acme()", "DIALECT = = Acme()"), "cannot import it: SyntaxError at "),
    ],
)
def test_broken_dialect(install: Install, instead: tuple[str, str], problem: str) -> None:
    """Whatever is wrong with a dialect is one line that says where, which, whose and what."""
    assert instead[0] in DIALECT
    install(DIALECT.replace(*instead), {"dialects": "acme = acme_rag"})
    with pytest.raises(ConfigError) as caught:
        plugins.dialect("acme", "assemble.dialects[1]")
    line = str(caught.value)
    assert line.startswith(f"assemble.dialects[1]: dialect 'acme' (acme_rag of acme-rag): {problem}")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("instead", "problem"),
    [
        (("class Config(Section)", "class Config"), "Config: found type; expected a class that extends monitor.settin"),
        (("class Config(", "class Settings("), "Config: missing; expected a class that extends monitor.settings.sect"),
        (("def build", "def make"), "build: missing; expected `def build(config, name)`"),
        (("def build", "async def build"), "build: found `async def`; expected `def build(config, name)`"),
        (("(config, name)", "(config)"), "build: too many positional arguments; expected `def build(config, name)`"),
        (("return Room()", "pass"), "what build returned: send: missing; expected `async def send(alert)`"),
        (("async def send", "def send"), "what build returned: send: found `def`; expected `async def send(alert)`"),
        (("send(self, alert)", "send(self)"), "what build returned: send: too many positional arguments; expected"),
        (("async def check", "async def test"), "what build returned: check: missing; expected `async def check()`"),
        (("return Room()", "return Rooms()"), "build raised NameError at "),
        (("return Room()", "open('/nowhere')"), "build raised FileNotFoundError at "),
    ],
)
def test_broken_channel(install: Install, instead: tuple[str, str], problem: str) -> None:
    """Whatever is wrong with a channel is one line that says where, which, whose and what."""
    assert instead[0] in CHANNEL
    install(CHANNEL.replace(*instead), {"channels": "acme = acme_rag"})
    with pytest.raises(ConfigError) as caught:
        build_channel()
    line = str(caught.value)
    assert line.startswith("channels[0]")
    assert f": channel 'acme' (acme_rag of acme-rag): {problem}" in line
    assert "\n" not in line


@pytest.mark.parametrize(
    ("instead", "problem"),
    [
        (
            ("config, sink, clock", "config, sink"),
            "build: too many positional arguments; expected `def build(config, s",
        ),
        (("def health", "def healthy"), "what build returned: health: missing; expected `def health()`"),
        (("def health", "async def health"), "what build returned: health: found `async def`; expected `def health()`"),
        (("async def __aenter__", "def __aenter__"), "what build returned: __aenter__: found `def`; expected `async"),
        (("__aexit__", "__exit__"), "what build returned: __aexit__: missing; expected `async def __aexit__(kind, "),
    ],
)
def test_broken_collector(install: Install, instead: tuple[str, str], problem: str) -> None:
    """Whatever is wrong with a collector is one line that says where, which, whose and what."""
    assert instead[0] in COLLECTOR
    install(COLLECTOR.replace(*instead), {"collectors": "acme = acme_rag"})
    with pytest.raises(ConfigError) as caught:
        build_collector()
    line = str(caught.value)
    assert line.startswith("collectors[0]")
    assert f": collector 'acme' (acme_rag of acme-rag): {problem}" in line
    assert "\n" not in line


def test_errors_of_a_build_are_blamed(install: Install) -> None:
    """What `build` refuses with a `ConfigError` is told with the section it was in."""
    refusing = CHANNEL.replace("return Room()", "raise ConfigError(\"room: no room 'ops'\")")
    install(f"from monitor.errors import ConfigError\n{refusing}", {"channels": "acme = acme_rag"})
    with pytest.raises(ConfigError, match=r"^channels\[0\]: channel 'acme' \(acme_rag of acme-rag\): room: no room"):
        build_channel()


def test_unknown_key_of_a_section(install: Install) -> None:
    """A plug-in's own `Config` refuses unknown keys like ours."""
    install(CHANNEL, {"channels": "acme = acme_rag"})
    with pytest.raises(ConfigError, match=r"^channels\[0\]: rom: unknown key; did you mean 'room'\?"):
        plugins.channel("acme", {"kind": "acme", "rom": "ops"}, "channels[0]", name="acme")


def test_entry_point_to_an_object(install: Install) -> None:
    """An entry point of a kind leads to a module."""
    install(DIALECT, {"dialects": "acme = acme_rag:DIALECT"})
    with pytest.raises(ConfigError, match=r"\(acme_rag:DIALECT of acme-rag\): expected a module, found Acme; name it"):
        plugins.dialect("acme", "here")


def test_two_distributions_of_one_kind(install: Install) -> None:
    """Which of two is meant is never left to chance."""
    install(CHANNEL, {"channels": "acme = acme_rag"})
    install(CHANNEL, {"channels": "acme = acme_too"}, distribution="acme-too")
    with pytest.raises(ConfigError, match=r"^channels\[0\]\.kind: channel 'acme' is brought by acme-\w+ and by acme-"):
        build_channel()


def test_clashes_are_told_unasked(install: Install) -> None:
    """A name that cannot be used is told before anybody's settings ask for it."""
    assert () == plugins.clashes()
    install(CHANNEL, {"channels": "acme = acme_rag", "dialects": "openinference = acme_rag"})
    install(CHANNEL, {"channels": "acme = acme_too", "metrics": "Acme-Tone = acme_too"}, distribution="acme-too")
    clashing = sorted(plugins.clashes())
    assert 3 == len(clashing)
    assert clashing[0].startswith("rag_monitor.channels: channel 'acme' is brought by acme-")
    assert clashing[1].startswith(
        "rag_monitor.dialects: dialect 'openinference' is brought by rag-monitor and by acme-rag"
    )
    assert clashing[2].startswith("rag_monitor.metrics: metric 'Acme-Tone' of acme-too: the entry point's name must be")


@pytest.mark.parametrize("kind", ["Acme", "acme-rag", "acme.rag", "9acme", "_acme", "a" * 64])
def test_name_that_is_no_kind(install: Install, kind: str) -> None:
    """Names follow one rule, whatever they are of."""
    install(DIALECT, {"dialects": f"{kind} = acme_rag"})
    with pytest.raises(ConfigError, match="must be lower case letters, digits and _, a letter first; rename it"):
        plugins.dialect(kind, "here")


@pytest.mark.parametrize(
    ("group", "kind", "source"),
    [("dialects", "openinference", DIALECT), ("channels", "webhook", CHANNEL), ("collectors", "otlp_http", COLLECTOR)],
)
def test_kind_of_ours(install: Install, group: str, kind: str, source: str) -> None:
    """Another distribution never takes the place of a kind that is shipped."""
    install(source, {group: f"{kind} = acme_rag"})
    with pytest.raises(
        ConfigError, match=rf"'{kind}' is brought by rag-monitor and by acme-rag; rename the entry point"
    ):
        plugins.load(group, kind, "here")
