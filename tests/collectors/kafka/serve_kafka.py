"""Runs a Kafka collector and the intake on one database until SIGTERM; prints its numbers whenever they change.

usage: serve_kafka.py SETTINGS DATABASE_URL [MODULE_TO_HIDE ...]
"""

import asyncio
import dataclasses
import json
import logging
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime

from monitor.runtime.intake import Intake
from monitor.settings.tree import IntakeSettings
from monitor.store.sql_store import open_store


async def main(settings: str, database: str) -> None:
    """Serve until SIGTERM, then print the last numbers."""
    # After the modules to hide are hidden.
    from collectors.kafka import collector as kafka  # noqa: PLC0415

    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    store = open_store(database)
    async with Intake(store, IntakeSettings()) as intake:
        collector = kafka.build(kafka.Config.model_validate(json.loads(settings)), intake, lambda: datetime.now(UTC))
        async with collector:
            printed = ""
            while not stop.is_set():
                if (line := report(collector)) != printed:
                    printed = line
                    tell(line)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 0.05)
        tell(report(collector))
    store.close()


def tell(line: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def report(collector: object) -> str:
    """The collector's numbers and problems as one line of JSON."""
    numbers = dataclasses.asdict(collector.stats())
    del numbers["silent_for"]
    return json.dumps({**numbers, "health": dict(collector.health())})


if __name__ == "__main__":
    for hidden in sys.argv[3:]:
        sys.modules[hidden] = None
    asyncio.run(main(sys.argv[1], sys.argv[2]))
