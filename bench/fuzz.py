"""Mutated requests against every decoder: none may raise what is not its own, hang, grow, or spoil the next request.

Seeds are recorded requests (RAG_MONITOR_SHARED, else ../shared; without them, the two of tests/golden/otlp).

    python bench/fuzz.py --bodies 100000
"""

import argparse
import asyncio
import base64
import ctypes
import gc
import gzip
import itertools
import json
import os
import random
import re
import resource
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import orjson
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp_http import collector as otlp_http
from monitor.assembly.join import join
from monitor.assembly.rules import reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.errors import Permanent
from monitor.judging import injection
from monitor.judging.coded.lex5 import GroundednessProxy, Lex5
from monitor.judging.needs import unmet
from monitor.judging.prompt_metric import load_all
from monitor.model.spans import Decoded, Fragment
from monitor.payloads.compression import unpacked
from monitor.payloads.otlp.fragments import Encoding, OtlpSignal, decode_otlp, split_otlp
from monitor.payloads.turn_records.fragments import decode_turns, turn_fragment
from monitor.runtime.build import load_dialects
from monitor.runtime.intake import Intake
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import IntakeSettings, SampleSettings, Settings
from monitor.stages.sample import decide
from monitor.store.sql_store import open_store

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
ROOT = Path(__file__).parents[1]
SHARED = Path(os.environ.get("RAG_MONITOR_SHARED") or ROOT.with_name("shared"))
LARGEST_SEED = 40_000
LARGEST_ODD = 6000
"""Bytes that one exchanged value adds at the most, about."""
MOST = 1024 * 1024
IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 -- it is not the disk that is looked at
PORTION = 5000
"""Bodies that one store in memory has to hold at once."""
SLOW_SECONDS = 1.0
SLOW_TURN_SECONDS = 0.25
"""What one request may take from its fragments to the prompts of its turns."""
GROWTH_MIB = 32
MOST_MEMORY = 3 * 1024**3
"""Address space of the whole run: a body that makes anything huge fails loudly and leaves others their memory."""
RULES = reading_rules(load_dialects(Settings(), PluginFailures()), hash_user=str)
ODD_NUMBERS = (0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, -(2**63) - 1, 1e308, 0.5, float("nan"), float("inf"))
ODD_TEXTS = ("", "\0", "\ud800", "é" * 3, "NaN", "null", "9" * 400, "-0", "0x1", "\ufeff", "a" * 5000)
HOSTILE = (
    "\n", " ", "[", "{", "(", '"', "'", "\\", '\\"', "[{'", '{"a":', "a", "9", "1. ", "A. ", "a@", "<a", "</", "- ",
    "? ", "Source: ", "[1]", "```\n", "\u5b57", "\u0e01", "Document(", "HumanMessage(content='", "page_content='",
    "Question: ", "ignore ", "\n\n", "|", "a=",
)  # fmt: skip
METRICS = load_all("answer", judge_name="none:none")
COMPUTED = (GroundednessProxy(),)
RUBRICS = tuple(metric.rubric for metric in (*METRICS, *COMPUTED))
PROXY = Lex5()
ODD_BYTES = (
    b"",
    b"\0",
    b"\xff" * 9 + b"\x7f",
    b"\x80" * 12,
    b"\x0a\xff\xff\xff\xff\x0f",
    b"{",
    b"[" * 5000,
    b'{"a":' * 3000,
    b"\xef\xbb\xbf",
)


@dataclass
class Decoder:
    """One way in."""

    name: str
    seeds: Sequence[bytes]
    mutate: Callable[[bytes, random.Random], bytes]
    read: Callable[[bytes], object]
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    slow_seconds: float = SLOW_SECONDS


def main() -> int:
    """Fuzz each decoder and return 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=2000, help="mutated bodies per decoder (%(default)d)")
    parser.add_argument("--seed", type=int, default=None, help="repeats an earlier run")
    parser.add_argument("--only", default="", help="decoders whose name holds this")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"{options.bodies} mutated bodies per decoder, seed {seed}")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    failed = 0
    for decoder in decoders():
        if options.only in decoder.name:
            failed += fuzz(decoder, options.bodies, random.Random(seed))  # noqa: S311 -- repeatable, no secret
    if options.only in "http":
        failed += asyncio.run(fuzz_http(options.bodies, random.Random(seed)))  # noqa: S311
    return int(failed > 0)


def decoders() -> Iterator[Decoder]:
    """Yield all but the one behind a socket."""
    good = seeds()
    protobuf, written = good.traces, good.traces_json
    yield Decoder("traces, protobuf", protobuf, mutated_bytes, lambda body: split(body, "traces", "protobuf"))
    yield Decoder("logs, protobuf", good.logs, mutated_bytes, lambda body: split(body, "logs", "protobuf"))
    yield Decoder("traces, JSON", written, mutated_json, lambda body: split(body, "traces", "json"))
    yield Decoder("logs, JSON", good.logs_json, mutated_json, lambda body: split(body, "logs", "json"))
    yield Decoder("traces, unlabelled", (*protobuf, *written), mutated_bytes, lambda body: split(body, "traces", None))
    yield Decoder("fragments", protobuf, mutated_bytes, lambda body: decode(fragment(body, "traces")))
    yield Decoder("assembly", protobuf, mutated_bytes, assembled)
    yield Decoder("whole turns", protobuf, hostile, judged, slow_seconds=SLOW_TURN_SECONDS)
    yield Decoder("turns", good.turns, mutated_json, imported)
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress), ("zstd", zstd.compress)):
        packed = [pack(body) for body in protobuf[:40]]
        yield Decoder(coding, packed, mutated_bytes, lambda body, coding=coding: unpacked(body, coding, most=MOST))


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Good bodies, of which the mutated ones are made; the first of each kind is the one that is read in between."""

    traces: tuple[bytes, ...]
    traces_json: tuple[bytes, ...]
    logs: tuple[bytes, ...]
    logs_json: tuple[bytes, ...]
    turns: tuple[bytes, ...]


def seeds() -> Seeds:
    """Return what is recorded, and what the repository has: enough of each kind where nothing is recorded."""
    golden = ROOT / "tests" / "golden" / "otlp"
    recorded = [path for path in sorted(SHARED.glob("captures/*/*.pb")) if path.stat().st_size < LARGEST_SEED]
    traces = [path.read_bytes() for path in recorded if not path.name.endswith(".logs.pb")]
    logs = [path.read_bytes() for path in recorded if path.name.endswith(".logs.pb")]
    written = [path.with_suffix(".json").read_bytes() for path in recorded if path.with_suffix(".json").exists()]
    turns: list[bytes] = []
    for path in sorted(SHARED.glob("data/core_*_seed_format.jsonl")):
        with path.open("rb") as lines:
            turns += itertools.islice(lines, 100)
    turns += [
        b'{"userText": "a", "dataList": [{"text": "b"}], "responseContent": "c"}',
        b'{"query": "a", "response": "b"}',
    ]
    pb = (golden / "turn.pb").read_bytes()
    return Seeds(
        traces=(*traces, pb),
        traces_json=(
            *written,
            (golden / "turn.json").read_bytes(),
            otlp_json(ExportTraceServiceRequest.FromString(pb)),
        ),
        logs=(*logs, logs_of(pb).SerializeToString()),
        logs_json=(otlp_json(logs_of(pb)),),
        turns=tuple(turns),
    )


def otlp_json(request: Message) -> bytes:
    """Return a request as OTLP/JSON, whose ids are hexadecimal: protobuf's own JSON would write them in base 64."""

    def id_of(found: re.Match[str]) -> str:
        return f'"{found[1]}": "{base64.b64decode(found[2]).hex()}"'

    return re.sub(r'"((?:trace|span|parentSpan)Id)": "([^"]*)"', id_of, json.dumps(MessageToDict(request))).encode()


def logs_of(traces: bytes) -> ExportLogsServiceRequest:
    """Return a request with a log record for each span of a request of traces: its name and its attributes."""
    request = ExportLogsServiceRequest()
    for sender in ExportTraceServiceRequest.FromString(traces).resource_spans:
        logs = request.resource_logs.add(resource=sender.resource)
        for scope in sender.scope_spans:
            records = logs.scope_logs.add(scope=scope.scope).log_records
            for span in scope.spans:
                record = records.add(trace_id=span.trace_id, span_id=span.span_id, attributes=span.attributes)
                record.time_unix_nano, record.body.string_value = span.start_time_unix_nano, span.name
    return request


def fuzz(decoder: Decoder, bodies: int, rng: random.Random) -> int:
    """Return 1 when the decoder failed, and print what came of it."""
    good = decoder.seeds[0]
    expected = decoder.read(good)
    began, resident = time.perf_counter(), 0.0
    for number in range(bodies):
        body = decoder.mutate(rng.choice(decoder.seeds), rng)
        at = time.thread_time()
        try:
            decoder.read(body)
            decoder.outcomes["read"] += 1
        except Permanent as error:
            decoder.outcomes[error.reason] += 1
        except Exception:  # noqa: BLE001 -- what is looked for
            return failure(decoder.name, body, traceback.format_exc())
        took = time.thread_time() - at
        if took > decoder.slow_seconds:  # once more: what runs once, or a collection of garbage, is not the body's
            took = min(took, seconds_again(decoder, body))
        decoder.slowest = max(decoder.slowest, took)
        if took > decoder.slow_seconds:
            return failure(decoder.name, body, f"took {took:.1f} s")
        if number % 500 == 0 and decoder.read(good) != expected:
            return failure(decoder.name, body, "the next good request reads otherwise")
        if number == bodies // 10:
            resident = resident_mib()
    grown = resident_mib() - resident
    told(decoder.name, bodies, decoder.outcomes, slowest=decoder.slowest, grown=grown, took=time.perf_counter() - began)
    return failure(decoder.name, b"", f"grew by {grown:.0f} MiB") if grown > GROWTH_MIB else 0


def seconds_again(decoder: Decoder, body: bytes) -> float:
    """Return the CPU seconds of reading a body that was read before."""
    at = time.thread_time()
    with suppress(Permanent):
        decoder.read(body)
    return time.thread_time() - at


def told(name: str, bodies: int, outcomes: Mapping[str, int], *, slowest: float, grown: float, took: float) -> None:
    """Print one line."""
    counts = ", ".join(f"{outcome} {count:,}" for outcome, count in Counter(outcomes).most_common(6))
    print(
        f"{name:18} {bodies:,} bodies, {took:4.0f} s, slowest {1000 * slowest:4.0f} ms, {grown:+4.0f} MiB: {counts}",
        flush=True,
    )


def failure(name: str, body: bytes, why: str) -> int:
    """Keep the body for a closer look, and print why; return 1."""
    with tempfile.NamedTemporaryFile(prefix="fuzz-", delete=False) as kept:
        kept.write(body)
    print(f"{name}: FAILED on the body in {kept.name}\n{why}", flush=True)
    return 1


def resident_mib() -> float:
    """Return how much memory the process holds that is in use, as near as the C library's allocator can tell.

    What a large body leaves free inside the allocator is no growth: without giving it back first, 60,000 turns are
    seen at 128 or at 170 MiB, whichever the last one left, with the same number of objects alive.
    """
    gc.collect()
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library than glibc
            ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def split(body: bytes, signal: OtlpSignal, encoding: Encoding | None) -> list[Decoded]:
    """Split a request and read all that it holds; what was accepted must be readable."""
    found = split_otlp(body, signal, received_at=NOW, encoding=encoding)
    read = [decode(one) for one in found.fragments]
    assert found.accepted == sum(len(one.spans) + len(one.logs) for one in read)
    return read


def decode(one: Fragment) -> Decoded:
    """Read a fragment, and see that nothing in it is what databases and JSON refuse."""
    read = decode_otlp(one)
    assert "\0" not in repr([(span.name, span.attributes, span.events) for span in read.spans])
    return read


def fragment(payload: bytes, signal: OtlpSignal) -> Fragment:
    """Return a fragment as a broken database might hold it."""
    return Fragment(trace_id="0" * 32, signal=signal, payload=payload, count=1, received_at=NOW, digest=b"")


def assembled(body: bytes) -> list[object]:
    """Make turns of a request, through every dialect."""
    found = split_otlp(body, "traces", received_at=NOW, encoding="protobuf")
    return [read_trace(join(one.trace_id, [decode_otlp(one)]), RULES) for one in found.fragments]


def judged(body: bytes) -> list[object]:
    """Go with a request as far as to what a judge would be asked: assemble, sample with the cheap score, prompts."""
    prompts: list[object] = []
    for kept in split_otlp(body, "traces", received_at=NOW, encoding="protobuf").fragments:
        for turn in read_trace(join(kept.trace_id, [decode_otlp(kept)]), RULES).assembly.turns:
            prompts.append(decide(turn, RUBRICS, settings=SampleSettings(), proxy=PROXY, now=NOW))
            prompts += [metric.messages(turn) for metric in METRICS if unmet(turn, metric.rubric) is None]
            prompts += [metric.read(turn, None) for metric in COMPUTED if unmet(turn, metric.rubric) is None]
            prompts.append(injection.flags(turn))
    return prompts


def hostile(body: bytes, rng: random.Random) -> bytes:
    """Return the request with some of its texts exchanged for what patterns stumble over, or with changed bytes."""
    if rng.random() < 0.3:
        return mutated_bytes(body, rng)
    request = ExportTraceServiceRequest.FromString(body)
    values = [
        attribute.value
        for sender in request.resource_spans
        for scope in sender.scope_spans
        for span in scope.spans
        for attribute in span.attributes
        if attribute.value.HasField("string_value")
    ]
    for value in rng.sample(values, k=min(len(values), rng.choice((1, 2, 4)))):
        text, at = value.string_value, rng.randrange(len(value.string_value) + 1)
        value.string_value = text[:at] + rng.choice(HOSTILE) * rng.choice((3, 300, 5000)) + rng.choice((text[at:], ""))
    return request.SerializeToString()


def imported(body: bytes) -> Decoded:
    """Read one line as turns; what was accepted must be readable."""
    kept = turn_fragment(body, origin="fuzz:1", app="fuzz", received_at=NOW)
    read = decode_turns(kept)
    assert read.turns
    return read


def mutated_bytes(body: bytes, rng: random.Random) -> bytes:
    """Return the body with one to six places changed, copied, cut, swapped or filled with what parsers stumble over."""
    out = bytearray(body)
    for _ in range(rng.choice((1, 1, 2, 3, 6))):
        at, to = sorted((rng.randrange(len(out) + 1), rng.randrange(len(out) + 1)))
        match rng.randrange(8):
            case 0 if out:
                out[min(at, len(out) - 1)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[min(at, len(out) - 1)] = rng.randrange(256)
            case 2:
                out[at:at] = rng.choice(ODD_BYTES)
            case 3:
                del out[at : at + rng.choice((1, 4, 100, 10_000))]
            case 4:
                del out[to:]
            case 5:
                out[at:at] = out[at : min(to, at + 2000)]
            case 6:
                out[at : at + 8] = rng.randbytes(8)
            case _:
                out[at:to] = out[at:to][::-1] if rng.random() < 0.1 else out[at:to]
    return bytes(out)


def mutated_json(body: bytes, rng: random.Random) -> bytes:
    """Return JSON whose values were exchanged for odd ones, or whose bytes were changed."""
    if rng.random() < 0.3:
        return mutated_bytes(body, rng)
    tree = orjson.loads(body)
    size, copies = len(body), 1
    for _ in range(rng.choice((1, 1, 2, 5))):
        owner, key = random_place(tree, rng)
        if owner is None:
            break
        match rng.randrange(6):
            case 0:
                owner[key] = rng.choice(ODD_NUMBERS)
            case 1:
                owner[key] = rng.choice(ODD_TEXTS)
            case 2:
                owner[key] = rng.choice((None, True, [], {}, [None], {"": None}, [[[]]]))
            case 3:
                owner[key] = nested(rng.choice((5, 40, 150)), rng)
            case 4 if isinstance(owner, dict):
                owner[rng.choice(ODD_TEXTS)] = owner.pop(key)
            case _:
                # Copies of copies would be gigabytes to write out; how long a large body takes is known, no finding.
                times = min(rng.choice((1, 2, 50)), max(1, MOST // size))
                owner[key] = [owner[key]] * times
                size, copies = size * times, copies * times
        size += copies * LARGEST_ODD
    return as_json(tree, rng)


def as_json(tree: object, rng: random.Random) -> bytes:
    """Return a tree as text: mostly by orjson, which is quick; else by the standard library, which writes anything."""
    if rng.random() < 0.7:
        with suppress(TypeError):  # a number or text that JSON has no place for
            return orjson.dumps(tree)
    return json.dumps(tree, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def random_place(tree: object, rng: random.Random) -> tuple[dict | list | None, str | int]:
    """Return a container somewhere in `tree`, and a key of it."""
    owner, key, node = None, "", tree
    while isinstance(node, dict | list) and node and (owner is None or rng.random() < 0.85):
        owner = node
        key = rng.choice(list(node)) if isinstance(node, dict) else rng.randrange(len(node))
        node = node[key]
    return owner, key


def nested(depth: int, rng: random.Random) -> object:
    """Return a value in a value in a value, as OTLP writes them."""
    value: object = {"stringValue": "x"}
    for _ in range(depth):
        value = (
            {"arrayValue": {"values": [value]}}
            if rng.random() < 0.5
            else {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        )
    return value


def mutated_requests(rng: random.Random) -> Iterator[tuple[bytes, bytes]]:
    """Yield heads and bodies of requests without end; some compressed, some of logs."""
    good = seeds()
    while True:
        as_text = rng.random() < 0.5
        mutate, pool = (mutated_json, good.traces_json) if as_text else (mutated_bytes, good.traces)
        body = mutate(rng.choice(pool), rng)
        packed = rng.random() < 0.2
        head = request_head("traces" if rng.random() < 0.8 else "logs", "json" if as_text else "x-protobuf")
        yield head + (b"Content-Encoding: gzip\r\n" if packed else b""), gzip.compress(body, 1) if packed else body


def request_head(signal: str, kind: str) -> bytes:
    """Return the head of a request but for its end."""
    return f"POST /v1/{signal} HTTP/1.1\r\nHost: x\r\nContent-Type: application/{kind}\r\n".encode()


async def fuzz_http(bodies: int, rng: random.Random) -> int:
    """Send mutated bodies to a real collector over kept connections; it must answer each, and a good one after them."""
    outcomes, slowest, began, resident, done = Counter(), 0.0, time.perf_counter(), 0.0, 0
    requests = mutated_requests(rng)
    while done < bodies:
        portion = min(PORTION, bodies - done)
        took, failed = await fuzz_collector(itertools.islice(requests, portion), outcomes)
        if failed:
            return failed
        slowest, done = max(slowest, took), done + portion
        if done <= max(PORTION, bodies // 10):
            resident = resident_mib()
    grown = resident_mib() - resident
    told("http", bodies, outcomes, slowest=slowest, grown=grown, took=time.perf_counter() - began)
    return failure("http", b"", f"grew by {grown:.0f} MiB") if grown > GROWTH_MIB else 0


async def fuzz_collector(requests: Iterable[tuple[bytes, bytes]], outcomes: Counter[str]) -> tuple[float, int]:
    """Return what CPU time the slowest of the requests took, and 1 when one was not answered as it must be, else 0."""
    good, slowest = seeds().traces[0], 0.0
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        store = open_store(f"sqlite:///{folder}/fuzz.db")
        async with (
            Intake(store, IntakeSettings()) as intake,
            otlp_http.build(otlp_http.Config(port=0), intake, lambda: datetime.now(UTC)) as collector,
        ):
            reader, writer = await asyncio.open_connection(*collector.address)
            for head, body in itertools.chain(requests, [(request_head("traces", "x-protobuf"), good)]):
                at = time.process_time()
                writer.write(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body))
                status = await answered(reader)
                took = time.process_time() - at
                slowest = max(slowest, took)
                outcomes[str(status)] += 1
                if took > SLOW_SECONDS:
                    return slowest, failure("http", body, f"took {took:.1f} s")
                if status not in {200, 400, 413} or (status != 200 and body is good):
                    return slowest, failure("http", body, f"answered {status} to {head.decode()}")
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        store.close()
    return slowest, 0


async def answered(reader: asyncio.StreamReader) -> int:
    """Read one reply and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0])
    await reader.readexactly(length)
    return int(head.split()[1])


if __name__ == "__main__":
    sys.exit(main())
