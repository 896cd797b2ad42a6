"""Names that senders chose: what the store makes of long, hidden and many ones."""

from __future__ import annotations

import random
import string
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from monitor.model.names import NAME_LIMIT, OTHER, NameLimits
from monitor.model.spans import Assembly
from monitor.model.turns import Turn
from monitor.store.sql_store import open_store
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def named(make: Make, *, app: str = "shop", environment: str = "production", release: str = "1.0") -> Turn:
    """A turn of that app, environment and release."""
    return replace(make.turn(app=app, release=release), environment=environment)


def test_names_of_any_characters_roll_up(store: Store, make: Make) -> None:
    """Names of four-byte characters that nothing compresses fit into every index, beside a metric with a long name."""
    draw = random.Random(7)  # noqa: S311 -- no secret
    app, environment, release = ("".join(chr(draw.randrange(0x20000, 0x2A000)) for _ in range(300)) for _ in range(3))
    metric, rubric_id = ("".join(draw.choices(string.ascii_letters, k=200)) for _ in range(2))
    make.assembled(store, named(make, app=app, environment=environment, release=release))
    rubric = replace(make.rubric, metric=metric, rubric_id=rubric_id)
    store.roll_up(store.changed_windows(999), rubrics=(rubric,), length=HOUR)
    (row,) = store.rollups(app=app)
    assert (1, True) == (row.sums.turns, app.startswith(row.series.app[:50]))


def test_long_names_stay_apart(store: Store, make: Make) -> None:
    """Two names that differ in their last character only are two, and each finds its own turns."""
    names = ["a" * 500 + end for end in "xy"]
    for name in names:
        make.assembled(store, named(make, app=name))
    assert [1, 1] == [len(list(store.turns(app=name))) for name in names]


def test_hidden_characters_show(store: Store, make: Make) -> None:
    """What nobody sees in a name is shown as U+FFFD: no app passes for another one."""
    make.assembled(store, named(make, app="shop\u200b", environment="prod\u202e", release="1\n2"))
    (turn,) = store.turns(app="shop\u200b")
    assert ("shop\ufffd", "prod\ufffd", "1\ufffd2") == (turn.app, turn.environment, turn.release)
    assert [] == list(store.turns(app="shop"))


LIMITS = NameLimits(apps=2, environments=2, releases=3)


def arrive(store: Store, make: Make, *turns: Turn, at: datetime = NOW) -> list[Turn]:
    """Store turns that arrive together, each of a trace of its own, and return them as they are stored."""
    store.append([make.fragment(turn.trace_id) for turn in turns])
    stored = store.fragments([turn.trace_id for turn in turns])
    assemblies = [
        Assembly(trace_id=turn.trace_id, through=stored[turn.trace_id][-1].position, turns=(turn,)) for turn in turns
    ]
    store.replace_turns(assemblies, now=at, limits=LIMITS)
    read = [store.turn(turn.turn_id) for turn in turns]
    return [turn for turn in read if turn is not None]


def test_a_flood_of_apps(store: Store, make: Make) -> None:
    """Known apps keep their places; what is over stands as `other` with the name that was sent, and is counted."""
    (known,) = arrive(store, make, named(make, app="shop"))
    flood = arrive(store, make, *(named(make, app=f"flood-{number}") for number in range(20)))
    (again,) = arrive(store, make, named(make, app="shop"))
    assert {"shop"} == {known.app, again.app}
    assert Counter(other=19, **{"flood-0": 1}) == Counter(turn.app for turn in flood)
    late = next(turn for turn in flood if turn.app == OTHER)
    assert late.sent_names["app"].startswith("flood-")
    assert late.flags - known.flags == {NAME_LIMIT}
    store.roll_up(store.changed_windows(999), rubrics=(make.rubric,), length=HOUR)
    assert {"shop": 2, "flood-0": 1, "other": 19} == {row.series.app: row.sums.turns for row in store.rollups()}
    assert (2, NOW) == next((use.count, use.refused_at) for use in store.names.in_use(now=NOW) if use.kind == "app")


def test_a_flood_of_environments_and_releases(store: Store, make: Make) -> None:
    """Each app has places of its own for both, and all apps together no more than so many."""
    arrive(store, make, named(make), named(make, app="bot"))
    flood = arrive(store, make, *(named(make, environment=f"e{n}", release=f"r{n}") for n in range(20)))
    assert Counter({"other": 19, "e0": 1}) == Counter(turn.environment for turn in flood)
    assert 4 == len({turn.release for turn in flood if turn.environment == OTHER})
    assert {"environment": "e9", "release": "r9"} == dict(flood[9].sent_names)
    (untouched,) = arrive(store, make, named(make, app="bot", environment="staging", release="9"))
    assert ("bot", "staging", "9") == (untouched.app, untouched.environment, untouched.release)
    counts = {use.kind: use.count for use in store.names.in_use(now=NOW)}
    assert {"app": 2, "environment": 4, "release": 7} == counts


def test_no_name_needs_no_place(store: Store, make: Make) -> None:
    """Turns without environment and release, and an app that calls itself `other`, take no place away."""
    arrive(
        store, make, named(make, app="other", environment="", release=""), named(make, app="a"), named(make, app="b")
    )
    assert ["a", "b", "other"] == sorted(turn.app for turn in store.turns())
    assert [None] * 3 == [use.refused_at for use in store.names.in_use(now=NOW)]


def test_a_flood_is_over_after_three_days(store: Store, make: Make) -> None:
    """Names that came once free their places in three days; one that was in use for weeks may rest as long."""
    day = timedelta(days=1)
    for days in (0, 10, 20):
        arrive(store, make, named(make, app="old"), at=NOW + days * day)
    arrive(store, make, named(make, app="flood"), at=NOW + 20 * day)
    (refused,) = arrive(store, make, named(make, app="new"), at=NOW + 22 * day)
    (placed,) = arrive(store, make, named(make, app="new"), at=NOW + 24 * day)
    (old,) = arrive(store, make, named(make, app="old"), at=NOW + 39 * day)
    assert ["other", "new", "old"] == [refused.app, placed.app, old.app]
    assert {None} == {use.refused_at for use in store.names.in_use(now=NOW + 39 * day)}


def test_a_turn_that_is_read_again_finds_its_place(store: Store, make: Make) -> None:
    """A turn under `other` that is assembled anew once there is a place moves there, and both windows are marked."""
    turn = named(make, app="new")
    arrive(store, make, named(make, app="a"), named(make, app="b"))
    (refused,) = arrive(store, make, turn)
    store.roll_up(store.changed_windows(999), rubrics=(make.rubric,), length=HOUR)
    (placed,) = arrive(store, make, turn, at=NOW + timedelta(days=4))
    assert ["other", "new"] == [refused.app, placed.app]
    assert {} == dict(placed.sent_names)
    assert {"other", "new"} == {window.app for window in store.changed_windows(9)}


def test_neighbours_of_an_app_without_a_place(store: Store, make: Make) -> None:
    """The turns that may describe a call twice are found under the name that was sent."""
    arrive(store, make, named(make, app="a"), named(make, app="b"), named(make, app="c"))
    began = {"since": NOW - HOUR, "until": NOW + HOUR, "ended_since": NOW - HOUR}
    assert 1 == len(store.extents("c", **began, single_calls=False))


def test_names_of_two_processes(store: Store, make: Make, migrated_url: str) -> None:
    """Processes that store new names at one time give away no more places than there are, and none waits for ever."""
    other = open_store(migrated_url, migrate=False)
    with closing(other), ThreadPoolExecutor(2) as pool:
        floods = [[named(make, app=f"{name}-{number % 9}") for number in range(45)] for name in "xy"]
        stored = [
            pool.submit(lambda store=one, flood=flood: [arrive(store, make, turn)[0] for turn in flood])
            for one, flood in zip((store, other), floods, strict=True)
        ]
        apps = Counter(turn.app for done in stored for turn in done.result())
    assert 3 == len(apps)
    assert 80 == apps[OTHER]
