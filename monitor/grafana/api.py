"""Grafana's HTTP API through grafana-client: one connection, our errors, and a pause when the token is refused.

Nothing here holds or prints the token but the connection itself. Written against Grafana 9 to 13.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol, TypeVar, cast
from urllib.parse import unquote, urlsplit

from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaException, GrafanaTimeoutError
from niquests import PreparedRequest, Response
from niquests.exceptions import RequestException, SSLError

from monitor.errors import ConfigError, Paused, Permanent, RateLimited, Retryable, without_parts_of
from monitor.ports import Clock
from monitor.settings.section import header_secret
from monitor.settings.tree import GrafanaSettings

log = logging.getLogger(__name__)

T = TypeVar("T")

REFUSED_PAUSE = timedelta(minutes=5)
"""Between two tries of what Grafana refuses: of all while it answers 401 or a login page, else of the same, such as
to push the dashboard; more would only fill logs."""

_EVERYTHING = "everything"
_FORBIDDEN = 403
_REFUSED = frozenset({401, _FORBIDDEN})
_WITH_CONTENT = frozenset({200, 201, 202})
_AGAIN = frozenset({408, 425})
_TOO_MANY = 429
_SERVER_ERRORS = 500
_LONGEST_MESSAGE = 200


class Api(Protocol):
    """The part of grafana-client's `GrafanaApi` that is used, with the types it leaves out; replies are JSON."""

    @property
    def client(self) -> _Client: ...  # noqa: D102 -- as grafana-client documents it, here and below

    @property
    def organization(self) -> _Organization: ...  # noqa: D102

    @property
    def datasource(self) -> _Datasource: ...  # noqa: D102

    @property
    def folder(self) -> _Folder: ...  # noqa: D102

    @property
    def dashboard(self) -> _Dashboard: ...  # noqa: D102

    @property
    def annotations(self) -> _Annotations: ...  # noqa: D102


class _Client(Protocol):
    def GET(self, url: str) -> object: ...  # noqa: N802 -- grafana-client's name


class _Organization(Protocol):
    def get_current_organization(self) -> object: ...


class _Datasource(Protocol):
    def list_datasources(self) -> object: ...


class _Folder(Protocol):
    def get_folder(self, uid: str) -> object: ...

    def create_folder(self, title: str, uid: str) -> object: ...


class _Dashboard(Protocol):
    def get_dashboard(self, dashboard_uid: str) -> object: ...

    def update_dashboard(self, dashboard: Mapping[str, object]) -> object: ...


class _Annotations(Protocol):
    def find_annotations(self, *, tags: Sequence[str], limit: int) -> object: ...

    def add_annotation(
        self,
        *,
        dashboard_uid: str | None = None,
        panel_id: int | None = None,
        time_from: int,
        time_to: int,
        tags: Sequence[str],
        text: str,
    ) -> object: ...

    def partial_update_annotation(
        self, annotations_id: object, *, time_from: int, time_to: int, tags: Sequence[str], text: str
    ) -> object: ...


class _NotGrafanaError(Exception):
    """A page answered, such as that of a login, which may look like a success; the message says what came."""


class Connection:
    """Calls Grafana; of one thread at a time. The token file is read anew after every refusal."""

    def __init__(self, settings: GrafanaSettings, *, clock: Clock) -> None:
        """Check address and token; nothing is sent.

        Raises:
            ConfigError: there is no address, or it is not one; the token cannot be read or sent.
        """
        self._settings = settings
        self._clock = clock
        self._address = _Address(settings.url)
        _token(settings)
        self._api: GrafanaApi | None = None
        self._secrets: tuple[str, ...] = ()
        """What Grafana's answers are shown without: what was sent to get in."""
        self._not_before: dict[str, datetime] = {}
        """What was refused -> when to try it again; `_EVERYTHING` is refused to a token that is none."""

    @property
    def address(self) -> str:
        """Where Grafana is, without credentials."""
        return self._address.shown

    def call(self, doing: str, use: Callable[[Api], T]) -> T:
        """Return what `use` returns; `doing` names the work in errors.

        Raises:
            Retryable: no answer, a server error, or a refusal.
            Paused: nothing was sent, since this or everything was refused less than `REFUSED_PAUSE` ago; or it is
                refused once more.
            Permanent: Grafana understood and will not; `reason` is `http_<status>`.
            ConfigError: there is no token.
        """
        now = self._clock()
        not_before = max(self._not_before.get(what, now) for what in (_EVERYTHING, doing))
        if now < not_before:
            raise Paused(
                f"grafana: {doing}: not tried, the token was refused; next try in {not_before - now}",
                retry_after=not_before - now,
            )
        if self._api is None:
            self._api = self._connect()
        try:
            result = use(cast("Api", self._api))
        except GrafanaException as error:
            message = without_parts_of(_message(error), self._secrets)
            if error.status_code not in _REFUSED:
                raise _translated(doing, error, message) from None
            # 403 is about this right, of which a token may have others.
            what = doing if error.status_code == _FORBIDDEN else _EVERYTHING
            answer = f"answered {error.status_code} ({message}); the token needs the right to do this"
            raise self._refused(doing, answer, what=what, now=now) from None
        except _NotGrafanaError as error:
            answer = without_parts_of(str(error), self._secrets)
            raise self._refused(doing, answer, what=_EVERYTHING, now=now) from None
        except SSLError as error:
            self.close()
            raise Retryable(
                f"grafana: {doing}: the certificate of {self.address} is not trusted or not for that name; "
                "grafana.ca_file names the authority to trust"
            ) from error
        except (RequestException, OSError) as error:
            raise Retryable(f"grafana: {doing}: no answer from {self.address}: {type(error).__name__}") from error
        if self._not_before:
            accepted = [self._not_before.pop(what, None) for what in (_EVERYTHING, doing)]
            if any(accepted):
                log.info("grafana: %s accepts the token again", self.address)
        return result

    def close(self) -> None:
        """Let the connection go; the next call opens another."""
        if self._api is not None:
            self._api.client.s.close()
            self._api = None

    def _connect(self) -> GrafanaApi:
        settings = self._settings
        token = _token(settings)
        credential: str | tuple[str, str] | None = token or self._address.login
        self._secrets = _sent(credential)
        if credential is None:
            raise ConfigError("missing; give token, token_file or the variable GRAFANA_TOKEN", where="grafana.token")
        # A login may see several organisations, and says in each request which; a token belongs to one.
        organization = None if token else settings.org_id
        # GrafanaApi.from_url joins "grafana" and "api" to "grafanaapi" without a trailing slash, and lets
        # "?verify=false" in an address switch certificate checks off.
        api = GrafanaApi(
            auth=credential,
            protocol=self._address.scheme,
            host=self._address.host,
            port=self._address.port,
            url_path_prefix=self._address.prefix,
            verify=str(settings.ca_file) if settings.ca_file else True,
            timeout=settings.timeout.total_seconds(),
            user_agent="rag-monitor",
            organization_id=organization,
        )
        api.client.s.hooks["response"] = [_only_grafana]
        return api

    def _refused(self, doing: str, answer: str, *, what: str, now: datetime) -> Retryable:
        again = what in self._not_before
        self._not_before[what] = now + REFUSED_PAUSE
        self.close()
        return (Paused if again else Retryable)(
            f"grafana: {doing}: {self.address} {answer}; trying again every {REFUSED_PAUSE}, everything else goes on",
            retry_after=REFUSED_PAUSE,
        )


def _token(settings: GrafanaSettings) -> str | None:
    return header_secret(settings.token, settings.token_file, "grafana.token")


def _sent(credential: str | tuple[str, str] | None) -> tuple[str, ...]:
    """Return what stands for the credential in requests; RFC 7617 for a login."""
    if isinstance(credential, tuple):
        return credential[1], b64encode(":".join(credential).encode()).decode()
    return (credential,) if credential else ()


class _Address:
    """An address as the settings take it (`settings.addresses`), taken apart, with or without a path and a slash."""

    def __init__(self, url: str | None) -> None:
        if not url:
            raise ConfigError("missing; give it or the variable GRAFANA_URL", where="grafana.url")
        parts = urlsplit(url)
        self.port = parts.port
        self.scheme = parts.scheme
        host = parts.hostname or ""
        self.host = f"[{host}]" if ":" in host else host
        path = parts.path.strip("/")
        self.prefix = f"{path}/" if path else ""
        self.login = (unquote(parts.username), unquote(parts.password)) if parts.username and parts.password else None
        self.shown = f"{self.scheme}://{self.host}{f':{self.port}' if self.port else ''}/{self.prefix}"


def field(reply: object, name: str) -> object:
    """Return a field of an object in a reply; None when the reply is no object or has no such field."""
    return reply.get(name) if isinstance(reply, Mapping) else None


def items(reply: object) -> tuple[object, ...]:
    """Return the items of a list in a reply; () when the reply is no list."""
    return tuple(reply) if isinstance(reply, list) else ()


def _only_grafana(response: PreparedRequest | Response, **_: object) -> None:
    """Refuse what follows a redirect or is no JSON: a POST that ends on a page has changed nothing, with status 200.

    Called for each response before a redirect is followed.
    """
    if isinstance(response, Response) and (problem := _not_grafana(response)):
        response.close()
        raise _NotGrafanaError(problem)


def _not_grafana(response: Response) -> str:
    status = response.status_code or 0
    if location := response.headers.get("Location") if 300 <= status < 400 else None:  # noqa: PLR2004 -- RFC 9110
        return (
            f"redirects to {_without_query(str(location))}: a login stands before Grafana, or it has moved; "
            "grafana.url must be Grafana's own address, and the token must get past the login"
        )
    kind = str(response.headers.get("Content-Type") or "nothing")
    if status in _WITH_CONTENT and "json" not in kind:
        return (
            f"answered with a page ({kind.partition(';')[0]}) and not as Grafana does: a login stands before it, or "
            "grafana.url is another server's"
        )
    return ""


def _without_query(address: str) -> str:
    """Return an address without what may be a secret: login, query and fragment."""
    parts = urlsplit(address)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


def _translated(doing: str, error: GrafanaException, message: str) -> Retryable | Permanent:
    text = f"grafana: {doing}: answered {error.status_code} ({message})"
    if isinstance(error, GrafanaTimeoutError) or not error.status_code:
        return Retryable(f"grafana: {doing}: no answer in time")
    if error.status_code == _TOO_MANY:
        return RateLimited(text)
    if error.status_code in _AGAIN or error.status_code >= _SERVER_ERRORS:
        return Retryable(text)
    return Permanent(text, reason=f"http_{error.status_code}")


def _message(error: GrafanaException) -> str:
    """Return Grafana's own message, on one line and shortened; it may repeat the request."""
    message = field(error.response, "message") or error.response
    return " ".join(str(message).split())[:_LONGEST_MESSAGE]
