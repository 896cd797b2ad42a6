"""TLS, client certificates, credentials, web pages, Unix sockets and several listeners, over both transports."""

from __future__ import annotations

import asyncio
import base64
import http.client
import socket
import ssl
import stat
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import grpc
import pytest
from authority import Authority
from deadline import wait_until
from http_request import export, send

from collectors.otlp_grpc import collector as otlp_grpc
from collectors.otlp_http import collector as otlp_http
from monitor.errors import ConfigError
from monitor.runtime.build import build_collectors
from monitor.runtime.isolation import PluginFailures
from monitor.settings.tree import Settings, plugin_config

if TYPE_CHECKING:
    from tests.services.otlp_service import Running, Serve

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
PROTOBUF = "application/x-protobuf"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """The authority that the server's certificate is of."""
    return Authority(tmp_path, "server")


def call(
    target: str, body: bytes, credentials: grpc.ChannelCredentials | None = None, authorization: str = ""
) -> bytes:
    """Return the response of a call."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    channel = (
        grpc.secure_channel(target, credentials, options=options)
        if credentials
        else grpc.insecure_channel(target, options=options)
    )
    metadata = (("authorization", authorization),) if authorization else ()
    with channel:
        reply: bytes = channel.unary_unary(EXPORT)(body, timeout=10, metadata=metadata)
    return reply


def target(running: Running) -> str:
    """Return where the gRPC collector listens."""
    host, port = running.grpc.address
    return f"{host}:{port}"


def serial(address: tuple[str, int]) -> int:
    """Return the serial number of the certificate that a listener shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(address, timeout=10) as plain, context.wrap_socket(plain) as wrapped:
        return hash(wrapped.getpeercert(binary_form=True))


def test_tls(serve: Serve, authority: Authority, turn_pb: bytes) -> None:
    """Requests over TLS are kept over both transports; plain ones and strangers to the authority get nowhere."""
    tls = authority.issue("server")
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    assert 200 == export(running.http.address, turn_pb, tls=trusting).status
    assert b"" == call(target(running), turn_pb, grpc.ssl_channel_credentials(authority.ca_file.read_bytes()))
    assert 3 == len({(span.trace_id, span.span_id) for span in running.spans()})

    with pytest.raises(ssl.SSLCertVerificationError):
        export(running.http.address, turn_pb, tls=ssl.create_default_context())
    with pytest.raises((OSError, http.client.HTTPException)):
        running.post(turn_pb)
    with pytest.raises(grpc.RpcError):
        call(target(running), turn_pb)
    assert 200 == export(running.http.address, turn_pb, tls=trusting).status


def test_client_certificates(serve: Serve, authority: Authority, tmp_path: Path, turn_pb: bytes) -> None:
    """With `client_ca_file` only clients with a certificate of that authority may send."""
    clients, strangers = Authority(tmp_path, "clients"), Authority(tmp_path, "strangers")
    tls = {**authority.issue("server"), "client_ca_file": str(clients.ca_file)}
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    ours, theirs = clients.issue("client"), strangers.issue("stranger")

    def context(pair: dict[str, str] | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(authority.ca_file))
        if pair:
            context.load_cert_chain(pair["cert_file"], pair["key_file"])
        return context

    def credentials(pair: dict[str, str] | None) -> grpc.ChannelCredentials:
        key, chain = (Path(pair[name]).read_bytes() for name in ("key_file", "cert_file")) if pair else (None, None)
        return grpc.ssl_channel_credentials(authority.ca_file.read_bytes(), key, chain)

    assert 200 == export(running.http.address, turn_pb, tls=context(ours)).status
    assert b"" == call(target(running), turn_pb, credentials(ours))
    for pair in (None, theirs):
        with pytest.raises((OSError, http.client.HTTPException)):
            export(running.http.address, turn_pb, tls=context(pair))
        with pytest.raises(grpc.RpcError):
            call(target(running), turn_pb, credentials(pair))


def test_renewed_certificate(
    serve: Serve, authority: Authority, turn_pb: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """A renewed certificate is shown to the next client without a restart; one that is unusable leaves the old one."""
    tls = authority.issue("server")
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    before = [serial(running.http.address), serial(running.grpc.address)]
    assert before == [serial(running.http.address), serial(running.grpc.address)]

    authority.issue("server")
    after = [serial(running.http.address), serial(running.grpc.address)]
    assert after[0] == after[1] != before[0]

    Path(tls["key_file"]).write_text("nonsense")
    assert after == [serial(running.http.address), serial(running.grpc.address)]
    assert 2 == caplog.text.count("what was read before stays in use")
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    assert 200 == export(running.http.address, turn_pb, tls=trusting).status


class TlsClient:
    """A client that shows a certificate and keeps its session for the next connection."""

    def __init__(self, address: tuple[str, int], trusted: Path, pair: dict[str, str], protocol: str) -> None:
        self._address = address
        self._context = ssl.create_default_context(cafile=str(trusted))
        self._context.load_cert_chain(pair["cert_file"], pair["key_file"])
        self._context.set_alpn_protocols([protocol])
        self._is_http = protocol == "http/1.1"
        self._session: ssl.SSLSession | None = None

    def connect(self) -> ssl.SSLSocket:
        """Return a connection, with the session of the last one that was answered."""
        plain = socket.create_connection(self._address, timeout=10)
        try:
            return self._context.wrap_socket(plain, server_hostname="localhost", session=self._session)
        except BaseException:
            plain.close()
            raise

    def is_answered(self, connection: ssl.SSLSocket, *, first: bool = True) -> bool:
        """Return whether something is answered on the connection, in whole; False where it is cut off."""
        said = b"first..." if first else b"another."
        ping = bytes((0, 0, 8, 6, 0, 0, 0, 0, 0)) + said
        request, end = (GET, b'allowed"}') if self._is_http else ((PREFACE if first else b"") + ping, said)
        answer = b""
        try:
            connection.sendall(request)
            while end not in answer:
                piece = connection.recv(65536)
                if not piece:
                    return False
                answer += piece
        except (ConnectionError, ssl.SSLError):
            return False
        self._session = connection.session
        return True


GET = b"GET /v1/traces HTTP/1.1\r\nHost: x\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_withdrawn_client(serve: Serve, authority: Authority, tmp_path: Path, protocol: str) -> None:
    """A client whose authority is taken out is cut off where it sends on, and no session of its brings it back."""
    old, new = Authority(tmp_path, "old"), Authority(tmp_path, "new")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.ca_file.read_bytes() + new.ca_file.read_bytes())
    tls = {**authority.issue("server"), "client_ca_file": str(trusted)}
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    address = running.http.address if protocol == "http/1.1" else running.grpc.address

    def client(pair: dict[str, str]) -> TlsClient:
        return TlsClient(address, authority.ca_file, pair, protocol)

    withdrawn, staying = client(old.issue("withdrawn")), client(new.issue("staying"))
    with withdrawn.connect() as connection:
        assert withdrawn.is_answered(connection)
        trusted.write_bytes(new.ca_file.read_bytes())
        assert not withdrawn.is_answered(connection, first=False)
    with withdrawn.connect() as connection:
        assert not withdrawn.is_answered(connection)
    with staying.connect() as connection:
        assert staying.is_answered(connection)


@pytest.mark.parametrize("protocol", ["http/1.1", "h2"])
def test_no_session_is_resumed(serve: Serve, authority: Authority, tmp_path: Path, protocol: str) -> None:
    """Where clients show certificates they show them every time."""
    clients = Authority(tmp_path, "clients")
    tls = {**authority.issue("server"), "client_ca_file": str(clients.ca_file)}
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    address = running.http.address if protocol == "http/1.1" else running.grpc.address
    client = TlsClient(address, authority.ca_file, clients.issue("client"), protocol)
    for _ in range(3):
        with client.connect() as connection:
            assert not connection.session_reused
            assert client.is_answered(connection)


def test_refused_handshakes_are_told(
    serve: Serve, authority: Authority, tmp_path: Path, turn_pb: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """On both transports a refused handshake is counted, and a line with peer and reason, however many there are."""
    clients = Authority(tmp_path, "clients")
    tls = {**authority.issue("server"), "client_ca_file": str(clients.ca_file)}
    running = serve(http={"tls": tls}, grpc={"tls": tls})
    trusting = ssl.create_default_context(cafile=str(authority.ca_file))
    for _ in range(3):
        with pytest.raises((OSError, http.client.HTTPException)):
            export(running.http.address, turn_pb, tls=trusting)
        with pytest.raises((OSError, http.client.HTTPException)):
            export(running.grpc.address, turn_pb, tls=trusting)
    both, three = (running.http, running.grpc), [{"tls_handshake": 3}] * 2
    wait_until(lambda: [one.stats().clients_refused for one in both] == three, "three of each", seconds=10)
    why = "refused 127.0.0.1: no TLS handshake: peer did not return a certificate"
    assert [f"otlp_http: {why}", f"otlp_grpc: {why}"] == [r.getMessage() for r in caplog.records if "refused" in r.msg]


@pytest.mark.parametrize("build", [otlp_http, otlp_grpc])
def test_unusable_files(authority: Authority, tmp_path: Path, build: object) -> None:
    """Files that are missing or of another kind are a mistake in the settings; the message names them."""
    pair = authority.issue("server")
    empty = tmp_path / "empty.pem"
    empty.touch()
    for wrong, named in (
        ({**pair, "cert_file": str(tmp_path / "none.pem")}, "none.pem"),
        ({**pair, "key_file": pair["cert_file"]}, "server.pem"),
        ({**pair, "client_ca_file": str(empty)}, "empty.pem"),
    ):
        config = build.Config.model_validate({"tls": wrong})  # type: ignore[attr-defined]
        with pytest.raises(ConfigError, match=rf"otlp_\w+\.tls: reading .*{named}"):
            build.build(config, None, lambda: datetime.now(UTC))  # type: ignore[attr-defined]


def basic(pair: str) -> str:
    """Return the field of HTTP Basic authentication."""
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.fixture
def auth(tmp_path: Path) -> dict[str, object]:
    """Two tokens and two users, one of each in a file."""
    (tmp_path / "tokens").write_text("\nfrom-a-file\n")
    (tmp_path / "users").write_text("pk-lf-1:sk-lf-1\n")
    return {
        "tokens": ["s3cret"],
        "tokens_file": str(tmp_path / "tokens"),
        "users": {"zoë": "pass:word"},
        "users_file": str(tmp_path / "users"),
    }


GOOD = ("Bearer s3cret", "bearer  from-a-file ", basic("zoë:pass:word"), basic("pk-lf-1:sk-lf-1").replace("B", "b", 1))
BAD = (
    "",
    "Bearer",
    "Bearer s3cre",
    "Bearer s3crets",
    "s3cret",
    "Basic s3cret",
    "Basic !",
    basic("zoë"),
    basic("zoë:pass:words"),
    basic("s3cret:"),
    "Bearer zoë:pass:word".encode().decode("latin-1"),
    "Digest s3cret",
)


def test_credentials_over_http(serve: Serve, auth: dict[str, object], turn_pb: bytes) -> None:
    """Who names a token, or a user and password, is let in; others get 401, a challenge, and no byte is kept."""
    running = serve(http={"auth": auth})
    for wrong in BAD:
        reply = running.post(turn_pb, headers={"Authorization": wrong} if wrong else {})
        assert (401, 'Bearer, Basic realm="rag-monitor", charset="UTF-8"') == (
            reply.status,
            reply.headers["www-authenticate"],
        ), wrong
    assert [] == running.spans()
    assert {"unauthenticated": len(BAD)} == running.http.stats().requests
    for right in GOOD:
        assert 200 == running.post(turn_pb, headers={"Authorization": right}).status, right


def test_credentials_over_grpc(serve: Serve, auth: dict[str, object], turn_pb: bytes) -> None:
    """The same in gRPC's metadata; others get UNAUTHENTICATED."""
    running = serve(grpc={"auth": auth})
    for wrong in (header for header in BAD if header.isascii()):
        with pytest.raises(grpc.RpcError) as caught:
            call(target(running), turn_pb, authorization=wrong)
        assert grpc.StatusCode.UNAUTHENTICATED == caught.value.code(), wrong
    assert [] == running.spans()
    for right in GOOD:
        assert b"" == call(target(running), turn_pb, authorization=right), right


def test_renewed_credentials(serve: Serve, tmp_path: Path, turn_pb: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A withdrawn token or user is refused at the next request of an open connection, and a new one let in."""
    tokens, users = tmp_path / "tokens", tmp_path / "users"
    tokens.write_text("old-token\n")
    users.write_text("zoe:old-password\n")
    auth = {"tokens_file": str(tokens), "users_file": str(users)}
    running = serve(http={"auth": auth}, grpc={"auth": auth})
    old, new = ("Bearer old-token", basic("zoe:old-password")), ("Bearer new-token", basic("zoe:new-password"))
    options = (("grpc.use_local_subchannel_pool", 1),)
    with (
        closing(http.client.HTTPConnection(*running.http.address, timeout=10)) as connection,
        grpc.insecure_channel(target(running), options=options) as channel,
    ):

        def statuses(authorization: str) -> tuple[int, grpc.StatusCode]:
            connection.request(
                "POST", "/v1/traces", turn_pb, {"Content-Type": PROTOBUF, "Authorization": authorization}
            )
            reply = connection.getresponse()
            reply.read()
            try:
                channel.unary_unary(EXPORT)(turn_pb, timeout=10, metadata=(("authorization", authorization),))
            except grpc.RpcError as error:
                return reply.status, error.code()
            return reply.status, grpc.StatusCode.OK

        good, bad = (200, grpc.StatusCode.OK), (401, grpc.StatusCode.UNAUTHENTICATED)
        assert [good, good, bad, bad] == [statuses(authorization) for authorization in (*old, *new)]
        socket_before = connection.sock
        tokens.write_text("new-token\n")
        users.write_text("zoe:new-password\n")
        assert [bad, bad, good, good] == [statuses(authorization) for authorization in (*old, *new)]
        users.write_text("hidden\n")
        tokens.write_text("old-token\n")
        assert [good, bad, bad, good] == [statuses(authorization) for authorization in (*old, *new)]
        assert socket_before is connection.sock
    assert "otlp_http.auth.users_file: entry 1 is not `name:password`; what was read before stays in use" in caplog.text
    assert "hidden" not in caplog.text


def test_refused_credentials_are_told(serve: Serve, turn_pb: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """On both transports the log names the peer that was refused, once however often it tries, without what it sent."""
    auth = {"tokens": ["s3cret"]}
    running = serve(http={"auth": auth}, grpc={"auth": auth})
    for _ in range(20):
        assert 401 == running.post(turn_pb, headers={"Authorization": "Bearer wr0ng"}).status
        with pytest.raises(grpc.RpcError):
            call(target(running), turn_pb, authorization="Bearer wr0ng")
    why = "refused 127.0.0.1: no valid credentials in the Authorization field"
    assert [f"otlp_http: {why}", f"otlp_grpc: {why}"] == [r.getMessage() for r in caplog.records if "refused" in r.msg]
    assert "wr0ng" not in caplog.text


@pytest.mark.parametrize(
    ("auth", "said"),
    [
        ({}, "names nobody"),
        ({"tokens": [""]}, "empty"),
        ({"users": {"a:b": "c"}}, "colon"),
        ({"tokens": "s3cret"}, "expected a list"),
    ],
)
def test_credentials_that_let_nobody_in(auth: dict[str, object], said: str) -> None:
    """A section that would let nobody or everybody in is refused, without showing a secret."""
    with pytest.raises(ConfigError, match=said) as caught:
        plugin_config(otlp_http.Config, {"kind": "otlp_http", "auth": auth}, "collectors[0]")
    assert "s3cret" not in str(caught.value)


def test_files_of_credentials(tmp_path: Path) -> None:
    """A file that is missing, empty or of another form is a mistake in the settings, told without its content."""
    (tmp_path / "empty").write_text("\n \n")
    (tmp_path / "users").write_text("a:b\nhidden\n")
    for auth, said in (
        ({"tokens_file": tmp_path / "none"}, r"otlp_grpc\.auth\.tokens_file: cannot read"),
        ({"tokens_file": tmp_path / "empty"}, "is empty"),
        ({"tokens_file": Path("/dev/zero")}, "longer than 1,000,000 bytes"),
        ({"users_file": tmp_path / "users"}, r"otlp_grpc\.auth\.users_file: entry 2 is not `name:password`"),
    ):
        with pytest.raises(ConfigError, match=said) as caught:
            otlp_grpc.build(otlp_grpc.Config.model_validate({"auth": auth}), None, lambda: datetime.now(UTC))  # type: ignore[arg-type]
        assert "hidden" not in str(caught.value)


PREFLIGHT = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type,authorization"}


def test_web_pages(serve: Serve, turn_json: bytes) -> None:
    """Pages of the listed origins get an answer to their preflight and may read the reply; others get neither."""
    running = serve(http={"cors_origins": ["https://chat.example.org", "https://*.shop.example"]})
    for origin, allowed in (
        ("https://chat.example.org", True),
        ("https://eu.shop.example", True),
        ("https://chat.example.org.evil.example", False),
        ("http://chat.example.org", False),
        ("null", False),
    ):
        preflight = running.post(
            b"", path="/v1/traces", method="OPTIONS", content_type="", headers={"Origin": origin, **PREFLIGHT}
        )
        sent = running.post(turn_json, content_type="application/json", headers={"Origin": origin})
        assert ((204 if allowed else 405), 200) == (preflight.status, sent.status)
        for reply in (preflight, sent):
            assert (origin if allowed else None) == reply.headers.get("access-control-allow-origin")
        if allowed:
            assert "POST" == preflight.headers["access-control-allow-methods"]
            assert "content-type,authorization" == preflight.headers["access-control-allow-headers"]
            assert "true" == preflight.headers["access-control-allow-credentials"]


def test_web_pages_and_credentials(serve: Serve, turn_json: bytes) -> None:
    """A preflight carries no credentials and is answered; the page may read why its request was not let in."""
    running = serve(http={"cors_origins": ["*"], "auth": {"tokens": ["s3cret"]}})
    origin = {"Origin": "https://chat.example.org"}
    assert 204 == running.post(b"", method="OPTIONS", headers={**origin, **PREFLIGHT}).status
    refused = running.post(turn_json, content_type="application/json", headers=origin)
    assert (401, "https://chat.example.org") == (refused.status, refused.headers["access-control-allow-origin"])
    good = {**origin, "Authorization": "Bearer s3cret"}
    assert 200 == running.post(turn_json, content_type="application/json", headers=good).status


def test_no_web_pages_by_default(running: Running, turn_json: bytes) -> None:
    """By default no page is answered."""
    origin = {"Origin": "https://chat.example.org"}
    assert 405 == running.post(b"", method="OPTIONS", headers={**origin, **PREFLIGHT}).status
    reply = running.post(turn_json, content_type="application/json", headers=origin)
    assert not [name for name in reply.headers if name.startswith("access-control")]


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


@pytest.fixture
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path is short enough for a socket (107 bytes)."""
    return tmp_path_factory.mktemp("s")


def test_unix_sockets(serve: Serve, sockets: Path, turn_pb: bytes) -> None:
    """Both transports listen on a socket that owner and group may use; what a killed process left there is no bar."""
    paths = {"http": sockets / "http.sock", "grpc": sockets / "grpc.sock"}
    for path in paths.values():
        with closing(socket.socket(socket.AF_UNIX)) as left:
            left.bind(str(path))
    running = serve(http={"unix_socket": str(paths["http"])}, grpc={"unix_socket": str(paths["grpc"])})
    assert ((str(paths["http"]),), (str(paths["grpc"]),)) == (running.http.address, running.grpc.address)
    assert [0o660, 0o660] == [stat.S_IMODE(path.stat().st_mode) for path in paths.values()]
    with closing(UnixConnection(str(paths["http"]))) as connection:
        connection.request("POST", "/v1/traces", turn_pb, {"Content-Type": PROTOBUF})
        assert 200 == connection.getresponse().status
    assert b"" == call(f"unix:{paths['grpc']}", turn_pb)
    assert 3 == len({span.span_id for span in running.spans()})
    running.stop()
    assert [False, False] == [path.exists() for path in paths.values()]


@pytest.mark.parametrize("module", [otlp_http, otlp_grpc])
async def test_unix_socket_in_use(sockets: Path, module: object) -> None:
    """A socket that somebody listens on, and a file that is none, are mistakes in the settings."""
    path = sockets / "taken.sock"
    config = module.Config(unix_socket=path)  # type: ignore[attr-defined]
    clock = partial(datetime.now, UTC)
    with closing(socket.socket(socket.AF_UNIX)) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(ConfigError, match="already in use"):
            await module.build(config, None, clock).__aenter__()  # type: ignore[attr-defined]
    path.unlink()
    path.touch()
    with pytest.raises(ConfigError, match="no socket"):
        await module.build(config, None, clock).__aenter__()  # type: ignore[attr-defined]


async def test_several_listeners() -> None:
    """Collectors of one kind are told apart by name, and each has its own settings."""
    settings = Settings.model_validate(
        {
            "collectors": [
                {"kind": "otlp_http", "port": 0},
                {"kind": "otlp_http", "name": "outside", "port": 0, "auth": {"tokens": ["s3cret"]}},
                {"kind": "otlp_grpc", "port": 0},
                {"kind": "otlp_grpc", "name": "sidecar", "port": 0},
            ]
        }
    )

    collectors = build_collectors(settings, None, PluginFailures(), clock=lambda: datetime.now(UTC))  # type: ignore[arg-type]
    assert ["otlp_http", "outside", "otlp_grpc", "sidecar"] == list(collectors)
    async with AsyncExitStack() as running:
        for collector in collectors.values():
            await running.enter_async_context(collector)
        addresses = [collector.address for collector in collectors.values()]  # type: ignore[attr-defined]
        assert 4 == len(set(addresses))
        assert 405 == (await asyncio.to_thread(send, addresses[0], "GET", "/v1/traces")).status
        assert 401 == (await asyncio.to_thread(send, addresses[1], "GET", "/v1/traces")).status
    with pytest.raises(ConfigError, match=r"collectors\[1\]\.name: 'otlp_http' is taken"):
        build_collectors(
            Settings.model_validate({"collectors": [{"kind": "otlp_http"}, {"kind": "otlp_http"}]}),
            None,  # type: ignore[arg-type]
            PluginFailures(),
            clock=lambda: datetime.now(UTC),
        )
