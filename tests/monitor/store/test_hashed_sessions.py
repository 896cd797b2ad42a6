"""Sessions of a store that was made while their ids stood with the turns."""

from __future__ import annotations

from contextlib import closing

from old_schema import migrate_to
from sqlalchemy import create_engine, inspect, text

from monitor.store.migration import migrate
from monitor.store.sql_store import open_store

OLD_TURN = """
    INSERT INTO turns (turn_id, trace_id, span_id, app, environment, release, session_id, started_at, ended_at,
        dialect, facets, flags, content_hash, proxy_version)
    VALUES (:turn, :turn, 'root', 'shop', '', '', :session, 1000000, 2000000, '', '{}', '[]', 'c', '')
"""
OLD_TEXT = """
    INSERT INTO turn_texts (turn_id, started_at, query, history, retrieval_queries)
    VALUES (:turn, 1000000, 'q', '[]', '[]')
"""


def test_sessions_of_an_older_version(url: str) -> None:
    """They are found by their id, which is shown where the text is kept and stands nowhere else."""
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate_to("0012", connection)
        for turn, session in (("1", "kept"), ("2", "kept"), ("3", "pruned"), ("4", None)):
            connection.execute(text(OLD_TURN), {"turn": turn, "session": session})
            if session != "pruned":
                connection.execute(text(OLD_TEXT), {"turn": turn})
    migrate(url)
    with closing(open_store(url, migrate=False)) as store:
        assert ["kept", "kept", None, None] == [turn.session_id for turn in store.turns()]
        assert ["1", "2"] == [turn.turn_id for turn in store.turns(session_id="kept")]
        assert ["3"] == [turn.turn_id for turn in store.turns(session_id="pruned")]
    with engine.connect() as connection:
        assert "session_id" not in {column["name"] for column in inspect(connection).get_columns("turns")}
        assert not inspect(connection).has_table("session_hashes")
    engine.dispose()
