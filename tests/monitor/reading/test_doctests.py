"""Examples in docstrings are numbers to hold."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize(
    "name", ["attributes", "documents", "excerpts", "failure", "identity", "json_text", "literals", "payload", "reprs"]
)
def test_examples_hold(name: str) -> None:
    """What the docstrings show is what happens."""
    assert 0 == doctest.testmod(importlib.import_module(f"monitor.reading.{name}")).failed
