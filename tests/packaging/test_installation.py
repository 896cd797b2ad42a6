"""What comes into the environment of an app that exports, which is `pip install rag-monitor` without extras."""

from __future__ import annotations

import sys
import venv
from importlib.metadata import Distribution
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.packaging.closure import closure, copy, digests

if TYPE_CHECKING:
    from tests.packaging.conftest import Installed

pytestmark = pytest.mark.wheel

EXPORT = """
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from monitor.exporter.exporters import RagMonitorSpanExporter

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(RagMonitorSpanExporter(store="sqlite:///shop.db")))
provider.get_tracer("shop").start_span("chat").end()
provider.shutdown()
"""
MAIN = "from monitor.cli.main import main; main()"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Site-packages of a fresh environment."""
    venv.create(tmp_path / "venv", with_pip=False)
    return tmp_path / "venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"


def ours(installed: Installed) -> Distribution:
    """The wheel as it was installed."""
    (info,) = installed.environment.glob("lib/python*/site-packages/rag_monitor-*.dist-info")
    return Distribution.at(info)


def filled(installed: Installed, site: Path, *extras: str) -> Installed:
    """The environment of `site`, with copies of the wheel and of what it needs."""
    wheel = ours(installed)
    copy((wheel, *closure(wheel, *extras)), site)
    return type(installed)(site.parents[2], installed.home)


def test_nothing_writes_over_the_files_of_another_package(installed: Installed, site: Path, tmp_path: Path) -> None:
    """Python started twice to export leaves every file, urllib3's too, as it was installed."""
    app = filled(installed, site)
    before = digests(site)
    made = app.run(app.python, "-B", "-c", MAIN, "migrate", "--store", "sqlite:///shop.db", folder=tmp_path)
    assert 0 == made.returncode, made.stderr
    done = app.run(app.python, "-B", "-c", EXPORT, folder=tmp_path)
    assert (0, "") == (done.returncode, done.stderr)
    assert before == digests(site)
    assert [] == [name for name in before if name.endswith(".pth")]


def test_the_client_of_grafana_writes_over_another_package(installed: Installed, site: Path, tmp_path: Path) -> None:
    """The same look finds what the extra `grafana` does, so it would find it without the extra."""
    app = filled(installed, site, "grafana")
    before = digests(site)
    assert 0 == app.run(app.python, "-c", "", folder=tmp_path).returncode
    changed = {name.partition("/")[0] for name, digest in digests(site).items() if before.get(name) != digest}
    assert {"urllib3"} == changed


@pytest.mark.parametrize(("verb", "status"), [("check", 1), ("run", 2)])
def test_grafana_without_its_extra(installed: Installed, site: Path, tmp_path: Path, verb: str, status: int) -> None:
    """Where Grafana is configured and its client is not installed, `check` and the start name what to install."""
    app = filled(installed, site)
    variables = {"RAG_MONITOR__GRAFANA__URL": "http://127.0.0.1:9", "RAG_MONITOR__GRAFANA__TOKEN": "t"}
    done = app.run(app.python, "-B", "-c", MAIN, verb, folder=tmp_path, environ=variables)
    told = "grafana.url: needs the package grafana_client, which is not installed here; install rag-monitor[grafana]"
    assert status == done.returncode
    assert told in done.stdout + done.stderr
