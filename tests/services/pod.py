"""A Pod of a Kubernetes manifest as a container of this machine: its volumes are folders, laid as the kubelet does."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from container import Mount

Manifest: TypeAlias = dict[str, Any]
Files: TypeAlias = Mapping[str, str]

_UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


def manifests(path: Path) -> tuple[Manifest, ...]:
    """The documents of a file."""
    return tuple(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_kind(documents: tuple[Manifest, ...], kind: str) -> tuple[Manifest, ...]:
    """Those of one kind."""
    return tuple(document for document in documents if document["kind"] == kind)


def bytes_of(quantity: str) -> int:
    """What a quantity such as `256Mi` is in bytes."""
    number, unit = re.fullmatch(r"(\d+)(\w*)", quantity).groups()  # type: ignore[union-attr]
    return int(number) * _UNITS[unit]


@dataclass(frozen=True, slots=True)
class Volumes:
    """Makes the folders of a Pod's volumes below one folder, for the group that `fsGroup` names."""

    folder: Path
    config_maps: Mapping[str, Files]
    secrets: Mapping[str, Files]

    def mounts(self, workload: Manifest) -> dict[str, Mount]:
        """The mounts of its one container by their paths."""
        pod = workload["spec"]["template"]["spec"]
        claims = [{"name": c["metadata"]["name"], "claim": c} for c in workload["spec"].get("volumeClaimTemplates", ())]
        volumes = {volume["name"]: volume for volume in (*pod["volumes"], *claims)}
        (container,) = pod["containers"]
        return {
            mount["mountPath"]: self._mount(volumes[mount["name"]], pod["securityContext"]["fsGroup"])
            for mount in container["volumeMounts"]
        }

    def rotate(self, secret: str, files: Files, group: int = 65532) -> None:
        """Change a Secret as the kubelet does: a new folder beside the old one, and a link that is replaced."""
        folder = self.folder / secret
        new = folder / f"..{len(list(folder.iterdir()))}"
        _write(new, files, group, 0o440)
        link = folder / "..new"
        link.symlink_to(new.name)
        link.replace(folder / "..data")

    def _mount(self, volume: Manifest, group: int) -> Mount:
        match volume:
            case {"emptyDir": {"medium": "Memory", "sizeLimit": size}}:
                return Mount(source=None, size=bytes_of(size))
            case {"configMap": {"name": name}}:
                return Mount(source=self._projected(name, self.config_maps[name], group, 0o644))
            case {"secret": {"secretName": name, "defaultMode": mode}}:
                return Mount(source=self._projected(name, self.secrets[name], group, mode))
            case {"claim": _}:
                return Mount(source=_folder(self.folder / volume["name"], group), writable=True)
        raise AssertionError(volume)

    def _projected(self, name: str, files: Files, group: int, mode: int) -> Path:
        kind = "config" if mode & 0o4 else "secret"
        folder = self.folder / (name if kind == "secret" else f"{name}.{kind}")
        if not folder.exists():
            folder.mkdir(mode=0o755)
            _write(folder / "..1", files, group, mode)
            (folder / "..data").symlink_to("..1")
            for key in files:
                (folder / key).symlink_to(f"..data/{key}")
        return folder


def named_files(settings: object) -> Iterator[Path]:
    """The files that settings name."""
    if isinstance(settings, dict):
        for key, value in settings.items():
            if key.endswith("_file"):
                yield Path(value)
            else:
                yield from named_files(value)
    elif isinstance(settings, list):
        for value in settings:
            yield from named_files(value)


def _folder(path: Path, group: int) -> Path:
    path.mkdir()
    os.chown(path, 0, group)
    path.chmod(0o2770)
    return path


def _write(folder: Path, files: Files, group: int, mode: int) -> None:
    folder.mkdir(mode=0o755)
    for name, text in files.items():
        path = folder / name
        path.write_text(text, encoding="utf-8")
        os.chown(path, 0, group)
        path.chmod(mode)
