"""Free TCP ports on 127.0.0.1."""

import random
import socket

# Below 32768 the kernel gives no port to an outgoing connection, so a server finds its port free after a restart.
_FIRST, _LAST = 20_000, 31_999


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listened on a moment ago, outside the kernel's ephemeral range."""
    for port in random.SystemRandom().sample(range(_FIRST, _LAST + 1), 100):
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"looking for a free port of 127.0.0.1 in {_FIRST}..{_LAST}: 100 tried, all taken")


def accepts(port: int) -> bool:
    """Whether something accepts connections on 127.0.0.1:`port`."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
