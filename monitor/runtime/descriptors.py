"""How many files and connections the process may have open."""

from __future__ import annotations

import logging
import resource

log = logging.getLogger(__name__)

_ENOUGH = 65536
"""Where nothing bounds it, programs that are started from here may take minutes to close all that could be open."""


def raise_descriptor_limit() -> None:
    """Let this process open as many files and connections as it may by itself; shells often give only 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as error:
        log.warning("%d files and connections may be open at once, and it cannot be raised: %s", soft, error)
