"""Names that senders chose: what the store makes of long, hidden and many ones."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from monitor.model.turns import Turn
from monitor.stores import Store

if TYPE_CHECKING:
    from tests.contract.conftest import Make

HOUR = timedelta(hours=1)


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
