"""Files that are read again when they change."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.settings.renewed_files import RenewedFiles


def number(path: Path) -> int:
    """Return the number in the file."""
    try:
        return int(path.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"no number: {type(error).__name__}", where="number") from None


def test_a_changed_file_is_read_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rewritten or replaced, what the file holds is in use at the next look; unchanged, it is not read again."""
    caplog.set_level("INFO")
    path = tmp_path / "number"
    path.write_text("1")
    reads = []
    files = RenewedFiles((path,), lambda: reads.append(None) or number(path), "section")  # type: ignore[func-returns-value]
    assert [1, 1] == [files.content(), files.content()]
    assert 1 == len(reads)
    path.write_text("22")
    assert 22 == files.content()
    (tmp_path / "next").write_text("3")
    (tmp_path / "next").replace(path)
    assert 3 == files.content()
    assert ["section: the renewed files are in use now"] * 2 == caplog.messages


def test_an_unusable_file_changes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was read before stays in use, said once; the file that is right again is taken up."""
    path = tmp_path / "number"
    path.write_text("1")
    files = RenewedFiles((path,), lambda: number(path), "section")
    path.write_text("nonsense")
    assert [1, 1] == [files.content(), files.content()]
    path.unlink()
    assert [1, 1] == [files.content(), files.content()]
    assert [
        "number: no number: ValueError; what was read before stays in use",
        "number: no number: FileNotFoundError; what was read before stays in use",
    ] == caplog.messages
    path.write_text("2")
    assert 2 == files.content()


def test_files_are_usable_at_first(tmp_path: Path) -> None:
    """At the start an unusable file is an error."""
    with pytest.raises(ConfigError, match="no number"):
        RenewedFiles((tmp_path / "none",), lambda: number(tmp_path / "none"), "section")
