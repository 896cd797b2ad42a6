"""Forked processes: what a child must not inherit is given back before, and what it must not use is forgotten after."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Forking(Protocol):
    """Has something that must not go through a fork as it is."""

    def before_fork(self) -> None:
        """Leave nothing open that a child must not inherit."""

    def after_fork_in_parent(self) -> None:
        """Go on."""

    def after_fork_in_child(self) -> None:
        """Begin anew, without touching what was inherited."""


def follow_forks(forking: Forking) -> None:
    """Call its three methods at every fork of this process, as long as it lives."""
    # Hooks cannot be taken back; they must not keep alive what they call.
    weak = weakref.ref(forking)

    def before() -> None:
        if alive := weak():
            alive.before_fork()

    def in_parent() -> None:
        if alive := weak():
            alive.after_fork_in_parent()

    def in_child() -> None:
        if alive := weak():
            alive.after_fork_in_child()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=in_parent, after_in_child=in_child)
