"""What a `kafka` section may say, and what is said about one that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collectors.kafka import collector as kafka
from collectors.kafka.client import security
from collectors.kafka.settings import Topic
from monitor.errors import ConfigError
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings, plugin_config
from monitor.store.sql_store import SqlStore

SASL: Mapping[str, object] = {"username": "alice", "password": "open sesame"}


def read(**section: object) -> kafka.Config:
    """The section as `run` reads it."""
    return plugin_config(kafka.Config, {"kind": "kafka", **section}, "collectors[0]")


def complaint(**section: object) -> str:
    """What is said about a wrong section."""
    with pytest.raises(ConfigError) as caught:
        security(read(**section))
    return str(caught.value)


def test_defaults() -> None:
    """With nothing said, the exporter's own topic for traces is read from a broker here."""
    config = read()
    assert (("127.0.0.1:9092",), {"otlp_spans": Topic()}) == (config.bootstrap_servers, config.topics)
    assert ("PLAINTEXT", None) == (security(config).protocol, security(config).context)


def test_topics() -> None:
    """Topics are names, or names with options; an option left out has its default."""
    assert {"a": Topic(), "b": Topic()} == read(topics=["a", "b"]).topics
    options = {"a": {"encoding": "turns", "app": "desk"}, "b": None, "c": {"signal": "logs"}}
    expected = {"a": Topic(encoding="turns", app="desk"), "b": Topic(), "c": Topic(signal="logs")}
    assert expected == read(topics=options).topics


def test_servers() -> None:
    """Servers are a list, or one text as Kafka itself takes it."""
    assert ("a:9092", "b:9092") == read(bootstrap_servers="a:9092, b:9092").bootstrap_servers
    assert ("a:9092", "b") == read(bootstrap_servers=["a:9092", "b"]).bootstrap_servers


@pytest.mark.parametrize(
    ("said", "meant"), [("earliest", None), (None, None), ("latest", timedelta(0)), ("2h", timedelta(hours=2))]
)
def test_start_from(said: object, meant: timedelta | None) -> None:
    """The start is a word or an age."""
    assert meant == read(start_from=said).start_from


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"topics": []}, "collectors[0]: topics: "),
        ({"topics": "otlp_spans"}, "collectors[0]: topics: expected a list of names, or a mapping"),
        ({"topics": ["a", "a"]}, "collectors[0]: topics: a topic is named twice"),
        ({"topics": {"a": {"encodng": "turns"}}}, "collectors[0]: topics.a.encodng: unknown key; did you mean "),
        ({"topics": {"a": {"encoding": "jaeger"}}}, "collectors[0]: topics.a.encoding: Input should be 'auto', "),
        ({"topics": {"a": {"encoding": "turns", "signal": "logs"}}}, "collectors[0]: topics.a: signal: "),
        ({"topics": ["a b"]}, "collectors[0]: topic 'a b': expected up to 249 letters, "),
        ({"topics": ["a"], "dead_letter": "a"}, "dead_letter: 'a' is one of the topics"),
        ({"start_from": "yesterday"}, 'start_from: expected "earliest", "latest", or an age'),
        ({"bootstrap_servers": []}, "collectors[0]: bootstrap_servers: "),
        ({"session_timeout": 45}, "collectors[0]: session_timeout: expected a number with a unit"),
        ({"session_timeout": "10m"}, "session_timeout (0:10:00) is longer than max_poll_interval (0:05:00)"),
        ({"check_every": "2m"}, "check_every (0:02:00) is longer than reopen_after (0:01:00)"),
        ({"request_timeout": "1h"}, "request_timeout (1:00:00) must be at least 1s and less than 9m"),
        ({"sasl": {"mechanism": "GSSAPI"}}, "collectors[0]: sasl.mechanism: Input should be 'PLAIN', "),
        ({"sasl": {"username": "alice"}}, "kafka.sasl.password: missing; give it, or password_file"),
        ({"sasl": {**SASL, "password_file": "p"}}, "kafka.sasl.password: given twice"),
        ({"sasl": {"username": "a", "password_file": "/none"}}, "kafka.sasl.password_file: cannot read '/none'"),
        ({"tls": {"ca_file": "/none"}}, "kafka.tls.ca_file: cannot use '/none': No such file or directory"),
        ({"tls": {"key_file": "k"}}, "collectors[0]: tls: key_file: a key needs cert_file"),
        ({"tls": {"cert_file": "/a", "key_file": "/b"}}, "kafka.tls.cert_file: cannot use '/a' and '/b': No such file"),
    ],
)
def test_wrong(section: Mapping[str, object], message: str) -> None:
    """A wrong setting is refused with its key, what was found and what is allowed."""
    assert message in complaint(**section)


def test_not_a_certificate(tmp_path: Path) -> None:
    """A file that holds something else is named."""
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")
    assert f"kafka.tls.ca_file: cannot use '{file}': not the PEM that is expected" == complaint(
        tls={"ca_file": str(file)}
    )


def test_secrets_stay_secret() -> None:
    """The password is in no text that a section is shown as."""
    config = read(sasl=SASL, tls={})
    assert "SASL_SSL" == security(config).protocol
    assert "open sesame" not in f"{config!r}{config.sasl!r}{security(config)!r}"


def test_build_refuses(store: SqlStore) -> None:
    """What cannot work at all is refused when the collector is built, before anything runs."""
    with pytest.raises(ConfigError, match="password: missing"):
        kafka.build(read(sasl={"username": "alice"}), Intake(store, IntakeSettings()), lambda: datetime.now(UTC))
