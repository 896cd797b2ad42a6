"""Where a listener listens, over real sockets."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from monitor.access.addresses import bound_sockets, entrance, written
from monitor.errors import ConfigError
from monitor.settings.listener import Listener
from monitor.settings.tree import Settings, validate


def bound(host: str, port: int = 0) -> list[tuple[str, int]]:
    """Return the addresses that were bound; they are free again."""
    with ExitStack() as opened:
        sockets = [opened.enter_context(one) for one in bound_sockets(host, port, "web")]
        return [one.getsockname()[:2] for one in sockets]


def test_localhost_is_both_loopback_addresses() -> None:
    """`localhost` is bound for both families on one port, whichever a client tries first."""
    hosts, ports = zip(*bound("localhost"), strict=True)
    assert ("127.0.0.1", "::1") == hosts
    assert 1 == len(set(ports))


@pytest.mark.parametrize("host", ["::", "0.0.0.0"])  # noqa: S104 -- for a moment
def test_all_addresses(host: str) -> None:
    """`::` takes connections of both families, `0.0.0.0` those of IPv4."""
    (listener,) = bound_sockets(host, 0, "web")
    with listener:
        listener.listen()
        port = listener.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=10):
            pass
        if host == "::":
            with socket.create_connection(("::1", port), timeout=10):
                pass
        else:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(("::1", port), timeout=10)


@pytest.mark.parametrize("taken", ["127.0.0.1", "::1"])
def test_half_of_localhost_is_not_enough(taken: str) -> None:
    """An address of `localhost` that somebody else listens on is an error: who goes there would not reach us."""
    family = socket.AF_INET6 if ":" in taken else socket.AF_INET
    with closing(socket.create_server((taken, 0), family=family)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError) as caught:
            bound("localhost", port)
    assert f"web: cannot listen on {written(taken, port)}: Address already in use" == str(caught.value)


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("192.0.2.1", "cannot listen on 192.0.2.1:80: Cannot assign requested address"),
        ("nowhere.invalid", "cannot listen on 'nowhere.invalid': no address is known for this name"),
        ("a" * 64, f"cannot listen on '{'a' * 64}': no address is known for this name"),
    ],
)
def test_addresses_of_others(host: str, why: str) -> None:
    """An address that this machine does not have, and a name without one, are mistakes in the settings."""
    with pytest.raises(ConfigError) as caught:
        bound(host, 80)
    assert f"web: {why}" == str(caught.value)


ONE_FAMILY = """
import asyncio, sys
from datetime import UTC, datetime
from monitor.access.refusals import Refusals
from monitor.http_server.server import Server
from collectors.otlp_grpc import collector as otlp_grpc

async def main():
    refusals = Refusals("web", lambda: datetime.now(UTC))
    async with Server(None, host="localhost", port=0, where="web", refusals=refusals) as server:
        config = otlp_grpc.Config(port=0)
        async with otlp_grpc.build(config, None, None) as collector:
            print(server.places, collector.entrance())

asyncio.run(main())
"""


@pytest.mark.parametrize(("gone", "left"), [("127.0.0.1/8", "[::1]"), ("::1/128", "127.0.0.1")])
def test_machine_of_one_family(gone: str, left: str, tmp_path: Path) -> None:
    """On a machine with IPv6 only, or IPv4 only, the default starts over both transports, on what is there."""
    unshare = [shutil.which("unshare") or "unshare", "--net", "--map-root-user"]
    ip = shutil.which("ip")
    if ip is None or subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs unshare of the network, and ip")
    script = tmp_path / "listen.py"
    script.write_text(ONE_FAMILY)
    commands = f"{ip} link set lo up && {ip} addr del {gone} dev lo && exec {sys.executable} {script}"
    done = subprocess.run([*unshare, "sh", "-c", commands], check=False, capture_output=True, text=True, timeout=120)
    assert 0 == done.returncode, done.stderr
    assert 2 == done.stdout.count(left), done.stdout
    assert " and " not in done.stdout


SAYS = r"host can be reached from other machines, and nothing says who may come in"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "monitor.example.org", "::ffff:127.0.0.1"])  # noqa: S104 -- never bound
def test_other_machines_need_a_word(host: str) -> None:
    """A host that other machines may reach is refused, until it says that it is open or who may come in."""
    for section in ({"host": host}, {"host": host, "tls": {"cert_file": "a", "key_file": "b"}}):
        with pytest.raises(ConfigError, match=SAYS):
            validate(Listener, section, where="web")
    for said in (
        {"open": True},
        {"auth": {"tokens": ["s3cret"]}},
        {"tls": {"cert_file": "a", "key_file": "b", "client_ca_file": "c"}},
    ):
        assert host == validate(Listener, {"host": host, **said}, where="web").host


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "::1"])
def test_this_machine_needs_none(host: str) -> None:
    """Loopback addresses reach nobody else."""
    assert not validate(Listener, {"host": host}, where="web").open


def test_open_and_asking_at_once() -> None:
    """Who says both is not understood."""
    with pytest.raises(ConfigError, match="keep one"):
        validate(Listener, {"open": True, "auth": {"tokens": ["s3cret"]}}, where="web")


def test_the_web_page_needs_a_word_too() -> None:
    """The pages of health and metrics follow the same rule."""
    with pytest.raises(ConfigError, match=rf"^rag-monitor\.yaml: web: {SAYS}"):
        validate(Settings, {"web": {"host": "::"}}, where="rag-monitor.yaml")


@pytest.mark.parametrize(
    ("section", "who"),
    [
        ({}, "not encrypted; for anybody on this machine"),
        ({"host": "::", "open": True}, "not encrypted; for anybody who reaches it"),
        (
            {"tls": {"cert_file": "a", "key_file": "b", "client_ca_file": "/etc/clients.pem"}},
            "TLS; for clients with a certificate of /etc/clients.pem",
        ),
        (
            {"auth": {"tokens": ["s3cret", "s3cret2"], "users": {"zoe": "s3cret"}, "users_file": "/etc/users"}},
            "not encrypted; for who has a token or password (2 tokens, 1 user, /etc/users)",
        ),
        (
            {
                "tls": {"cert_file": "a", "key_file": "b", "client_ca_file": "/etc/clients.pem"},
                "auth": {"tokens_file": "/etc/tokens"},
            },
            "TLS; for clients with a certificate of /etc/clients.pem; who has a token or password (/etc/tokens)",
        ),
    ],
)
def test_entrances_in_words(section: dict[str, object], who: str) -> None:
    """A line says where, whether encrypted, and for whom; addresses are as URLs have them, and no secret is told."""
    line = entrance([written("::1", 4318), written("10.0.0.7", 4318)], validate(Listener, section, where="web"))
    assert f"[::1]:4318 and 10.0.0.7:4318 ({who})" == line
