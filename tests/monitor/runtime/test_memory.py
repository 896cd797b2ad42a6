"""What the process holds of the machine's memory."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FREED = """
import asyncio, os
from datetime import timedelta
from monitor.runtime.memory import giving_back

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

async def main():
    loop = asyncio.get_running_loop()
    before = resident()
    pieces = [bytes(10_000) for _ in range(10_000)]
    kept = pieces[::50]
    assert resident() > before + 80_000_000
    del pieces
    assert resident() > before + 80_000_000, "freed without our doing"
    async with giving_back(every=timedelta(milliseconds=50)):
        async with asyncio.timeout(20):
            while resident() > before + 20_000_000:
                await asyncio.sleep(0.02)

asyncio.run(main())
"""
LOADED = """
import sys
import monitor.cli.main
heavy = ("openai", "aiohttp", "httpx2", "grafana_client", "niquests", "kafka", "grpc")
print([name for name in heavy if name in sys.modules])
"""


def run(program: str) -> str:
    """Return what a program of its own prints."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_memory_freed_between_pieces_in_use() -> None:
    """What was freed goes back to the system although pieces between it are still in use."""
    assert run(FREED) == ""


def test_libraries_of_parts_that_are_not_configured() -> None:
    """The command loads no library of a judge, of Grafana or of a collector before the settings ask for it."""
    assert run(LOADED) == "[]"
