"""Credentials in files that change while the monitor runs: the next use has the new ones."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from incident import alert_about, rise
from judge_server import JudgeServer
from sqlalchemy import make_url

from collectors.kafka.client import renewed_security
from collectors.kafka.settings import Config as Kafka
from collectors.kafka.settings import Sasl
from monitor.errors import StoreUnavailable
from monitor.model.judgements import ChatMessage, ChatRequest
from monitor.runtime.build import build_channels, build_endpoint
from monitor.runtime.isolation import PluginFailures
from monitor.runtime.store_opening import open_settled
from monitor.settings.store import StoreSettings
from monitor.settings.tree import EndpointSettings, Settings

if TYPE_CHECKING:
    from webhook_receiver import Receiver

REQUEST = ChatRequest(messages=(ChatMessage(role="user", content="Answer YES or NO"),), max_output_tokens=10)


@pytest.mark.parametrize(
    ("version", "header", "scheme"), [(None, "authorization", "Bearer "), ("2024-10-21", "api-key", "")]
)
async def test_key_of_a_judge(tmp_path: Path, version: str | None, header: str, scheme: str) -> None:
    """The next request carries the new key, at OpenAI's and at Azure's; a file that is gone changes nothing."""
    file = tmp_path / "key"
    file.write_text("old\n")
    with closing(JudgeServer()) as server:
        settings = EndpointSettings(base_url=server.url, api_key_file=file, api_version=version)
        async with build_endpoint(settings, "judge") as judge:
            await judge.ask(REQUEST)
            file.write_text("newer\n")
            await judge.ask(REQUEST)
            file.unlink()
            await judge.ask(REQUEST)
        sent = [{name.lower(): value for name, value in asked.headers.items()}[header] for asked in server.asked]
    assert [f"{scheme}{key}" for key in ("old", "newer", "newer")] == sent


async def test_secrets_of_a_channel(tmp_path: Path, receiver: Receiver) -> None:
    """The next message goes to the new address with the new authorization."""
    address, authorization = tmp_path / "url", tmp_path / "authorization"
    address.write_text(f"{receiver.origin}/old\n")
    authorization.write_text("Bearer old\n")
    section = {"kind": "webhook", "url_file": str(address), "authorization_file": str(authorization)}
    channels = build_channels(Settings(channels=(section,)), PluginFailures())
    alert = alert_about(rise())
    await channels["webhook"].send(alert)
    address.write_text(f"{receiver.origin}/newer\n")
    authorization.write_text("Bearer newer\n")
    await channels["webhook"].send(alert)
    address.write_text("nonsense\n")
    await channels["webhook"].send(alert)
    assert [("/old", "Bearer old"), *[("/newer", "Bearer newer")] * 2] == [
        (path, headers["Authorization"]) for path, headers, _ in receiver.taken
    ]


def test_password_of_the_database(postgres_url: str, tmp_path: Path) -> None:
    """A connection that is opened after the password was changed logs in with the new one; open ones go on."""
    file, superuser = tmp_path / "password", make_url(postgres_url)
    file.write_text("old password\n")
    plain = superuser.set(drivername="postgresql").render_as_string(hide_password=False)
    with closing(psycopg.connect(plain, autocommit=True)) as asking:
        asking.execute("CREATE ROLE rotating LOGIN SUPERUSER PASSWORD 'old password'")
        try:
            place = {"host": superuser.host, "port": superuser.port, "database": superuser.database}
            settings = Settings(store=StoreSettings(**place, user="rotating", password_file=file))
            with closing(open_settled(settings)) as store:
                asking.execute("ALTER ROLE rotating PASSWORD 'new password'")
                store.check()
                hang_up = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'rotating'"
                asking.execute(hang_up)
                with pytest.raises(StoreUnavailable, match="password"):
                    store.check()
                file.write_text("new password\n")
                store.check()
        finally:
            asking.execute("REASSIGN OWNED BY rotating TO CURRENT_USER")
            asking.execute("DROP ROLE rotating")


def test_password_of_brokers(tmp_path: Path) -> None:
    """A consumer that is opened after the file changed logs in with the new password."""
    file = tmp_path / "password"
    file.write_text("old\n")
    present = renewed_security(Kafka(sasl=Sasl(username="monitor", password_file=file)))
    assert "old" == present().password
    file.write_text("newer\n")
    assert "newer" == present().password
    file.write_text("")
    assert "newer" == present().password
