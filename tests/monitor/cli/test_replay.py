"""Recorded telemetry through the pipeline: what is read, what is left out, what came of it."""

import gzip
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from monitor.cli.replay import Replayed, replay_recording
from monitor.errors import ConfigError
from monitor.runtime.build import open_parts
from monitor.settings.tree import Settings
from monitor.store.sql_store import open_store

GOLDEN = Path(__file__).parents[2] / "golden" / "replay"
NOW = datetime(2026, 4, 1, tzinfo=UTC)
LINE = '{"question": "How long?", "context": "It lasts two years.", "answer": "Two years."}'


async def replayed(folder: Path, path: Path, *, seen: list[tuple[int, int]] | None = None) -> Replayed:
    """Replay `path` into a store in the folder; `seen` is given the progress."""
    settings = Settings.model_validate({"store": {"url": f"sqlite:///{folder / 'shop.db'}"}})
    report = (lambda done, of: seen.append((done, of))) if seen is not None else (lambda _done, _of: None)
    async with open_parts(settings) as parts:
        return await replay_recording(path, parts, app="imported", now=NOW, progress=report)


async def test_folder_of_bodies(tmp_path: Path) -> None:
    """Bodies are read in order and driven to the end of the recording; progress ends at all bytes."""
    seen: list[tuple[int, int]] = []
    done = await replayed(tmp_path, GOLDEN, seen=seen)
    assert done.driven is not None
    assert (50, {}, (), 14, 11) == (
        done.records,
        done.bad,
        done.complaints,
        done.driven.samplings,
        done.driven.judged,
    )
    size = sum(path.stat().st_size for path in GOLDEN.iterdir())
    assert (size, size) == seen[-1]
    assert sorted(seen) == seen


async def test_one_body(tmp_path: Path) -> None:
    """A file is read as a folder with nothing else in it."""
    done = await replayed(tmp_path, GOLDEN / "001.traces.pb.gz")
    assert 7 == done.records


async def test_again(tmp_path: Path) -> None:
    """What was read before is read again and makes nothing new."""
    first, second = await replayed(tmp_path, GOLDEN), await replayed(tmp_path, GOLDEN)
    assert first.records == second.records
    assert second.driven is not None
    assert (0, 0, 0) == (second.driven.traces, second.driven.samplings, second.driven.judged)


async def test_order_of_bodies_does_not_matter(tmp_path: Path) -> None:
    """Bodies under other names, so in another order, make the same turns and windows."""
    turned = tmp_path / "turned"
    turned.mkdir()
    for number, body in enumerate(sorted(GOLDEN.iterdir(), reverse=True)):
        shutil.copy(body, turned / f"{number}.traces.pb.gz")
    stores = []
    for name, path in (("a", GOLDEN), ("b", turned)):
        folder = tmp_path / name
        folder.mkdir()
        await replayed(folder, path)
        store = open_store(f"sqlite:///{folder / 'shop.db'}", migrate=False)
        stores.append(([turn.content_hash() for turn in store.turns()], store.rollups()))
        store.close()
    assert stores[0] == stores[1]


async def test_bad_lines_among_good(tmp_path: Path) -> None:
    """A line that cannot be read is counted and told without its text, and costs no other line."""
    path = tmp_path / "chats.jsonl.gz"
    path.write_bytes(gzip.compress(f"{LINE}\nsecret of a user\n\n{LINE}\n{{}}\n".encode()))
    done = await replayed(tmp_path, path)
    assert 2 == done.records
    assert 2 == sum(done.bad.values())
    assert ["chats.jsonl.gz:2", "chats.jsonl.gz:5"] == [
        complaint.rpartition(": ")[0][:16] for complaint in done.complaints
    ]
    assert "secret" not in str(done.complaints)


async def test_only_the_first_complaints_are_kept(tmp_path: Path) -> None:
    """A file of nothing but nonsense does not fill the screen."""
    path = tmp_path / "chats.jsonl"
    path.write_text("nonsense\n" * 3000)
    done = await replayed(tmp_path, path)
    assert (0, 3000, 20) == (done.records, sum(done.bad.values()), len(done.complaints))
    assert done.driven is None


async def test_lines_without_a_time_get_that_of_the_replay(tmp_path: Path) -> None:
    """A turn that does not say when it was is one of now."""
    path = tmp_path / "chats.jsonl"
    path.write_text(LINE)
    await replayed(tmp_path, path)
    store = open_store(f"sqlite:///{tmp_path / 'shop.db'}", migrate=False)
    (turn,) = store.turns()
    assert (NOW, "imported") == (turn.started_at, turn.app)
    store.close()


async def test_nothing_to_read_is_told(tmp_path: Path) -> None:
    """A path without anything readable is an error that says what is."""
    with pytest.raises(ConfigError, match=r"nothing to read; expected \*\.traces\.pb\|json"):
        await replayed(tmp_path, tmp_path)
    with pytest.raises(ConfigError, match="no such file or folder"):
        await replayed(tmp_path, tmp_path / "nowhere")
