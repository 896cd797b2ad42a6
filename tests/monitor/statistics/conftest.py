"""Recorded figures of an independent implementation."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[2] / "golden" / "statistics.json"


@pytest.fixture(scope="session")
def golden() -> dict[str, Any]:
    """Return the recorded figures, each with its input."""
    return json.loads(GOLDEN.read_text())


@pytest.fixture
def rng() -> random.Random:
    """Return the same randomness in every run."""
    return random.Random(20260101)  # noqa: S311 - simulated turns are no secret
