"""Everything at once: processes killed, clocks set by a day, judge and webhook failing, and then the books looked at.

Some processes of the monitor share PostgreSQL behind PgBouncer and a Kafka broker. Senders with a canary in each turn
repeat what is not acknowledged, over OTLP/HTTP, gRPC and Kafka. Meanwhile processes are killed and stopped, sessions of
PostgreSQL ended, PostgreSQL and the broker crashed, and clocks set a day ahead or back: of one process, of all, of
PostgreSQL. The judge is slow, refuses, hangs, is cut off; the webhook fails half of the time. When all is quiet again,
each acknowledged turn must be there once, whole and with its own verdict; each metric must account for each turn; each
alert must have been told; nothing may wait.

    python bench/chaos.py --minutes 10 --kills 100 --processes 8
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import _chaos_check as check
from _chaos_senders import APPS, Senders
from _chaos_stubs import Stubs
from _chaos_system import Guard, Monitor, Pace, Servers, keep, monitor

QUIET_FIRST = 0.15
"""Share of the time that passes before the first kill, in which baselines begin."""


def pace(seconds: float) -> Pace:
    """Return windows and phases for a run of so long."""
    cycle = max(40.0, seconds / 4)
    return Pace(window=2, lateness=6, reference=int(cycle * 0.4), cycle=cycle)


async def havoc(under: Monitor, rng: random.Random, *, seconds: float, kills: int, jumps: int) -> None:
    """Hurt the monitor at random moments, and set clocks meanwhile, for so long."""
    began, quiet = time.monotonic(), QUIET_FIRST * seconds
    at = sorted(rng.uniform(quiet, seconds) for _ in range(kills))

    async def hurt() -> None:
        for moment in at:
            await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
            await under.hurt()

    async def jump() -> None:
        for number in range(jumps):
            share = (seconds - quiet) / jumps
            await asyncio.sleep(max(0.0, began + quiet + number * share - time.monotonic()))
            await under.jump(share * rng.uniform(0.3, 0.8))

    await asyncio.gather(hurt(), jump(), asyncio.sleep(seconds))


async def settle(under: Monitor, sending: asyncio.Task[None], *, seconds: float) -> list[str]:
    """Wait until nothing waits any more, for so long at the most; return what still does."""
    end = time.monotonic() + seconds
    quiet_looks = 0
    while time.monotonic() < end:
        under.look()
        with under.servers.connect() as connection:
            left = check.waiting(connection)
        quiet_looks = quiet_looks + 1 if sending.done() and not left else 0
        if quiet_looks == 5:
            return []
        await asyncio.sleep(2)
    sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    with under.servers.connect() as connection:
        return [f"still waiting after {seconds:.0f} s: {check.waiting(connection)}", *check.stuck(connection)]


def report(under: Monitor, senders: Senders, stubs: Stubs) -> None:
    """Print what happened."""
    print(f"done to it: {told(under.done)}")
    ways = Counter(senders.sent[number].way for number in senders.acknowledged)
    print(f"{len(senders.sent):,} turns sent, {len(senders.acknowledged):,} acknowledged: {told(ways)}")
    print(f"{senders.retries:,} requests repeated")
    again = sum(count > 1 for count in stubs.asked.values())
    print(f"judge: {told(stubs.judged)}; of {len(stubs.asked):,} questions it answered {again:,} more than once")
    print(f"webhook: {told(Counter(delivery.fate for delivery in stubs.deliveries))}")
    keys = Counter(delivery.key for delivery in stubs.deliveries if delivery.taken)
    print(f"alerts: {len(keys)} transitions taken, {sum(n > 1 for n in keys.values())} of them more than once")
    if under.stops:
        print(f"SIGTERM: {len(under.stops)} times, {max(under.stops):.1f} s at the most")
    with under.servers.connect() as connection:
        print("\n".join(check.outcomes(connection)))


def told(counts: Counter[str]) -> str:
    """Return counts in words."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "nothing"


async def run(options: argparse.Namespace, guard: Guard, folder: Path, rng: random.Random) -> list[str]:
    """Return a line for each thing that is not as promised."""
    seconds, servers = options.minutes * 60, Servers(guard, folder)
    stubs, beat = Stubs(random.Random(rng.random())), pace(seconds)  # noqa: S311 -- a plan, not a secret
    await stubs.start()
    under = monitor(servers, guard, folder, rng, count=options.processes, stubs=stubs.port, pace=beat)
    await under.start()
    senders = Senders(under.ingesting, lambda: servers.kafka.bootstrap, folder / "journal.jsonl", rng)
    sending = asyncio.create_task(
        senders.run(seconds=seconds, rate=options.rate, bad=lambda app, after: beat.bad(APPS.index(app), after, rng))
    )
    await havoc(under, rng, seconds=seconds, kills=options.kills, jumps=options.jumps)
    print(f"{seconds:.0f} s are over; waiting until all is settled", flush=True)
    stubs.calm = True
    left = await settle(under, sending, seconds=options.settle * 60)
    with servers.connect() as connection:
        found = check.findings(
            connection,
            servers.url,
            senders.sent,
            acknowledged=senders.acknowledged,
            uncertain=senders.uncertain,
            deliveries=stubs.deliveries,
        )
    await asyncio.gather(*(under.stop(process) for process in under.processes))
    report(under, senders, stubs)
    await senders.close()
    await stubs.stop()
    refused = [f"answered {what} ({count} times)" for what, count in senders.refused.items()]
    logs = check.shortened(list(check.log_faults([process.log for process in under.processes])))
    if options.keep:
        keep(folder, options.keep)
    return [*left, *found, *under.faults, *refused, *logs]


def main() -> int:
    """Run, and say what broke."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10, help="(%(default)g)")
    parser.add_argument("--kills", type=int, default=100, help="(%(default)d)")
    parser.add_argument("--jumps", type=int, default=10, help="of clocks (%(default)d)")
    parser.add_argument("--processes", type=int, default=8, help="(%(default)d)")
    parser.add_argument("--rate", type=float, default=20, help="turns a second (%(default)g)")
    parser.add_argument("--settle", type=float, default=5, help="minutes until nothing may wait (%(default)g)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", type=Path, default=None, metavar="FOLDER", help="where logs are copied to")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    guard = Guard()
    try:
        with tempfile.TemporaryDirectory() as name:
            Path(name).chmod(0o755)
            found = asyncio.run(run(options, guard, Path(name), random.Random(seed)))  # noqa: S311
    finally:
        guard.close()
    print("\n".join(f"BROKEN: {line}" for line in found) or "all as promised")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
