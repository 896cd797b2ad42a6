"""How many files the process may open."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from monitor.runtime.descriptors import raise_descriptor_limit


@pytest.fixture
def hard() -> Iterator[int]:
    """What this process may have, of which it has 256; as before afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    yield before[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limit_is_raised(hard: int) -> None:
    """A shell's small limit becomes what the system allows, up to 65,536; one that is larger stays."""
    raise_descriptor_limit()
    soft, still_hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard == still_hard
    assert soft == (65536 if hard == resource.RLIM_INFINITY else min(hard, 65536))
    raise_descriptor_limit()
    assert soft == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
