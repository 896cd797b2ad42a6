"""Peers' environments: one each under `.cache/peers`, since what they depend on does not fit together."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

PEERS = Path(__file__).parents[1] / ".cache" / "peers"


def executable(package: str, name: str) -> Path:
    """Return a command of a peer's environment."""
    return PEERS / package / "bin" / name


def install(peers: Mapping[str, Sequence[str]]) -> None:
    """Make the environments of `peers`: package -> what else has to be said to pip."""
    for package, besides in peers.items():
        subprocess.run([sys.executable, "-m", "venv", PEERS / package], check=True)
        command = [executable(package, "python"), "-m", "pip", "install", "--quiet", package, *besides]
        subprocess.run(command, check=True)
