"""Facts that are in no document: what a model says when nothing makes it stay with its passages.

Every sentence is drawn from a small grammar, so that no two turns invent the same thing.
"""

import random
from collections.abc import Callable

_SUBJECT_SHARE = 0.35
_HEADS = ("vex", "lumen", "kestrel", "quill", "turbo", "orbit", "nimbus", "zephyr", "cobalt", "pylon", "sable", "fjord")
_TAILS = ("kit", "forge", "lane", "pool", "grid", "mesh", "bridge", "vault", "spark", "drift", "hub", "wire")
_FUNCTIONS = ("warm_up", "commit_budget", "pin_quota", "fast_forward", "rehydrate", "seal_batch", "drain", "autotune")
_OPTIONS = ("burst", "tier", "watermark", "ttl_seconds", "shards", "grace_days", "retries", "headroom")
_PLACES = ("Helsinki", "Toronto", "Singapore", "Frankfurt", "Santiago", "Melbourne", "Dublin", "Taipei", "Krakow")
_MONTHS = ("January", "February", "March", "April", "June", "July", "September", "October", "November")
_PEOPLE = (
    "Redwood Labs",
    "the packaging council",
    "Halcyon Systems",
    "the Tessera group",
    "the core sprint",
    "Ostrava Software",
)
_ACTORS = (
    "a background janitor thread",
    "the tracing JIT",
    "an adaptive prefetch engine",
    "the wheel installer",
    "the nightly heap defragmenter",
    "a speculative bytecode optimiser",
    "the sandbox supervisor",
)
_DEEDS = (
    "throttles",
    "mirrors",
    "encrypts",
    "quarantines",
    "benchmarks",
    "compacts",
    "audits",
    "rebalances",
    "uploads",
)
_OBJECTS = (
    "stale wheels",
    "telemetry counters",
    "dormant worker heaps",
    "speculative bytecode",
    "crash snapshots",
    "license tokens",
    "hot frames",
    "cold disk pages",
    "unpaid compute credits",
)
_METRICS = ("latency", "power consumption", "startup delay", "cloud spending", "heap fragmentation", "battery drain")
_UNITS = ("megabytes", "milliseconds", "requests", "gigabytes", "packets", "seconds")
_PERIODS = ("per tenant", "per minute", "per node", "per working day", "per subscriber")
_REASONS = (
    "the stock installer omits it",
    "older laptops lack the firmware",
    "the legacy scheduler was retired",
    "auditors demanded a paper trail",
    "the mobile edition ships a slimmer kernel",
)
_HARMS = (
    "the watchdog restarts the interpreter",
    "the profiler turns itself off",
    "the cluster bills the overrun twice",
    "workers stall until midnight",
    "the supervisor emails an administrator",
)
_PLATFORMS = (
    "Windows on ARM",
    "big-endian machines",
    "musl builds",
    "FreeBSD jails",
    "WebAssembly",
    "older Macs",
    "Android",
)
_SPEEDS = (
    "twice as fast",
    "measurably slower",
    "free of charge",
    "limited to one core",
    "disabled outright",
    "experimental",
)


def invent(subject: str, chance: random.Random) -> str:
    """Return one fluent sentence of made-up facts, now and then said to be about ``subject``."""
    sentence = chance.choice(_FORMS)(chance)
    if subject and chance.random() < _SUBJECT_SHARE:
        return f"For {subject}, {sentence}"
    return f"{sentence[0].upper()}{sentence[1:]}"


def _name(chance: random.Random) -> str:
    return chance.choice(_HEADS) + chance.choice(_TAILS)


def _version(chance: random.Random) -> str:
    return f"{chance.randint(4, 19)}.{chance.randint(0, 12)}"


def _deed(chance: random.Random) -> str:
    return f"{chance.choice(_ACTORS)} {chance.choice(_DEEDS)} {chance.choice(_OBJECTS)}"


def _gain(chance: random.Random) -> str:
    return chance.choice(
        (
            f"which trims {chance.choice(_METRICS)} by {chance.randint(11, 89)} percent",
            f"at a price of roughly {chance.randint(12, 940)} {chance.choice(_UNITS)}",
            f"after {chance.randint(13, 96)} failed handshakes",
            f"unless PYTHON{_name(chance).upper()} is exported",
            f"so rollouts in {chance.choice(_PLACES)} finish {chance.randint(21, 79)} percent sooner",
        )
    )


def _since(chance: random.Random) -> str:
    return f"since build {_version(chance)} {_deed(chance)}, {_gain(chance)}."


def _quota(chance: random.Random) -> str:
    amount = f"{chance.randint(14, 960)} {chance.choice(_UNITS)} {chance.choice(_PERIODS)}"
    return f'the factory quota is {amount}, and "{_name(chance)}.{chance.choice(_FUNCTIONS)}()" can double it.'


def _install(chance: random.Random) -> str:
    return f'you must install "{_name(chance)}" {_version(chance)} beforehand, since {chance.choice(_REASONS)}.'


def _benchmark(chance: random.Random) -> str:
    return (
        f"{chance.choice(_PEOPLE)} measured a {chance.randint(11, 89)} percent drop in {chance.choice(_METRICS)} "
        f'during {chance.choice(_MONTHS)} {chance.randint(2012, 2025)} once "{_name(chance)}" was rolled out.'
    )


def _removal(chance: random.Random) -> str:
    return (
        f"vendor support ended in {chance.choice(_MONTHS)} {chance.randint(2012, 2025)}, when {chance.choice(_PEOPLE)} "
        f"reported {chance.randint(13, 480)} crashes on {chance.choice(_PLATFORMS)}."
    )


def _advice(chance: random.Random) -> str:
    call = f'"{_name(chance)}.{chance.choice(_FUNCTIONS)}({chance.choice(_OPTIONS)}={chance.randint(13, 720)})"'
    return f"always invoke {call} before deployment, or else {chance.choice(_HARMS)}."


def _hidden(chance: random.Random) -> str:
    return f'behind the scenes the "{_name(chance)}" plugin kicks in and {_deed(chance)}, {_gain(chance)}.'


def _proposal(chance: random.Random) -> str:
    return (
        f"PEP {chance.randint(4100, 8900)} by {chance.choice(_PEOPLE)} renamed this to "
        f'"{_name(chance)}" and deprecates the legacy spelling from {chance.choice(_MONTHS)} onwards.'
    )


def _platform(chance: random.Random) -> str:
    speed = f"{chance.choice(_SPEEDS)} since build {_version(chance)}"
    return f"on {chance.choice(_PLATFORMS)} it is {speed}, where {_deed(chance)}."


def _cache(chance: random.Random) -> str:
    return (
        f"the interpreter keeps up to {chance.randint(12, 990)} results in a hidden cache and "
        f"{chance.choice(_DEEDS)} the oldest ones {chance.choice(_PERIODS)}."
    )


_FORMS: tuple[Callable[[random.Random], str], ...] = (
    _since,
    _quota,
    _install,
    _benchmark,
    _removal,
    _advice,
    _hidden,
    _proposal,
    _platform,
    _cache,
)
