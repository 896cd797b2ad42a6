"""The seccomp filter of a container without capabilities, as RuntimeDefault gives it, compiled for this machine."""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes.util import find_library
from pathlib import Path

_ALLOWED = Path(__file__).with_name("seccomp_allowed.txt")
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
"""SCMP_ACT_ALLOW and SCMP_ACT_ERRNO(0) of libseccomp's seccomp.h."""


def library() -> str | None:
    """The name of libseccomp; None where it is not installed."""
    return find_library("seccomp")


def write_filter(path: Path, name: str) -> None:
    """Write the program that `bwrap --seccomp` reads, by the library `name`: what is not allowed ends with EPERM."""
    seccomp = ctypes.CDLL(name)
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(seccomp.seccomp_init(_ERRNO | errno.EPERM))
    lines = _ALLOWED.read_text(encoding="utf-8").splitlines()
    rules = {call: _ALLOW for line in lines if not line.startswith("#") for call in line.split()}
    # As the profile has it: a libc that meets ENOSYS falls back on clone.
    rules["clone3"] = _ERRNO | errno.ENOSYS
    for call, action in rules.items():
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # others are those of another processor
            _succeed(seccomp.seccomp_rule_add(context, ctypes.c_uint32(action), number, 0), call)
    with path.open("wb") as file:
        _succeed(seccomp.seccomp_export_bpf(context, file.fileno()), "export")
    seccomp.seccomp_release(context)


def _succeed(result: int, what: str) -> None:
    if result:
        raise OSError(-result, f"libseccomp: {what}: {os.strerror(-result)}")
