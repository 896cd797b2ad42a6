"""Debian's Prometheus Alertmanager on loopback, which tells a webhook at once of what it is told."""

from __future__ import annotations

import json
import shutil
import signal
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from deadline import wait_until
from guard import Guard
from loopback import accepts, free_port
from requirement import require_or_skip
from webhook_receiver import Receiver

_READY_SECONDS = 30.0
_TOLD_SECONDS = 30.0
_CONFIGURATION = """
route:
  receiver: people
  group_by: [alertname, app, environment, slice]
  group_wait: 0s
  group_interval: 1s
  repeat_interval: 1h
receivers:
  - name: people
    webhook_configs:
      - url: {url}
        send_resolved: true
"""


class Alertmanager:
    """An Alertmanager on 127.0.0.1 that is in no cluster and forgets everything when it ends."""

    def __init__(self, binary: str, guard: Guard, people: Receiver) -> None:
        self._guard, self._people = guard, people
        folder = guard.folder("rag-monitor-alertmanager-")
        self.port = free_port()
        (folder / "alertmanager.yml").write_text(_CONFIGURATION.format(url=people.url))
        self._process = guard.start(
            [
                binary,
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'storage'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
                "--cluster.listen-address=",
            ],
            folder=folder,
            log=folder / "alertmanager.log",
            environment={"PATH": "", "LC_ALL": "C"},
        )
        wait_until(lambda: accepts(self.port), f"Alertmanager on port {self.port}", seconds=_READY_SECONDS)

    @property
    def url(self) -> str:
        """Return where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def alerts(self) -> list[dict[str, Any]]:
        """Return the alerts that fire, as its API shows them."""
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=10) as answer:  # noqa: S310 -- loopback
            alerts: list[dict[str, Any]] = json.load(answer)
        return alerts

    def told(self, count: int) -> list[dict[str, Any]]:
        """Wait until people were told of `count` alerts, each time they were told; return these alerts."""

        def alerts() -> list[dict[str, Any]]:
            return [alert for _, _, body in self._people.taken for alert in body["alerts"]]

        wait_until(lambda: len(alerts()) >= count, f"{count} alerts of Alertmanager", seconds=_TOLD_SECONDS)
        return alerts()

    def close(self) -> None:
        """End it."""
        self._guard.stop(self._process, signal.SIGKILL)


@pytest.fixture
def alertmanager(guard: Guard, receiver: Receiver) -> Iterator[Alertmanager]:
    """An Alertmanager that tells `receiver`."""
    binary = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    if binary is None:
        require_or_skip("alertmanager", "no Alertmanager on this machine (Debian: prometheus-alertmanager)")
    service = Alertmanager(binary, guard, receiver)
    yield service
    service.close()
