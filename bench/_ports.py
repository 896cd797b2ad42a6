"""Ports of 127.0.0.1 for the servers that benches start."""

import random
import socket


def free_port() -> int:
    """Return a port that nothing listens on, below those that the kernel gives to outgoing connections."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port of 127.0.0.1 in 20000..31999 among 100 tried")


def accepts(port: int) -> bool:
    """Return whether something listens."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
