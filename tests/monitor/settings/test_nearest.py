"""An unknown name is answered with the nearest known one, or with all."""

import pytest

from monitor.settings.nearest import suggestion


@pytest.mark.parametrize(
    ("name", "known", "ending"),
    [
        ("groundednes", ("safety", "groundedness"), "; did you mean 'groundedness'?"),
        ("Rate", ("salt", "rate"), "; did you mean 'rate'?"),
        ("zzz", ("salt", "rate"), "; known: salt, rate"),
        ("zzz", (), "; known: none"),
    ],
)
def test_suggestion(name: str, known: tuple[str, ...], ending: str) -> None:
    """A slip finds its name; where nothing is near, all are listed."""
    assert ending == suggestion(name, known)
