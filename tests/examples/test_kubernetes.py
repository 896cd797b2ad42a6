"""What the Kubernetes recipes say, held against Kubernetes' schemas, our settings, the Dockerfile and their page."""

from __future__ import annotations

import re
import tomllib
from datetime import timedelta
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from container import DOCKERFILE, ROOT
from dockerfile import stages
from pod import Manifest, manifests, named_files, of_kind

from monitor.settings import tree as settings_tree

FOLDER = ROOT / "examples" / "kubernetes"
RECIPES = {path.stem: manifests(path) for path in sorted(FOLDER.glob("*.yaml"))}
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")
SECRETS = {
    name: set(re.findall(r"--from-file=([\w-]+)", rest))
    for name, rest in re.findall(r"kubectl create secret generic (\S+)(.*)$", PAGE, re.MULTILINE)
} | {"rag-monitor-tls": {"tls.crt", "tls.key"}}
"""Keys of the Secrets that the page has people make."""
WORKLOADS = [
    pytest.param(documents, document, id=f"{recipe}-{document['metadata']['name']}")
    for recipe, documents in RECIPES.items()
    for document in documents
    if "template" in document.get("spec", {})
]
DOCUMENTS = [
    pytest.param(document, id=f"{recipe}-{document['kind']}-{document['metadata']['name']}")
    for recipe, documents in RECIPES.items()
    for document in documents
]


def settings_of(documents: tuple[Manifest, ...]) -> str:
    """The settings file of a recipe."""
    (config,) = of_kind(documents, "ConfigMap")
    text: str = config["data"]["rag-monitor.yaml"]
    return text


def container_of(workload: Manifest) -> dict[str, Any]:
    """The one container of a workload."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = container
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_schema(document: Manifest) -> None:
    """Each manifest is of Kubernetes' schema, with no key that it does not know."""
    assert "1.33" == kubernetes_validate.validate(document, "1.33", strict=True)


@pytest.mark.parametrize("workload", [case.values[1] for case in WORKLOADS], ids=[case.id for case in WORKLOADS])
def test_restricted(workload: Manifest) -> None:
    """Each Pod keeps the Pod Security Standard `restricted`, writes to no root, and asks for what it needs."""
    pod, container = workload["spec"]["template"]["spec"], container_of(workload)
    expected = {"runAsNonRoot": True, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532}
    assert expected.items() <= pod["securityContext"].items()
    assert {"type": "RuntimeDefault"} == pod["securityContext"]["seccompProfile"]
    assert {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    } == container["securityContext"]
    assert {"automountServiceAccountToken": False, "enableServiceLinks": False}.items() <= pod.items()
    assert [] == [key for key in ("hostNetwork", "hostPID", "hostIPC", "initContainers") if key in pod]
    assert {"configMap", "secret", "emptyDir"} >= {kind for volume in pod["volumes"] for kind in volume} - {"name"}
    assert ({"cpu", "memory"}, {"memory"}) == tuple(set(container["resources"][k]) for k in ("requests", "limits"))


@pytest.mark.parametrize(("documents", "workload"), WORKLOADS)
def test_files_are_mounted(documents: tuple[Manifest, ...], workload: Manifest) -> None:
    """Every file that a process reads is a key of a Secret that the page makes, and no secret is a variable."""
    pod, container = workload["spec"]["template"]["spec"], container_of(workload)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounted = {}
    for mount in container["volumeMounts"]:
        secret = volumes.get(mount["name"], {}).get("secret")
        if secret:
            assert (True, None) == (mount["readOnly"], mount.get("subPath"))
            mounted |= {Path(mount["mountPath"], key): secret["secretName"] for key in SECRETS[secret["secretName"]]}
    named = set(named_files(yaml.safe_load(settings_of(documents))))
    read = {file for file in named if file.name == "password"} if workload["kind"] == "Job" else named
    assert read == set(mounted)
    assert [] == [variable for variable in container.get("env", ()) if "value" not in variable]


@pytest.mark.parametrize("recipe", RECIPES)
def test_settings_load(recipe: str, tmp_path: Path) -> None:
    """The settings are ours, and the process has less time to end than Kubernetes gives it."""
    path = tmp_path / "rag-monitor.yaml"
    path.write_text(settings_of(RECIPES[recipe]), encoding="utf-8")
    loaded = settings_tree.load(path, {})
    running = [document for document in RECIPES[recipe] if document["kind"] in {"Deployment", "StatefulSet"}]
    graces = {document["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] for document in running}
    assert {True} == {loaded.runtime.stop_within + timedelta(seconds=5) <= timedelta(seconds=one) for one in graces}


@pytest.mark.parametrize("recipe", RECIPES)
def test_names_meet(recipe: str) -> None:
    """Selectors choose Pods that are there, and ports are named that they have."""
    documents = RECIPES[recipe]
    pods = [d["spec"]["template"] for d in documents if d["kind"] in {"Deployment", "StatefulSet"}]
    for document in documents:
        spec = document.get("spec", {})
        match document["kind"]:
            case "Service":
                chosen = chosen_by(spec["selector"], pods)
                ports = {port["targetPort"] for port in spec["ports"]}
            case "Deployment" | "StatefulSet":
                assert [spec["template"]] == chosen_by(spec["selector"]["matchLabels"], pods)
                chosen, ports = [spec["template"]], {"web"}
            case "PodDisruptionBudget":
                chosen, ports = chosen_by(spec["selector"]["matchLabels"], pods), {"web"}
                assert (1, 1) == (len(chosen), spec["maxUnavailable"])
            case "NetworkPolicy":
                chosen = chosen_by(spec["podSelector"]["matchLabels"], pods)
                assert len(pods) == len(chosen)
                ports = {port["port"] for rule in spec["ingress"] for port in rule["ports"]}
                chosen = [pod for pod in chosen if len(pod["spec"]["containers"][0]["ports"]) > 1]
            case _:
                continue
        assert chosen
        for pod in chosen:
            assert ports <= {port["name"] for port in pod["spec"]["containers"][0]["ports"]}


def chosen_by(labels: dict[str, str], pods: list[Manifest]) -> list[Manifest]:
    """The Pods that carry all of these labels."""
    return [pod for pod in pods if labels.items() <= pod["metadata"]["labels"].items()]


def test_one_process_on_sqlite() -> None:
    """SQLite has one process, whose volume no second one may mount."""
    (workload,) = of_kind(RECIPES["sqlite"], "StatefulSet")
    (claim,) = workload["spec"]["volumeClaimTemplates"]
    assert (1, ["ReadWriteOncePod"]) == (workload["spec"]["replicas"], claim["spec"]["accessModes"])


def test_image() -> None:
    """The image ends as the recipes' user, holds no secret, and is of this version."""
    *_, last = stages(DOCKERFILE)
    assert "65532:65532" == last.the("USER")
    assert [] == [name for name in last.environment() if re.search("KEY|TOKEN|PASSWORD|SECRET", name)]
    images = {container_of(w)["image"] for w in (case.values[1] for case in WORKLOADS)}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {f"registry.example.org/rag-monitor:{project['version']}"} == images
