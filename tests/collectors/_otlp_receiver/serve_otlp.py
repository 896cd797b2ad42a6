"""Runs both OTLP collectors and the intake on one SQLite file until SIGTERM; prints the ports it got.

usage: serve_otlp.py DATABASE
"""

import asyncio
import json
import signal
import sys
from datetime import UTC, datetime

from collectors.otlp_grpc import collector as otlp_grpc
from collectors.otlp_http import collector as otlp_http
from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import open_store


async def main(database: str) -> None:
    """Serve until SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    store = open_store(f"sqlite:///{database}")

    def clock() -> datetime:
        return datetime.now(UTC)

    async with (
        Intake(store, IntakeSettings()) as intake,
        otlp_http.build(otlp_http.Config(port=0), intake, clock) as http,
        otlp_grpc.build(otlp_grpc.Config(port=0), intake, clock) as grpc,
    ):
        sys.stdout.write(json.dumps({"http": http.address[1], "grpc": grpc.address[1]}) + "\n")
        sys.stdout.flush()
        await stop.wait()
    store.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
