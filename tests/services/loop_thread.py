"""An event loop in a thread of its own, so that a test speaks to what runs there as another process would."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager


class LoopThread:
    """Enters a context in its loop, and leaves it when it is asked to."""

    def __init__(self, context: Callable[[], AbstractAsyncContextManager[object]]) -> None:
        self._context = context
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        """Return when the context is entered."""
        self._thread.start()
        assert self._ready.wait(20)

    def ask_to_stop(self) -> None:
        """Have the context left."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)

    def stop(self, *, seconds: float = 30) -> None:
        """Return when the context is left."""
        self.ask_to_stop()
        self._thread.join(seconds)
        assert not self._thread.is_alive()

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._context():
            self._ready.set()
            await self._stop.wait()
