"""When a file of a watched folder is worth reading."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from collectors.file.progress import Look, Progress

SETTLE = timedelta(seconds=10)


@pytest.fixture
def packed(tmp_path: Path) -> Progress:
    """A packed file that was found at 0 s and could be read in part."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"part")
    progress = Progress(seen=Look(path=path, identity=(1, 2), size=4, changed_ns=1), since=0)
    assert progress.due(0, settle=SETTLE)
    progress.begin()
    progress.end(open_end=True)
    return progress


def test_packed_file_is_not_read_over_and_over_while_it_is_copied(packed: Progress) -> None:
    """After a first try, it waits for the file to rest, however often it grows before."""
    for second in (2, 9, 15):
        packed.found(replace(packed.seen, size=100 + second, changed_ns=second), second)
        assert not packed.due(second, settle=SETTLE)
    assert not packed.due(24, settle=SETTLE)
    assert packed.due(25, settle=SETTLE)


def test_file_that_rests_is_read_once_more(packed: Progress) -> None:
    """An open end is looked at again when the file has not changed, and then no more."""
    assert not packed.due(9, settle=SETTLE)
    assert packed.due(10, settle=SETTLE)
    packed.begin()
    packed.end(open_end=False)
    assert not packed.due(99, settle=SETTLE)
    assert packed.finished(99, settle=SETTLE)


def test_other_name_is_no_change(packed: Progress) -> None:
    """A renamed file has rested as long as it has."""
    packed.found(replace(packed.seen, path=packed.seen.path.with_name("b.jsonl.gz")), 9)
    assert packed.due(10, settle=SETTLE)


def test_shut_file_is_tried_again(packed: Progress) -> None:
    """A file that could not be opened is news once, waits, and is tried again without having changed."""
    assert packed.shut(40)
    assert not packed.due(39, settle=SETTLE)
    assert packed.due(40, settle=SETTLE)
    assert not packed.shut(80)
    packed.begin()
    packed.end(open_end=False)
    assert packed.shut(200)
