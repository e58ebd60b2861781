"""The deployment files: they parse, run without root on a read-only disk, and name only settings that exist."""

import configparser
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # its stubs are another package

from holdfast.config.schema import known_variables, read_configuration
from tests.house.places import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = ("compose.yml", "compose.cluster.yml")
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yml"))
USER = "10001:10001"


def instructions() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"\\\n\s*", " ", (DEPLOY / "Dockerfile").read_text())
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2].strip()) for line in lines]


def test_the_image_runs_without_root_and_tells_its_health() -> None:
    found = instructions()
    final = found[max(place for place, (name, _) in enumerate(found) if name == "FROM") :]
    last = dict(final)

    known = {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK"}
    assert {name for name, _ in found} <= known | {"ENTRYPOINT", "CMD"}
    assert (last["USER"], last["ENTRYPOINT"], last["CMD"]) == (USER, '["holdfast"]', '["serve"]')
    assert "/readyz" in last["HEALTHCHECK"]
    assert all(":" in argument.partition(" AS ")[0] for name, argument in found if name == "FROM")
    # Nothing is run as root after the user was set.
    assert [name for name, _ in final][[name for name, _ in final].index("USER") + 1 :].count("RUN") == 0
    variables = set(re.findall(r"(HOLDFAST_[A-Z_]+)=", last["ENV"]))
    assert variables <= known_variables()


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [
        source
        for name, argument in instructions()
        if name == "COPY" and not argument.startswith("--from")
        for source in argument.split()[:-1]
    ]

    assert [source for source in copied if not (ROOT / source).exists()] == []
    assert [source for source in copied if source.partition("/")[0] not in kept] == []


@pytest.mark.parametrize("name", COMPOSE)
def test_services_of_ours_are_confined_and_configured_by_known_variables(name: str) -> None:
    services: dict[str, Any] = yaml.safe_load((DEPLOY / name).read_text())["services"]
    ours = [service for service in services.values() if service["image"].startswith("holdfast:")]

    assert len(ours) == (1 if name == "compose.yml" else 3)
    for service in ours:
        assert (service["user"], service["read_only"], service["cap_drop"]) == (USER, True, ["ALL"])
        assert service["build"]["dockerfile"] == "deploy/Dockerfile"
        variables = {key: str(value) for key, value in service["environment"].items() if key.startswith("HOLDFAST_")}
        assert set(variables) <= known_variables()
        read_configuration(environ={"XDG_CONFIG_HOME": "/nowhere", **variables})
    assert [service["image"] for service in services.values() if not re.search(r":[\w.-]*\d", service["image"])] == []


def documents() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def test_manifests_have_a_kind_and_confined_containers() -> None:
    confined = 0
    for name, document in documents():
        assert document["apiVersion"], name
        assert document["kind"], name
        pod = document.get("spec", {}).get("template", {}).get("spec")
        if pod is None:
            continue
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod["volumes"]}
            confined += 1
    assert confined == 2


def test_the_kustomization_names_files_that_exist() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yml").read_text())["resources"]
    assert [name for name in listed if not (DEPLOY / "kubernetes" / name).exists()] == []
    if shutil.which("kubectl") is not None:
        done = subprocess.run(
            ["kubectl", "kustomize", str(DEPLOY / "kubernetes")], capture_output=True, check=False, timeout=60
        )
        assert (done.returncode, done.stdout.count(b"kind: Deployment")) == (0, 1), done.stderr


def test_configuration_files_are_read_by_the_gateway(tmp_path: Path) -> None:
    manifests = {document["kind"]: document for _, document in documents()}
    (tmp_path / "kubernetes.toml").write_text(manifests["ConfigMap"]["data"]["holdfast.toml"])
    for path in (tmp_path / "kubernetes.toml", DEPLOY / "holdfast.toml"):
        assert tomllib.loads(path.read_text())["store"]
        assert read_configuration(path=path, environ={}).settings.gateway.port == 8712


def test_the_unit_reloads_by_signal_and_writes_only_to_its_state(tmp_path: Path) -> None:
    text = (DEPLOY / "holdfast.service").read_text()
    unit = configparser.RawConfigParser(strict=False, comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment,method-assign] # names are case-sensitive
    unit.read_string(text)
    service = dict(unit["Service"])

    assert (service["Type"], service["ExecReload"]) == ("notify", "/bin/kill -HUP $MAINPID")
    assert (service["ProtectSystem"], service["NoNewPrivileges"]) == ("strict", "yes")
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    # It looks for the program and the user, which are not on this machine.
    here = text.replace("/opt/holdfast/bin/holdfast", "/bin/true").replace("User=holdfast", "User=root")
    (tmp_path / "holdfast.service").write_text(here)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "holdfast.service")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert [line for line in done.stderr.splitlines() if "holdfast.service" in line and "nknown" in line] == []
