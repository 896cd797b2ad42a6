"""When a file of a watched folder is worth reading."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from collectors.file.progress import FileState, Progress

FINISHED_AFTER = timedelta(seconds=10)


@pytest.fixture
def packed(tmp_path: Path) -> Progress:
    """A packed file that appeared at 0 s and could be read in part."""
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(b"part")
    progress = Progress(state=FileState(path=path, identity=(1, 2), size=4, changed_ns=1), since=0)
    assert progress.due(0, finished_after=FINISHED_AFTER)
    progress.begin()
    progress.end(open_end=True)
    return progress


def test_packed_file_is_not_read_over_and_over_while_it_is_copied(packed: Progress) -> None:
    """After a first try, it waits for the file to be quiet, however often it grows before."""
    for second in (2, 9, 15):
        packed.update(replace(packed.state, size=100 + second, changed_ns=second), second)
        assert not packed.due(second, finished_after=FINISHED_AFTER)
    assert not packed.due(24, finished_after=FINISHED_AFTER)
    assert packed.due(25, finished_after=FINISHED_AFTER)


def test_quiet_file_is_read_once_more(packed: Progress) -> None:
    """An open end is looked at again when the file has not changed, and then no more."""
    assert not packed.due(9, finished_after=FINISHED_AFTER)
    assert packed.due(10, finished_after=FINISHED_AFTER)
    packed.begin()
    packed.end(open_end=False)
    assert not packed.due(99, finished_after=FINISHED_AFTER)
    assert packed.finished(99, finished_after=FINISHED_AFTER)


def test_other_name_is_no_change(packed: Progress) -> None:
    """A renamed file has been quiet for as long as it was."""
    packed.update(replace(packed.state, path=packed.state.path.with_name("b.jsonl.gz")), 9)
    assert packed.due(10, finished_after=FINISHED_AFTER)


def test_unreadable_file_is_tried_again(packed: Progress) -> None:
    """A file that could not be opened is news once, waits, and is tried again without having changed."""
    assert packed.mark_unreadable(40)
    assert not packed.due(39, finished_after=FINISHED_AFTER)
    assert packed.due(40, finished_after=FINISHED_AFTER)
    assert not packed.mark_unreadable(80)
    packed.begin()
    packed.end(open_end=False)
    assert packed.mark_unreadable(200)
