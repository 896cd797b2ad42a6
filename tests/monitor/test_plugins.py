"""Kinds become modules."""

import pytest

from monitor.errors import ConfigError
from monitor.plugins import kinds, load


def test_kinds_are_the_public_files() -> None:
    """A file or folder is a kind; a leading underscore is not."""
    known = kinds("collectors")
    assert {"file", "otlp_http", "otlp_grpc"} <= set(known)
    assert not [kind for kind in known if kind.startswith("_")]


def test_unknown_kind_lists_the_known_ones() -> None:
    """The error names the key path, what was found and what is allowed."""
    with pytest.raises(
        ConfigError, match=r"^collectors\[1\]\.kind: no collector 'otlp'; known: .*otlp_grpc, otlp_http"
    ):
        load("collectors", "otlp", "collectors[1].kind")
