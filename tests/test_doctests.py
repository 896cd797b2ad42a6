"""The examples in docstrings are numbers and texts to hold."""

import doctest
import importlib
import pkgutil

import pytest

import collectors
import monitor

MODULES = [
    module.name
    for package in (monitor, collectors)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if ".migrations" not in module.name
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    """What the docstrings of a module show is what happens."""
    assert 0 == doctest.testmod(importlib.import_module(name)).failed


def test_there_are_examples() -> None:
    """The examples are found: intervals alone has at least four."""
    assert 4 <= doctest.testmod(importlib.import_module("monitor.statistics.intervals")).attempted
