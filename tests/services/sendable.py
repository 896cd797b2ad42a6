"""What a test wrote and logged, in a form in which a worker of pytest-xdist can send it on."""

from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    r"""Write half a surrogate pair as `\ud83d`: execnet sends UTF-8 alone, and its refusal ends the worker."""
    report = yield
    report.sections = [(title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections]
    return report
