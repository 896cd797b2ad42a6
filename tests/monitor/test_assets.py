"""Where shipped files are found."""

import pytest

from monitor.assets import asset_dir
from monitor.errors import ConfigError


@pytest.mark.parametrize(("name", "file"), [("prompts", "groundedness.md"), ("chat_app", "__main__.py")])
def test_found(name: str, file: str) -> None:
    """Each folder is found and holds its files."""
    assert (asset_dir(name) / file).is_file()


def test_missing() -> None:
    """A folder that is in no place says that the installation is incomplete."""
    with pytest.raises(ConfigError, match="this installation is incomplete"):
        asset_dir("no_such_folder")
