"""One kind of attack in a process of its own; prints how many connections it made.

usage: _hostile_attack.py NAME PORT SECONDS CONNECTIONS_PER_SECOND SOURCE...
"""

import asyncio
import resource
import sys
import time

import uvloop
from _hostile_http import ATTACKS as HTTP
from _hostile_http2 import ATTACKS as HTTP2
from _hostile_link import attack
from _hostile_tls import ATTACKS as TLS

ATTACKS = HTTP | HTTP2 | TLS


async def main(name: str, port: int, seconds: float, per_second: float, sources: list[str]) -> None:
    """Attack."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
    tally = await attack(ATTACKS[name], port, sources, time.monotonic() + seconds, per_second=per_second)
    print(tally.made, tally.failed)


if __name__ == "__main__":
    name_, port_, seconds_, rate, *addresses = sys.argv[1:]
    uvloop.run(main(name_, int(port_), float(seconds_), float(rate), addresses))
