"""Where the shipped prompts, dashboards and example app are, however the project was installed."""

from __future__ import annotations

from pathlib import Path

from monitor.errors import ConfigError

_PACKAGE = Path(__file__).resolve().parent
_IN_CHECKOUT = {"chat_app": Path("examples", "chat_app")}


def asset_dir(name: str) -> Path:
    """Return the folder of `prompts`, `dashboards` or `chat_app`.

    A wheel carries it inside the package, as `monitor/_assets/<name>`; an editable install and a bare checkout have it
    beside the package.

    Raises:
        ConfigError: it is in neither place, so the installation is broken.
    """
    shipped = _PACKAGE / "_assets" / name
    for folder in (shipped, _PACKAGE.parent / _IN_CHECKOUT.get(name, Path(name))):
        if folder.is_dir():
            return folder
    raise ConfigError("not found; this installation is incomplete, install rag-monitor again", where=str(shipped))
