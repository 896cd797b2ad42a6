"""The store's address: a URL, parts beside it, and what of them is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from monitor.errors import ConfigError
from monitor.runtime.store_opening import store_address
from monitor.settings.tree import load

PASSWORD = "p@ss/w:rd?#%x"
ENCODED = "p%40ss%2Fw%3Ard%3F%23%25x"


def address(folder: Path, section: str) -> str:
    """The whole URL, password and all, of a section `store`."""
    file = folder / "settings.yaml"
    file.write_text(f"store: {section}")
    return store_address(load(file, {}).store).render_as_string(hide_password=False)


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("{}", "sqlite:///rag-monitor.db"),
        ("{url: 'sqlite:///x.db'}", "sqlite:///x.db"),
        ("{url: 'postgresql://u:p%40@h/d'}", "postgresql+psycopg://u:p%40@h/d"),
        (
            "{host: db, port: 6432, user: m, password: 'p@ss/w:rd?#%x', database: monitor}",
            f"postgresql+psycopg://m:{ENCODED}@db:6432/monitor",
        ),
        (
            "{url: 'postgresql://m@db/monitor', password: 'p@ss/w:rd?#%x'}",
            f"postgresql+psycopg://m:{ENCODED}@db/monitor",
        ),
        (
            "{url: 'postgresql://db/monitor?sslmode=require', user: m}",
            "postgresql+psycopg://m@db/monitor?sslmode=require",
        ),
        ("{host: db}", "postgresql+psycopg://db"),
    ],
)
def test_address(section: str, expected: str, tmp_path: Path) -> None:
    """A password of any characters stands beside the URL as it is, or in the URL encoded."""
    assert expected == address(tmp_path, section)


def test_password_file(tmp_path: Path) -> None:
    """A password may be read from a file."""
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    section = f"{{host: db, user: m, password_file: '{tmp_path / 'password'}'}}"
    assert f"postgresql+psycopg://m:{ENCODED}@db" == address(tmp_path, section)


@pytest.mark.parametrize(
    ("section", "told"),
    [
        (
            "{url: 'postgresql://u:p@h/d', host: x, user: y}",
            "given in store.url already; .*: store.user, store.host",
        ),
        ("{url: 'postgresql://u:p@h/d', password: x}", "store: given in store.url already; .*: store.password"),
        (
            "{url: 'sqlite:///x.db', password: x}",
            "store.url: a SQLite file beside store.password, which",
        ),
        ("{host: h, password: x, password_file: y}", "store.password: given twice"),
        ("{host: h, password_file: /nowhere/at/all}", "store.password_file: cannot read"),
    ],
)
def test_contradiction(section: str, told: str, tmp_path: Path) -> None:
    """What is said twice is refused, with the keys that say it."""
    with pytest.raises(ConfigError, match=told):
        address(tmp_path, section)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hun@ter2@h/d",
        "postgresql://u:hun@ter2/x@h/d",
        "postgresql://u:hun@ter2:x@h/d",
        "postgresql://u:hun@ter2?x@h/d",
        "postgresql://u/v:hunter2@h/d",
        "postgresql://u:x:hunter2@h:port/d",
        "acme://u:hun@ter2@h/d",
    ],
)
def test_nothing_of_a_password_is_told(url: str, tmp_path: Path) -> None:
    """A URL whose password is not encoded is refused before a piece of it is taken for the host, and none is shown."""
    with pytest.raises(ConfigError) as caught:
        address(tmp_path, f"{{url: '{url}'}}")
    assert "store.url: " in str(caught.value)
    assert "ter2" not in str(caught.value)
