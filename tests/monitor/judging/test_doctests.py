"""The examples in the docstrings of judging."""

import doctest
import importlib
import pkgutil

import pytest

import monitor.judging

_MODULES = sorted(module.name for module in pkgutil.iter_modules(monitor.judging.__path__))


@pytest.mark.parametrize("name", _MODULES)
def test_examples(name: str) -> None:
    """Every example in a docstring gives what it says."""
    assert 0 == doctest.testmod(importlib.import_module(f"monitor.judging.{name}")).failed
