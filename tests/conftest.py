"""The services that tests may ask for by fixture; the modules are found through `pythonpath` in pyproject.toml."""

import pytest

# A module stands before those that import it: pytest warns of a plug-in that was imported before it was named.
pytest_plugins = (
    "requirement",
    "left_out",
    "sendable",
    "guard",
    "front",
    "kafka_service",
    "sqlite_store",
    "otlp_service",
    "postgres_service",
    "clock_service",
    "pgbouncer_service",
    "shared_folder",
    "container",
    "webhook_receiver",
    "alertmanager_service",
    "smtp_service",
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The loop that async tests run on: asyncio alone, as the product does, and not trio after it."""
    return "asyncio"
