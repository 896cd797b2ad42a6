"""What the health pages say while the monitor starts, runs and stops."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from http_request import send
from loopback import free_port

from monitor.runtime import app
from monitor.settings.tree import Settings

COLLECTOR = """
import asyncio
import json
from pathlib import Path

from http_request import send
from monitor.settings.section import Section

class Config(Section):
    web: int
    notes: Path

class Curious:
    def __init__(self, config):
        self.config = config

    async def note(self):
        with self.config.notes.open("a") as notes:
            for page in ("/healthz", "/readyz"):
                answer = await asyncio.to_thread(send, ("127.0.0.1", self.config.web), "GET", page)
                notes.write(json.dumps([answer.status, answer.body.decode()]) + "\\n")

    async def __aenter__(self):
        await self.note()
        return self

    async def __aexit__(self, kind, error, traceback):
        await self.note()

    def health(self):
        return {}

def build(config, sink, clock):
    return Curious(config)
"""


@pytest.fixture
def _curious_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution, whose collector looks at the health pages while it starts and while it stops."""
    folder = tmp_path / "curious"
    info = folder / "curious-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "curious_collector.py").write_text(COLLECTOR, encoding="utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: curious\nVersion: 1.0\n", encoding="utf-8")
    entry = "[rag_monitor.collectors]\ncurious = curious_collector\n"
    (info / "entry_points.txt").write_text(entry, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "curious_collector", raising=False)


@pytest.mark.usefixtures("_curious_collector")
async def test_healthy_and_ready_only_while_the_collectors_listen(tmp_path: Path) -> None:
    """Both pages answer 503 until the last collector has started, and again from when the first one stops."""
    notes, port = tmp_path / "notes", free_port()
    settings = Settings.model_validate(
        {
            "store": {"url": f"sqlite:///{tmp_path / 'monitor.db'}"},
            "web": {"port": port},
            "collectors": [{"kind": "curious", "web": port, "notes": str(notes)}],
        }
    )
    async with app.running(settings) as monitor:
        pages = [await asyncio.to_thread(send, monitor.web, "GET", page) for page in ("/healthz", "/readyz")]
    assert [200, 200] == [page.status for page in pages]
    noted = [json.loads(line) for line in notes.read_text().splitlines()]
    assert [503] * 4 == [status for status, _ in noted]
    assert all("the collectors do not listen" in body for _, body in noted)
