"""The exporters' former place names the present one."""

import importlib

import pytest

from monitor.exporter import exporters


@pytest.mark.parametrize("name", ["RagMonitorSpanExporter", "RagMonitorLogExporter"])
def test_former_import(name: str) -> None:
    """Importing an exporter from where it was says where it is; there it can be imported."""
    with pytest.raises(ImportError, match=rf"^{name} has moved: from monitor\.exporter\.exporters import {name}$"):
        exec(f"from collectors.exporter import {name}", {})  # noqa: S102 -- the very line that apps have
    assert hasattr(exporters, name)


def test_other_names() -> None:
    """Other names are missing as in any module."""
    assert not hasattr(importlib.import_module("collectors.exporter"), "SpanExporter")
