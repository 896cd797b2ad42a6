"""A chat about the Python language reference, traced with OpenTelemetry: one question, or days of simulated users."""

import argparse
import os
import random
import sys
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import corpus
from chat import Chat, Release
from questions import QuestionBook
from retriever import Retriever, RetrieverError
from simulate import Channels, ParentGoneError, simulate
from tracing import ExportError, Telemetry
from traffic import Moments, Scenario, Turn, turns

_ENDPOINT = "http://127.0.0.1:4318/v1/traces"
_BEFORE, _AFTER = "1.4.0", "2.0.0"
# Three of four inventions of the broken release follow a broken retrieval; one of ten other turns has one as well.
_MISRETRIEVES, _MISSES = 0.75, 0.1
_INTERRUPTED = 130
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def main() -> int:
    """Return the exit status: 0 when every span was accepted, 1 when something failed. Wrong arguments exit with 2."""
    options = _parser().parse_args()
    _bypass_proxies(options.endpoint or _ENDPOINT)
    try:
        with ExitStack() as stack:
            passages = corpus.load()
            retriever = stack.enter_context(closing(Retriever(passages)))
            chat = Chat(passages, retriever)
            if options.ask:
                _ask(options, chat, stack)
            else:
                _simulate(options, chat, QuestionBook(passages), stack)
    except (corpus.CorpusError, RetrieverError, ExportError, ParentGoneError, OSError) as error:
        print(f"chat_app: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _ask(options: argparse.Namespace, chat: Chat, stack: ExitStack) -> None:
    chance = random.Random()
    release = Release(_BEFORE, invents=0, misretrieves=0, misses=0)
    asked = datetime.now(UTC)
    finding = chat.retrieve(options.ask, (), release, chance)
    retrieved = datetime.now(UTC)
    reply = chat.answer(options.ask, (), finding, chance)
    answered = datetime.now(UTC)
    print(reply.text)
    for hit in finding.hits:
        if hit.passage.id in reply.cited:
            print(f"[{hit.passage.id}] {hit.passage.title}")
    if options.endpoint:
        moments = Moments(asked, asked, retrieved, answered)
        turn = Turn(
            f"{chance.getrandbits(64):016x}", "user-live", 1, options.ask, (), release, finding, reply, moments, None
        )
        telemetry = stack.enter_context(closing(Telemetry(options.endpoint, chance)))
        telemetry.write(turn)
        telemetry.flush()


def _simulate(options: argparse.Namespace, chat: Chat, book: QuestionBook, stack: ExitStack) -> None:
    span = timedelta(days=options.days)
    start = options.start or datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - span
    scenario = Scenario(
        start=start,
        end=start + span,
        turns_per_hour=options.turns_per_hour,
        released_at=start + span * options.release_at,
        before=Release(_BEFORE, invents=options.healthy_rate, misretrieves=0, misses=0),
        after=Release(_AFTER, invents=options.broken_rate, misretrieves=_MISRETRIEVES, misses=_MISSES),
    )
    telemetry = stack.enter_context(
        closing(Telemetry(options.endpoint or _ENDPOINT, random.Random(f"ids {options.seed}")))
    )
    channels = Channels(
        progress=sys.stdout,
        truth=stack.enter_context(options.truth.open("w", encoding="utf-8")) if options.truth else None,
        steps=sys.stdin if options.step else None,
    )
    simulate(
        turns(scenario, chat, book, random.Random(options.seed)),
        telemetry,
        channels,
        start=scenario.start,
        end=scenario.end,
        stretch=timedelta(hours=options.stretch_hours),
    )


def _bypass_proxies(endpoint: str) -> None:
    # The exporter sends even loopback traffic to HTTP_PROXY, where nobody can reach this machine's receiver.
    host = urlsplit(endpoint).hostname or ""
    if host in _LOOPBACK:
        for name in ("no_proxy", "NO_PROXY"):
            os.environ[name] = ",".join(filter(None, (os.environ.get(name), host)))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="chat_app", description=__doc__)
    add = parser.add_argument
    add("--ask", metavar="QUESTION", help="answer one question now; its trace is exported if --endpoint is given")
    add("--endpoint", type=_url, help=f"OTLP/HTTP URL for traces (simulated traffic: {_ENDPOINT})")
    add("--days", type=_positive, default=8.0, help="length of the simulated traffic (%(default)g)")
    add("--turns-per-hour", type=_positive, default=20.0, help="mean over a day (%(default)g)")
    add("--start", type=_moment, help="first moment, such as 2026-01-31T00:00:00Z (default: so that it ends this hour)")
    add(
        "--release-at",
        type=_share,
        default=0.5,
        help=f"share of the time after which {_AFTER} goes out; 1: never (%(default)g)",
    )
    add(
        "--healthy-rate",
        type=_share,
        default=0.04,
        help=f"share of answers that {_BEFORE} invents facts in (%(default)g)",
    )
    add(
        "--broken-rate",
        type=_share,
        default=0.28,
        help=f"share of answers that {_AFTER} invents facts in (%(default)g)",
    )
    add("--seed", type=int, default=1, help="the same seed and start give the same spans (%(default)d)")
    add("--truth", type=Path, metavar="PATH", help="write one JSON line per turn: was it a defect, and why")
    add(
        "--stretch-hours",
        type=_positive,
        default=1.0,
        help="simulated time between two lines of progress (%(default)g)",
    )
    add(
        "--step", action="store_true", help="wait for a line on standard input after each line of progress but the last"
    )
    return parser


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"found {text}, allowed is a number above 0")
    return value


def _share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"found {text}, allowed is a number from 0 to 1")
    return value


def _moment(text: str) -> datetime:
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise argparse.ArgumentTypeError(f"found {text}, allowed is a time with its zone, such as 2026-01-31T00:00:00Z")
    return value.astimezone(UTC)


def _url(text: str) -> str:
    if urlsplit(text).scheme not in ("http", "https"):
        raise argparse.ArgumentTypeError(f"found {text}, allowed is an http or https URL such as {_ENDPOINT}")
    return text


if __name__ == "__main__":
    sys.exit(main())
