"""Kinds become modules."""

import pytest

from monitor.errors import ConfigError
from monitor.plugins import kinds, load


def test_kinds_are_the_public_files() -> None:
    """A folder is a kind of collector and a file one of channel; a leading underscore is none, nor a file beside."""
    assert ("file", "kafka", "otlp_grpc", "otlp_http") == kinds("collectors")
    assert ("webhook",) == kinds("channels")


def test_unknown_kind_lists_the_known_ones() -> None:
    """The error names the key path, what was found and what is allowed."""
    with pytest.raises(
        ConfigError, match=r"^collectors\[1\]\.kind: no collector 'otlp'; known: .*otlp_grpc, otlp_http"
    ):
        load("collectors", "otlp", "collectors[1].kind")
