"""The settings tree: strict, from a file and the environment, with errors that name the key."""

from datetime import timedelta
from pathlib import Path

import pytest

from collectors.otlp_http.collector import Config as OtlpHttpConfig
from monitor.errors import ConfigError
from monitor.settings.section import secret
from monitor.settings.tree import Settings, blamed, load, plugin_config


def write(folder: Path, text: str) -> Path:
    """Return a settings file with this text."""
    path = folder / "rag-monitor.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_the_defaults_run() -> None:
    """No file and an empty environment give the embedded defaults."""
    settings = load(None, {})
    assert settings == Settings()
    assert settings.store.url == "sqlite:///rag-monitor.db"
    assert [c["kind"] for c in settings.collectors] == ["otlp_http", "otlp_grpc"]


def test_file_is_read_with_units(tmp_path: Path) -> None:
    """Durations carry a unit."""
    settings = load(write(tmp_path, "assemble: {quiet: 1.5m, max_age: 1h}\nsample: {rate: 0.1}"), {})
    assert settings.assemble.quiet == timedelta(seconds=90)
    assert settings.sample.rate == 0.1


def test_environment_fills_references(tmp_path: Path) -> None:
    """`${NAME}` is taken from the environment and `${NAME:-default}` falls back."""
    path = write(tmp_path, "store: {url: '${DB}'}\nsample: {rate: '${RATE:-0.25}', salt: 'a-${SALT:-b}'}")
    settings = load(path, {"DB": "sqlite:///x.db"})
    assert settings.store.url == "sqlite:///x.db"
    assert settings.sample.rate == 0.25
    assert settings.sample.salt == "a-b"


def test_unset_reference_is_named(tmp_path: Path) -> None:
    """A reference without value or default names file, key and variable."""
    path = write(tmp_path, "store:\n  url: ${NOT_SET}")
    with pytest.raises(ConfigError, match=r"rag-monitor\.yaml: store: url: \$\{NOT_SET\} is not set"):
        load(path, {})


def test_a_value_cannot_change_the_shape_of_the_file(tmp_path: Path) -> None:
    """A substituted value stays one string, whatever YAML it looks like."""
    path = write(tmp_path, "sample: {salt: '${SALT}'}")
    assert load(path, {"SALT": "x}, rate: 0.5, {y: [1"}).sample.salt == "x}, rate: 0.5, {y: [1"


def test_override_by_variable(tmp_path: Path) -> None:
    """`RAG_MONITOR__SECTION__KEY` beats the file."""
    path = write(tmp_path, "sample: {rate: 0.1}")
    assert load(path, {"RAG_MONITOR__SAMPLE__RATE": "0.5"}).sample.rate == 0.5


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("store: {urll: x}", "store.urll"),
        ("sample: {rate: 2}", "sample.rate"),
        ("assemble: {quiet: 5}", "assemble.quiet"),
        ("assemble: {quiet: 20m}", "assemble.max_age"),
        ("judge: {kind: offline}", "judge.kind: 'offline' is called 'none' now"),
        ("alert: {attempts: 8}", "alert: attempts is now retry_for, a time such as 1d"),
        ("- a", "expected a mapping"),
        ("store: {url: [", "not YAML"),
    ],
)
def test_wrong_keys_and_values_are_named(tmp_path: Path, text: str, message: str) -> None:
    """Every problem is one line with the file and the key path."""
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text), {})
    assert message in str(caught.value)
    assert "rag-monitor.yaml" in str(caught.value)


def test_wrong_value_is_not_repeated(tmp_path: Path) -> None:
    """An error never shows the value, which may be a secret in the wrong place."""
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, "judge: {kind: sk-very-secret}"), {})
    assert "sk-very-secret" not in str(caught.value)


def test_standard_variables_are_honoured() -> None:
    """`OPENAI_*` and `GRAFANA_*` fill what the file leaves open."""
    settings = load(None, {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://h/v1", "GRAFANA_URL": "http://g"})
    assert settings.judge.api_key is not None
    assert settings.judge.base_url == "http://h/v1"
    assert settings.grafana.url == "http://g"
    assert "'k'" not in repr(settings)


def test_secret_from_file(tmp_path: Path) -> None:
    """A secret file is read and stripped; giving it twice is refused."""
    path = tmp_path / "key"
    path.write_text("  s3cret\n")
    assert secret(None, path, None, "judge.api_key") == "s3cret"
    assert secret(None, None, "env", "judge.api_key") == "env"
    with pytest.raises(ConfigError, match=r"judge\.api_key_file: cannot read"):
        secret(None, tmp_path / "missing", None, "judge.api_key")


def test_secret_made_of_digits_stays_text(tmp_path: Path) -> None:
    """A value from the environment is no number where a text is wanted, and keeps its zeros."""
    path = write(tmp_path, "judge: {api_key: '${KEY}'}\ncollectors: [{kind: otlp_http, port: '${PORT}'}]")
    settings = load(path, {"KEY": "007", "PORT": "0", "RAG_MONITOR__SAMPLE__SALT": "0123"})
    assert settings.judge.api_key is not None
    assert ("007", "0123") == (settings.judge.api_key.get_secret_value(), settings.sample.salt)
    assert 0 == plugin_config(OtlpHttpConfig, settings.collectors[0], "collectors[0]").port


def test_environment_gives_numbers_truths_and_nothing() -> None:
    """Fields that want a number, a truth or null take them from the environment."""
    environ = {
        "RAG_MONITOR__SAMPLE__RATE": "0.5",
        "RAG_MONITOR__WEB__PORT": "0",
        "RAG_MONITOR__ASSEMBLE__DIALECTS": "null",
        "RAG_MONITOR__METRICS": '["relevance"]',
    }
    settings = load(None, environ)
    assert (0.5, 0, None) == (settings.sample.rate, settings.web.port, settings.assemble.dialects)
    assert ("relevance",) == settings.metrics


def test_empty_override_is_text() -> None:
    """A variable that is set to nothing does not become null."""
    assert "" == load(None, {"RAG_MONITOR__SAMPLE__SALT": ""}).sample.salt


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sampel: {rate: 1}", "sampel: unknown key; did you mean 'sample'?"),
        (
            "store: {frobnicate: 1}",
            (
                "store.frobnicate: unknown key; known: "
                "url, host, port, user, password, password_file, database, max_connections"
            ),
        ),
        ("judge: {fallback: {modell: x}}", "judge.fallback.modell: unknown key; did you mean 'model'?"),
        (
            "judge: {prices: {m: {input: 1, output: 1, cache: 0}}}",
            "judge.prices.m.cache: unknown key; did you mean 'cached'?",
        ),
        ("metrics: groundedness", "metrics: expected a list"),
        ("collectors: otlp_http", "collectors: expected a list"),
        ("judge: {prices: 3}", "judge.prices: expected a mapping of keys to values"),
        ("store: here", "store: expected a section: keys and their values"),
        ("rollup: {window: 7h}", "rollup: window (7:00:00) does not divide a day; 5m, 15m, 1h, 6h and 24h do"),
        ("alert: {hold: 5}", 'alert.hold: expected a number with a unit: "250ms", "15s", "5m", "2h" or "7d"'),
    ],
)
def test_problem_in_words(tmp_path: Path, text: str, message: str) -> None:
    """A problem says what is allowed in the file's own terms, and names the keys that exist."""
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path, {})
    assert f"{path}: {message}" == str(caught.value)


@pytest.mark.parametrize(
    ("text", "environ", "message"),
    [
        ("sample: {rate: 0.1}", {"RAG_MONITOR__SAMPLE__RATE": "2"}, "RAG_MONITOR__SAMPLE__RATE: sample.rate: Input"),
        ("", {"RAG_MONITOR__SAMPEL__RATE": "1"}, "RAG_MONITOR__SAMPEL__RATE: sampel: unknown key"),
        ("", {"RAG_MONITOR__SAMPLE__RULES": "[{rate: 3}]"}, "RAG_MONITOR__SAMPLE__RULES: sample.rules.0.rate: Input"),
        ("sample: {rate: '${SHARE}'}", {"SHARE": "2"}, "rag-monitor.yaml and ${SHARE}: sample.rate: Input"),
        ("", {"RAG_MONITOR__ROLLUP__WINDOW": "7h"}, "RAG_MONITOR__ROLLUP__WINDOW: rollup: window"),
        (
            "rollup: {lateness: 10m}",
            {"RAG_MONITOR__ROLLUP__WINDOW": "7h"},
            "rag-monitor.yaml and RAG_MONITOR__ROLLUP__WINDOW: rollup: window",
        ),
        ("", {"OPENAI_BASE_URL": "nowhere"}, "OPENAI_BASE_URL: judge.base_url: "),
        ("judge: {base_url: nowhere}", {"OPENAI_BASE_URL": "http://j"}, "rag-monitor.yaml: judge.base_url: "),
        ("sample: {rate: 2}", {"RAG_MONITOR__SAMPLE__SALT": "x"}, "rag-monitor.yaml: sample.rate: Input"),
        (
            "assemble: {quiet: 2h}",
            {"RAG_MONITOR__ASSEMBLE__MAX_AGE": "1h"},
            "rag-monitor.yaml and RAG_MONITOR__ASSEMBLE__MAX_AGE: settings: assemble.quiet",
        ),
    ],
)
def test_a_problem_names_what_said_it(tmp_path: Path, text: str, environ: dict[str, str], message: str) -> None:
    """A value that a variable gave is not looked for in the file, and one of the file not in the variables."""
    with pytest.raises(ConfigError) as caught:
        load(write(tmp_path, text), environ)
    assert str(caught.value).removeprefix(f"{tmp_path}/").startswith(message)


def test_problems_without_a_file() -> None:
    """Where there is no file the variable is named all the same."""
    with pytest.raises(ConfigError, match=r"^RAG_MONITOR__SAMPLE__RATE: sample\.rate: "):
        load(None, {"RAG_MONITOR__SAMPLE__RATE": "2"})


def test_a_section_of_a_plug_in(tmp_path: Path) -> None:
    """What is read only when it is built is blamed on its origin too."""
    error = ConfigError("unknown key", where="collectors[0]: prot")
    variable = {"RAG_MONITOR__COLLECTORS": "[{kind: otlp_http, prot: 1}]"}
    assert "RAG_MONITOR__COLLECTORS: collectors[0]: prot: unknown key" == str(blamed(error, None, variable))
    path = write(tmp_path, "collectors: [{kind: otlp_http, prot: 1}]")
    assert f"{path}: collectors[0]: prot: unknown key" == str(blamed(error, path, {}))


def test_an_endless_file(tmp_path: Path) -> None:
    """A file of more than a million bytes is not read, whatever is in it."""
    fits = write(tmp_path, "#" * 999_975 + "\nsample: {rate: 0.25}\n#")
    assert 0.25 == load(fits, {}).sample.rate
    with pytest.raises(ConfigError, match=r"rag-monitor\.yaml: cannot read the settings: longer than 1,000,000 bytes"):
        load(write(tmp_path, "#" * 1_000_001), {})
    with pytest.raises(ConfigError, match="longer than 1,000,000 bytes"):
        load(Path("/dev/zero"), {})


@pytest.mark.parametrize(
    "address",
    [
        "nowhere",
        "ftp://grafana",
        "http://",
        "http://g:port",
        "g:3000",
        "http://g/?verify=false",
        "http://g/#d",
        "http://a:b@c@g",
    ],
)
def test_address_of_grafana_that_is_none(tmp_path: Path, address: str) -> None:
    """It is refused where the settings are read, without a word of it, since a password may stand in it."""
    with pytest.raises(ConfigError, match=r"grafana\.url: (expected http\(s\)://host|holds an `@`)") as caught:
        load(write(tmp_path, f"grafana: {{url: '{address}'}}"), {})
    assert address not in str(caught.value)


def test_section_of_a_collector_that_is_wrong_as_a_whole() -> None:
    """What lies in no key alone is said of the section, not of `settings`."""
    with pytest.raises(ConfigError, match=r"^collectors\[0\]: host can be reached from other machines"):
        plugin_config(OtlpHttpConfig, {"kind": "otlp_http", "host": "0.0.0.0"}, "collectors[0]")  # noqa: S104 -- what is refused


def test_secret_without_an_end() -> None:
    """A device without an end, or a file of a wrong kind, is refused instead of being read into memory."""
    with pytest.raises(ConfigError, match=r"^judge\.api_key_file: cannot read '/dev/zero': longer than "):
        secret(None, Path("/dev/zero"), None, "judge.api_key")
