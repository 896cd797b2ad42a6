"""Keys, tokens and headers that no client of HTTP can send are found at the start, by the words of the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.access.credentials import Access
from monitor.access.refusals import Refusals
from monitor.channels import webhook
from monitor.errors import ConfigError
from monitor.exporter.exporters import RagMonitorSpanExporter
from monitor.grafana.publisher import GrafanaPublisher
from monitor.runtime.build import build_endpoint
from monitor.settings.listener import Auth
from monitor.settings.tree import GrafanaSettings, JudgeSettings, Settings, load, plugin_config, validate

WRONG = {
    "line break": ("canary\nsecret", "character 7 of 13 is a line break"),
    "carriage return at the end": ("canarysecret\r", "character 13 of 13 is a line break"),
    "curly quote": (
        "\u201ccanary-secret",
        r"character 1 of 14 is LEFT DOUBLE QUOTATION MARK (U+201C), which is not ASCII",
    ),
    "space that is none": ("canary\u00a0secret", "character 7 of 13 is a control character (U+00A0)"),
    "tab of another kind": ("canary\vsecret", "character 7 of 13 is a control character (U+000B)"),
}


def url(**keys: object) -> dict[str, object]:
    """A webhook's section."""
    return {"kind": "webhook", "url": "http://127.0.0.1:9/hook", **keys}


def webhook_of(**keys: object) -> object:
    """The channel of a section."""
    return webhook.build(plugin_config(webhook.Config, url(**keys), "channels[0]"), "webhook")


SETTINGS: dict[str, tuple[str, Callable[[str], object]]] = {
    "judge": ("judge.api_key", lambda v: validate(Settings, {"judge": {"api_key": v}}, where="s")),
    "fallback": (
        "judge.fallback.api_key",
        lambda v: validate(Settings, {"judge": {"fallback": {"api_key": v}}}, where="s"),
    ),
    "grafana": ("grafana.token", lambda v: validate(Settings, {"grafana": {"token": v}}, where="s")),
    "webhook": ("channels[0]: authorization", lambda v: webhook_of(authorization=v)),
    "header": ("channels[0]: headers.X-Key", lambda v: webhook_of(headers={"X-Key": v})),
    "listener": ("auth: tokens.0", lambda v: validate(Auth, {"tokens": [v]}, where="auth")),
    "exporter": (
        "exporter headers: X-Key",
        lambda v: RagMonitorSpanExporter(endpoint="http://127.0.0.1:9", headers={"X-Key": v}),
    ),
}

FILES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "judge": (
        "judge.api_key_file",
        lambda f: build_endpoint(JudgeSettings(kind="openai", api_key_file=f), "judge"),
    ),
    "grafana": (
        "grafana.token_file",
        lambda f: GrafanaPublisher(
            GrafanaSettings(url="http://127.0.0.1:9", token_file=f), clock=lambda: datetime.now(UTC)
        ),
    ),
    "webhook": ("channel 'webhook': authorization_file", lambda f: webhook_of(authorization_file=f)),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_secret_that_cannot_be_sent(setting: str, wrong: str) -> None:
    """The error names the key and the character, and nothing else of the value."""
    value, why = WRONG[wrong]
    where, use = SETTINGS[setting]
    with pytest.raises(ConfigError) as caught:
        use(value)
    message = str(caught.value)
    assert where in message
    assert f"cannot be sent in a header: {why}" in message
    assert not any(part in message for part in ("canary", "secret"))


@pytest.mark.parametrize("setting", FILES)
def test_a_file_with_what_cannot_be_sent(setting: str, tmp_path: Path) -> None:
    """The error names the key of the file; a line break at its end and a mark before its text are no fault."""
    where, use = FILES[setting]
    file = tmp_path / "key"
    file.write_bytes(b"\xef\xbb\xbfkey\r\n")
    use(file)
    for content, why in ((b"canary\nsecret", "is a line break"), (b"\xff\xfec\0a\0", "is not text in UTF-8")):
        file.write_bytes(content)
        with pytest.raises(ConfigError) as caught:
            use(file)
        assert where in str(caught.value)
        assert why in str(caught.value)
        assert "canary" not in str(caught.value)


def test_a_file_of_tokens_with_what_cannot_be_sent(tmp_path: Path) -> None:
    """The error names the key of the file and the entry."""
    file = tmp_path / "tokens"
    file.write_text("good\n\u2019canary\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"otlp\.auth\.tokens_file: entry 2 cannot be sent .* RIGHT SINGLE") as caught:
        Access(Auth(tokens_file=file), "otlp", Refusals("otlp", lambda: datetime.now(UTC)))
    assert "canary" not in str(caught.value)


def test_a_name_that_is_none() -> None:
    """A name of a header with what no name may hold is refused; it may be a secret in the wrong place."""
    with pytest.raises(ConfigError, match=r"channel 'webhook': headers: a name is empty or holds") as caught:
        webhook_of(headers={"X-Key: canary": "v"})
    assert "canary" not in str(caught.value)


def test_a_user_in_the_address_of_an_exporter() -> None:
    """It was left out silently; the error says where it goes, and shows nothing of it."""
    with pytest.raises(ConfigError, match=r"exporter endpoint: holds a user or password") as caught:
        RagMonitorSpanExporter(endpoint="http://canary:12/secret@127.0.0.1:9")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("address", ["http://canary:12/secret@127.0.0.1", "http://u:ca@nary/@127.0.0.1:9"])
def test_a_login_of_grafana_that_is_not_encoded(address: str) -> None:
    """A password with `/` or `@` would make another host of itself, which errors show."""
    with pytest.raises(ConfigError, match=r"grafana\.url: .*(holds an `@` that|not an address)") as caught:
        load(None, {"RAG_MONITOR__GRAFANA__URL": address})
    assert not any(part in str(caught.value) for part in ("canary", "nary", "secret"))
