"""The numbers in docstrings are the numbers that come out."""

import doctest
import importlib
import pkgutil

import pytest

import monitor.statistics

MODULES = [module.name for module in pkgutil.iter_modules(monitor.statistics.__path__, "monitor.statistics.")]


@pytest.mark.parametrize("name", MODULES)
def test_docstring_numbers(name: str) -> None:
    """Every example in the module's docstrings prints what stands below it."""
    outcome = doctest.testmod(importlib.import_module(name), raise_on_error=False)
    assert outcome.failed == 0


def test_there_are_docstring_numbers() -> None:
    """The examples are found: intervals alone has at least five."""
    outcome = doctest.testmod(importlib.import_module("monitor.statistics.intervals"))
    assert outcome.attempted >= 5
