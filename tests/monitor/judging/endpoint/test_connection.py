"""What an endpoint may do on the wire, tried with servers that do it."""

import asyncio
import gzip
import json
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from judge_server import JudgeServer, completion

from monitor.errors import ConfigError, MonitorError, Retryable, Unusable
from monitor.judging.endpoint.client import OpenAIJudge
from monitor.judging.endpoint.connection import LARGEST_REPLY
from monitor.model.judgements import ChatMessage, ChatRequest, Reply
from monitor.settings.section import authorities

_REQUEST = ChatRequest(messages=(ChatMessage(role="user", content="PRIVATE"),), max_output_tokens=10)

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


async def _ask(talk: Talk) -> Reply:
    """Ask a server that does `talk` after it has read a whole request, and then hangs up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r\n")[0]))
        try:
            await talk(reader, writer)
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1")
    port = server.sockets[0].getsockname()[1]
    async with server, _judge(f"http://127.0.0.1:{port}/v1") as judge:
        return await judge.ask(_REQUEST)


def _judge(base_url: str, ca_file: Path | None = None) -> OpenAIJudge:
    return OpenAIJudge(
        model="m",
        api_key=lambda: "secret",
        base_url=base_url,
        timeout=timedelta(seconds=30),
        trust=authorities(ca_file, "judge.ca_file"),
    )


async def _failure(talk: Talk) -> MonitorError:
    with pytest.raises(MonitorError) as caught:
        await _ask(talk)
    assert "PRIVATE" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("status", [200, 500])
async def test_endless_body(status: int) -> None:
    """A body that does not end is left after four megabytes, whatever its status, and is the endpoint's fault."""
    sent = 0

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(f"HTTP/1.1 {status} X\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        while True:
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            await writer.drain()
            sent += 65536

    error = await _failure(talk)
    assert Retryable is type(error)
    assert f"a reply of more than {LARGEST_REPLY} bytes" in str(error)
    assert sent < 8 * LARGEST_REPLY


async def test_body_that_unpacks_to_gigabytes() -> None:
    """What is compressed, though we asked for none, may not be large."""
    body = gzip.compress(bytes(100 * 1024 * 1024))

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()

    assert "a reply of more than 65536 bytes" in str(await _failure(talk))


async def test_compressed_body() -> None:
    """A gateway that compresses whatever it sends is understood."""
    body = gzip.compress(json.dumps(completion("{}").body).encode())

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        writer.write(body)
        await writer.drain()

    assert "{}" == (await _ask(talk)).text


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "what it answers is no HTTP"),
        (b"\x15\x03\x01\x00\x02\x02\x16", "what it answers is no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n", "what it answers is no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{", "its reply broke off"),
        (b"", "it closed the connection without an answer"),
    ],
)
async def test_no_http(sent: bytes, said: str) -> None:
    """A server that speaks no HTTP, or half of it, may be asked again, and the message says what it does."""

    async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        await writer.drain()

    error = await _failure(talk)
    assert (Retryable, f"asking openai:m: {said}") == (type(error), str(error))


async def test_redirect_to_another_origin() -> None:
    """A prompt is never sent on to another address: only a person may say where it goes."""
    with closing(JudgeServer()) as elsewhere:

        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            location = f"{elsewhere.url}/chat/completions"
            writer.write(f"HTTP/1.1 307 X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n".encode())
            await writer.drain()

        error = await _failure(talk)
        assert Unusable is type(error)
        assert f"it redirects to {elsewhere.url.removesuffix('v1')}; not followed" in str(error)
        assert [] == elsewhere.asked


async def test_redirect_within_the_endpoint() -> None:
    """One to another path of the same endpoint is followed."""
    body = json.dumps(completion("{}").body)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 307 X\r\nlocation: /v2/chat/completions\r\ncontent-length: 0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"POST /v2/chat/completions")
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()

    assert "{}" == (await _ask(talk)).text


@pytest.mark.parametrize(
    ("base_url", "said"),
    [
        ("http://127.0.0.1:1/v1", "connection refused: nothing listens at 127.0.0.1:1"),
        ("http://no-such-host.invalid/v1", "unknown host no-such-host.invalid"),
    ],
)
async def test_no_connection(base_url: str, said: str) -> None:
    """Why there is no connection is said."""
    with pytest.raises(Retryable, match=f"^asking openai:m: {said}$"):
        async with _judge(base_url) as judge:
            await judge.ask(_REQUEST)


async def test_https_to_a_server_without() -> None:
    """TLS that fails is told from a connection that does."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1")
    async with server, _judge(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1") as judge:
        with pytest.raises(Retryable, match="TLS: no handshake"):
            await judge.ask(_REQUEST)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `cert.pem` and `key.pem` of `localhost`, which nobody but itself vouches for."""
    folder = tmp_path_factory.mktemp("certificate")
    command = "req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out cert.pem -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(["openssl", *command.split(), *names], cwd=folder, check=True, capture_output=True)
    return folder


async def _ask_over_tls(certificate: Path, ca_file: Path | None) -> Reply:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    body = json.dumps(completion("{}").body)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", ssl=context)
    port = server.sockets[0].getsockname()[1]
    async with server, _judge(f"https://localhost:{port}/v1", ca_file) as judge:
        return await judge.ask(_REQUEST)


async def test_certificate_that_nobody_vouches_for(certificate: Path) -> None:
    """An untrusted certificate is told from other failures, with the setting that helps."""
    with pytest.raises(Retryable, match=r"TLS: the certificate of localhost is not trusted: self-signed.*ca_file"):
        await _ask_over_tls(certificate, None)


async def test_authority_of_ones_own(certificate: Path) -> None:
    """With `ca_file` it is trusted."""
    assert "{}" == (await _ask_over_tls(certificate, certificate / "cert.pem")).text


def test_file_without_authorities(certificate: Path) -> None:
    """A file that is none is refused at start, by its setting."""
    with pytest.raises(ConfigError, match=r"judge\.ca_file: cannot read authorities from"):
        authorities(certificate / "key.pem", "judge.ca_file")
