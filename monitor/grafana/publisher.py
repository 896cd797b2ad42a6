"""Grafana: the dashboard as shipped, in a folder of its own, and an annotation on it for every alert.

Pushing is idempotent: a dashboard is written when it is missing or of another revision and still carries the tag
`managed`, an annotation when the alert has none or another end. Reads come before writes and both may be repeated.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from grafana_client.client import GrafanaClientError

from monitor.assets import asset_dir
from monitor.display.alert_text import explanation, headline
from monitor.errors import ConfigError, MonitorError, Paused, Permanent
from monitor.grafana.api import REFUSED_PAUSE, Api, Connection, field, items
from monitor.grafana.dashboard import MANAGED, RATE_PANEL, UID, DataSource, Json, bind, choose, load, revision, tags
from monitor.model.spans import EPOCH
from monitor.model.trends import Alert
from monitor.ports import Clock
from monitor.settings.tree import GrafanaSettings
from monitor.text.invisible import escaped

log = logging.getLogger(__name__)

T = TypeVar("T")

_TITLE = "RAG monitor"
_LONGEST_TAG = 100
_CONFLICT = frozenset({409, 412})
_BAD_REQUEST = 400
_MISSING = 404


class GrafanaPublisher:
    """Pushes to one Grafana; a `Publisher`. Calls wait for each other."""

    def __init__(self, settings: GrafanaSettings, *, clock: Clock) -> None:
        """Check the settings and read the dashboard file; nothing is sent.

        Raises:
            ConfigError: the address is missing or wrong, or the dashboard file is unreadable.
        """
        self._settings = settings
        self._connection = Connection(settings, clock=clock)
        self._model = load(asset_dir("dashboards") / "quality.json")
        self._turn = asyncio.Lock()
        self._clock = clock
        self._push_after: datetime | None = None
        self._provisioned = False
        self._unmanaged = False
        self._dashboard_problem = ""
        self._annotation_problems: dict[str, str] = {}
        """By alert id."""

    async def provision(self) -> None:
        """Make folder and dashboard exist as shipped; a dashboard that is provisioned or not `managed` is left alone.

        Raises:
            Retryable: Grafana does not answer, is in trouble, or refuses the token.
            Permanent: Grafana will not take the dashboard.
            ConfigError: no data source fits, or the token belongs to another organisation.
            Paused: it is too soon after a failure that only a person can end.
        """
        now = self._clock()
        if self._push_after is not None and now < self._push_after:
            raise Paused("grafana: pushing the dashboard: not tried", retry_after=self._push_after - now)
        self._push_after = None
        try:
            await self._call("pushing the dashboard", self._push)
        except MonitorError as error:
            self._dashboard_problem = _reason(error) or self._dashboard_problem
            if isinstance(error, ConfigError | Permanent):
                self._push_after = now + REFUSED_PAUSE
            raise
        self._dashboard_problem = ""

    async def annotate(self, alert: Alert) -> None:
        """Mark the alert's onset, and once it is resolved the span up to its recovery.

        Raises:
            Retryable: as `provision`.
            Permanent: Grafana will not take the annotation.
        """
        try:
            await self._call("annotating", lambda api: _annotate(api, alert))
        except MonitorError as error:
            if reason := _reason(error):
                self._annotation_problems[alert.alert_id] = reason
            raise
        self._annotation_problems.pop(alert.alert_id, None)

    def health(self) -> Mapping[str, str]:
        """Return what Grafana does not take now (`dashboard`, `annotations`) and why; empty when all is well."""
        problems = {"dashboard": self._dashboard_problem} if self._dashboard_problem else {}
        if self._annotation_problems:
            *_, latest = self._annotation_problems.values()
            problems["annotations"] = latest
        return problems

    async def check(self) -> str:
        """Return one line about what is there; only reads.

        Raises:
            Retryable, Permanent, ConfigError: as `provision`.
        """
        return await self._call("checking", self._look)

    async def close(self) -> None:
        """Let the connection go."""
        async with self._turn:
            await asyncio.to_thread(self._connection.close)

    async def _call(self, doing: str, use: Callable[[Api], T]) -> T:
        async with self._turn:
            return await asyncio.to_thread(self._connection.call, doing, use)

    def _push(self, api: Api) -> None:
        if self._provisioned:
            return
        self._check_organisation(api)
        model = bind(self._model, choose(_sources(api), self._settings.datasource))
        present = _present(api)
        if present is not None and not self._replaceable(present, model):
            return
        try:
            self._save(api, model, present)
        except GrafanaClientError as error:
            if error.status_code == _BAD_REQUEST and "provisioned" in str(error).lower():
                self._leave_provisioned()
                return
            if error.status_code not in _CONFLICT:
                raise
            present = _present(api)
            if present is None:
                self._save_beside_namesake(api, model)
                return
            if self._replaceable(present, model):
                self._save(api, model, present)
                log.info("grafana: dashboard %s changed while it was pushed; replaced on the second try", UID)

    def _save_beside_namesake(self, api: Api, model: dict[str, Json]) -> None:
        """Push a new dashboard under its other title: the first one is another's, which is never overwritten."""
        title = f"{model['title']} (rag-monitor)"
        try:
            self._save(api, {**model, "title": title}, None)
        except GrafanaClientError as error:
            if error.status_code not in _CONFLICT:
                raise
            raise Permanent(
                f"grafana: pushing the dashboard: other dashboards in folder {self._settings.folder!r} have the titles "
                f"{model['title']!r} and {title!r}; rename one of them, or name another folder in grafana.folder "
                f"({error.message})",
                reason="name_taken",
            ) from None
        log.warning("grafana: another dashboard has the title %r; ours is called %r", model["title"], title)

    def _replaceable(self, present: _Present, model: dict[str, Json]) -> bool:
        """Say whether the present dashboard may and must be replaced; without its tag it belongs to its users."""
        if present.provisioned:
            self._leave_provisioned()
            return False
        if MANAGED not in present.tags:
            if not self._unmanaged:
                log.info("grafana: dashboard %s has lost its tag %r and is not updated any more", UID, MANAGED)
            self._unmanaged = True
            return False
        self._unmanaged = False
        return revision(present.tags) != revision(tags(model))

    def _leave_provisioned(self) -> None:
        log.warning("grafana: dashboard %s is provisioned from a file; it is not pushed, annotations go on", UID)
        self._provisioned = True

    def _save(self, api: Api, model: dict[str, Json], present: _Present | None) -> None:
        # A dashboard that was moved or renamed stays so; one that is new never overwrites a namesake.
        folder_uid = present.folder if present else _make_folder(api, self._settings.folder)
        dashboard = {key: value for key, value in model.items() if key not in {"id", "version"}}
        if present and present.title:
            dashboard["title"] = present.title
        api.dashboard.update_dashboard(
            {
                "dashboard": dashboard,
                "folderUid": folder_uid,
                "message": f"rag-monitor {revision(tags(model))}",
                "overwrite": present is not None,
            }
        )
        log.info("grafana: dashboard %s pushed (%s)", UID, revision(tags(model)))

    def _check_organisation(self, api: Api) -> None:
        """A token belongs to one organisation, and a login may not be a member of the one that is asked for."""
        wanted = self._settings.org_id
        if wanted is None:
            return
        organization = field(api.organization.get_current_organization(), "id")
        if organization != wanted:
            raise ConfigError(
                f"the token (or login) belongs to organisation {organization}, the settings say {wanted}",
                where="grafana.org_id",
            )

    def _look(self, api: Api) -> str:
        version = field(api.client.GET("/health"), "version") or "of unknown version"
        self._check_organisation(api)
        source = choose(_sources(api), self._settings.datasource)
        present = _present(api)
        state = "missing, will be created" if present is None else "exists"
        if present is not None and present.provisioned:
            state = "provisioned from a file, left alone"
        elif present is not None and MANAGED not in present.tags:
            state = f"without its tag {MANAGED!r}, left alone"
        return (
            f"Grafana {version} at {self._connection.address}: data source {source.name!r} "
            f"({source.type}), dashboard {state}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Present:
    """The dashboard that Grafana has."""

    tags: tuple[str, ...]
    title: str
    folder: str
    provisioned: bool


def _present(api: Api) -> _Present | None:
    try:
        dashboard = api.dashboard.get_dashboard(UID)
    except GrafanaClientError as error:
        if error.status_code == _MISSING:
            return None
        raise
    meta = field(dashboard, "meta")
    return _Present(
        tags=tags(field(dashboard, "dashboard")),
        title=str(field(field(dashboard, "dashboard"), "title") or ""),
        folder=str(field(meta, "folderUid") or ""),
        provisioned=field(meta, "provisioned") is True,
    )


def _reason(error: MonitorError) -> str:
    """Return what is wrong; "" for a pause after something that was said then."""
    return "" if isinstance(error, Paused) else str(error)


def _sources(api: Api) -> tuple[DataSource, ...]:
    listed = api.datasource.list_datasources()
    if not isinstance(listed, list):
        raise Permanent("grafana: reading the data sources: the answer is not Grafana's", reason="not_grafana")
    return tuple(
        DataSource(uid=str(field(s, "uid")), name=str(field(s, "name")), type=str(field(s, "type")))
        for s in items(listed)
    )


def _make_folder(api: Api, uid: str) -> str:
    """Return the folder's uid, making it when it is missing; one that exists is reused and not renamed."""
    try:
        api.folder.get_folder(uid)
    except GrafanaClientError as error:
        if error.status_code != _MISSING:
            raise
        try:
            api.folder.create_folder(_TITLE, uid=uid)
        except GrafanaClientError as conflict:
            if conflict.status_code not in _CONFLICT:
                raise
            api.folder.get_folder(uid)
    return uid


def _annotate(api: Api, alert: Alert) -> None:
    regression = alert.regression
    series = regression.series
    name = f"alert:{alert.alert_id}"
    annotation_tags = [
        escaped(t)[:_LONGEST_TAG] for t in ("rag-monitor", series.app, series.metric, series.environment, name) if t
    ]
    began = _milliseconds(regression.began_at)
    ended = began if regression.recovered_at is None else _milliseconds(regression.recovered_at)
    text = f"{headline(alert)}. {explanation(alert)}"
    present = items(api.annotations.find_annotations(tags=[name], limit=1))
    if present:
        if (field(present[0], "time"), field(present[0], "timeEnd"), field(present[0], "text")) != (began, ended, text):
            api.annotations.partial_update_annotation(
                field(present[0], "id"), time_from=began, time_to=ended, tags=annotation_tags, text=text
            )
        return
    try:
        api.annotations.add_annotation(
            dashboard_uid=UID, panel_id=RATE_PANEL, time_from=began, time_to=ended, tags=annotation_tags, text=text
        )
    except GrafanaClientError as error:
        if error.status_code != _MISSING:
            raise
        # Without its dashboard an annotation still shows wherever a dashboard asks for its tags.
        api.annotations.add_annotation(time_from=began, time_to=ended, tags=annotation_tags, text=text)


def _milliseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)
