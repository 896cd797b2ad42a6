"""The lines of the log, as whoever reads them sees them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from monitor.errors import Permanent
from monitor.log_lines import JsonLines, TextLines, trace

AT = datetime(2026, 11, 30, 13, 20, 0, 123000, UTC)


def record(message: str, *arguments: object, name: str = "monitor.alert", **more: object) -> logging.LogRecord:
    """A record of that moment."""
    made = logging.LogRecord(name, logging.WARNING, "alert.py", 7, message, arguments, None)
    made.created = AT.timestamp()
    vars(made).update(more)
    return made


def fail(error: Exception, cause: Exception | None = None) -> None:
    """Raise it."""
    raise error from cause


def raised(error: Exception, cause: Exception | None = None) -> Exception:
    """The error as somebody catches it."""
    try:
        fail(error, cause)
    except type(error) as caught:
        return caught
    return error


def test_a_line_of_text_says_the_time_in_utc() -> None:
    """Time with its zone, level, logger and message."""
    assert "2026-11-30T13:20:00.123Z WARNING monitor.alert: 3 left" == TextLines().format(record("%d left", 3))


def test_a_line_of_json_has_the_same_and_fields() -> None:
    """What a library adds to its record is in `fields`, where it is a number, a text or none."""
    line = JsonLines().format(record("%d left", 3, peer="127.0.0.1", status=503, socket=object()))
    expected = {"time": "2026-11-30T13:20:00.123Z", "level": "WARNING", "logger": "monitor.alert", "message": "3 left"}
    assert {**expected, "fields": {"peer": "127.0.0.1", "status": 503}} == json.loads(line)


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_a_message_is_one_line(form: logging.Formatter) -> None:
    """Line breaks, colours and half characters of a message are shown as escapes; they fake no line of their own."""
    line = form.format(record("a\nb\x1b[31mc\u2028d\ud83d"))
    assert line.isprintable()
    assert line.encode()


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_credentials_are_hidden(form: logging.Formatter) -> None:
    """An address in any message or field shows neither user nor password."""
    address = "postgresql://me:hush@db/monitor"
    assert "hush" not in form.format(record("asking %s", address, dsn=address))


@pytest.mark.parametrize("form", [TextLines(), JsonLines()])
def test_an_error_of_a_library_shows_where_it_was_raised_and_not_its_message(form: logging.Formatter) -> None:
    """Its message may hold what a user wrote, or a secret."""
    error = raised(ValueError("what a user wrote"))
    line = form.format(record("it failed", exc_info=(ValueError, error, error.__traceback__)))
    assert "what a user wrote" not in line
    assert "ValueError" in line
    assert "test_log_lines.py" in line


def test_a_task_that_nobody_awaited_shows_no_value() -> None:
    """Asyncio writes the task, with the message of its error, into further lines of its message."""
    line = TextLines().format(record("Task exception\nfuture: <Task exception=ValueError('hush')>", name="asyncio"))
    assert line.endswith("asyncio: Task exception")


def test_an_error_of_ours_says_its_message_and_its_causes() -> None:
    """Ours hold neither; the causes stand before, without theirs, those in a group as well."""
    error = raised(Permanent("cannot be read", reason="r"), raised(KeyError("hush")))
    shown = trace(ExceptionGroup("hush", [error]))
    assert "Permanent: cannot be read" in shown
    assert "KeyError\nwhich led to:" in shown
    assert "hush" not in shown


def test_wrong_arguments_of_a_library_cost_no_line() -> None:
    """A record whose arguments do not fit its message is written without them."""
    assert TextLines().format(record("%d left", "x")).endswith("%d left")


def test_every_line_of_a_process_is_json() -> None:
    """Records of ours and of libraries, warnings, and errors of threads and tasks alike."""
    program = """
import asyncio, logging, threading, warnings
from monitor.log_lines import configure_logging
configure_logging("INFO", "json")
logging.getLogger("monitor.x").info("ours")
logging.getLogger("uvicorn.error").error("theirs", exc_info=ValueError("hush"))
logging.getLogger("aiohttp.client").error("theirs")
warnings.warn("old", stacklevel=1)
def fail(): raise ValueError("hush")
thread = threading.Thread(target=fail); thread.start(); thread.join()
async def main():
    task = asyncio.create_task(asyncio.to_thread(fail))
    await asyncio.wait([task])
    del task
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    expected = ["monitor.x", "uvicorn.error", "aiohttp.client", "py.warnings", "monitor.log_lines", "asyncio"]
    assert expected == [line["logger"] for line in lines]
    assert all(line["time"].endswith("Z") for line in lines)
    assert "hush" not in "".join(line["message"] for line in lines)


def test_a_fault_of_ours_shows_no_message_of_a_library() -> None:
    """An error that nobody expected ends a command with status 1, its type and its place; its message is left out."""
    program = """
import sys
from monitor.log_lines import show_fault
sys.excepthook = show_fault
int("what a user wrote")
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert 1 == done.returncode
    assert done.stderr.startswith("rag-monitor: a fault of ours: ValueError\n")
    assert "what a user wrote" not in done.stderr
