"""docs/operating.md from a fresh machine: its commands run in order, with stand-ins for packages, users and systemd."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.cli.local_gateway import free_port
from tests.cli.programs import environment
from tests.house.places import ROOT

_FENCE = re.compile(r"^```shell\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_SECONDS_MAX = 300
# Root is not needed: folders of the system are below a folder of the test, and these functions stand in for the rest.
_STAND_INS = r"""
set -euo pipefail
sudo() { if [ "$1" = -u ]; then shift 2; fi; "$@"; }
apt-get() { echo "packages: $*" >&2; }
useradd() { echo "user: $*" >&2; }
python3() {
    [ "$1 $2" = "-m venv" ]
    mkdir -p "$3/bin"
    printf '#!/bin/sh\nexec %s -m holdfast "$@"\n' "$PYTHON" > "$3/bin/holdfast"
    printf '#!/bin/sh\nfor one; do case $one in requirements/*) test -f "$one" || exit 1;; esac; done\n' > "$3/bin/pip"
    chmod +x "$3/bin/holdfast" "$3/bin/pip"
}
install() {
    local kept=()
    while [ $# -gt 0 ]; do
        case $1 in -o | -g) shift 2 ;; *) kept+=("$1"); shift ;; esac
    done
    mkdir -p "$(dirname "${kept[-1]}")"
    command install "${kept[@]}"
}
systemctl() {
    case "$*" in
    "enable --now holdfast")
        $(sed -n 's/^ExecStart=//p' "$UNIT") < /dev/null > "$LOG.out" 2> "$LOG" &
        echo $! > "$PID"
        for _ in $(seq 600); do curl -fsS -o /dev/null "127.0.0.1:$PORT/readyz" 2> /dev/null && return; sleep 0.1; done
        cat "$LOG" >&2
        return 1
        ;;
    "reload holdfast") MAINPID=$(cat "$PID") && eval "$(sed -n 's/^ExecReload=//p' "$UNIT")" ;;
    "restart prometheus" | "restart grafana-server") ;;
    *) return 1 ;;
    esac
}
trap 'kill "$(cat "$PID")" 2> /dev/null || true' EXIT
"""


def below(root: Path, text: str) -> str:
    """Return a text with the system's folders below another."""
    return re.sub(r"(?<![\w/.])/(opt|etc|var)/", rf"{root}/\1/", text)


@pytest.mark.skipif(shutil.which("curl") is None or shutil.which("bash") is None, reason="needs bash and curl")
def test_the_page_leads_from_a_fresh_machine_to_keys_budgets_metrics_and_a_dashboard(tmp_path: Path) -> None:
    root, work, port = tmp_path / "root", tmp_path / "work", str(free_port())
    (work / "requirements").mkdir(parents=True)
    for path in (ROOT / "deploy").rglob("*"):
        if path.is_file():
            copy = work / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(below(root, path.read_text()))
    for name in ("image.txt", "build.txt"):
        shutil.copy(ROOT / "requirements" / name, work / "requirements")
    page = (ROOT / "docs" / "operating.md").read_text()
    commands = "\n".join(found["text"] for found in _FENCE.finditer(page))
    script = _STAND_INS + below(root, commands).replace("8712", port)
    settings = {
        "PYTHON": sys.executable,
        "PORT": port,
        "LOG": str(tmp_path / "log"),
        "PID": str(tmp_path / "pid"),
        "UNIT": str(root / "etc/systemd/system/holdfast.service"),
        # The file of the machine is found by itself where it is in /etc.
        "HOLDFAST_CONFIG": str(root / "etc/holdfast/holdfast.toml"),
        "HOLDFAST_GATEWAY_PORT": port,
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path[:1]),
    }

    done = subprocess.run(
        ["bash", "-c", script],
        cwd=work,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert '"status":"ready"' in done.stdout
    # Both keys are answered, then only the one whose budget is not used up.
    assert re.findall(r"(\d{3})$", done.stdout, re.MULTILINE)[:4] == ["200", "200", "429", "200"]
    assert re.search(r'holdfast_key_requests_total\{key="alice",outcome="limited"\} 1\.0', done.stdout)
    assert re.search(r"^\d{4}-\d\d-\d\d +alice +sim ", done.stdout, re.MULTILINE)
    assert '"event":"reloaded"' in (tmp_path / "log").read_text()
    # Everything that Prometheus and Grafana read is in its place, and the file with the key is not for everybody.
    assert (root / "etc/prometheus/holdfast.key").read_text().startswith("hf_")
    assert (root / "etc/prometheus/holdfast.key").stat().st_mode & 0o007 == 0
    assert (root / "etc/prometheus/alerts.yml").exists()
    assert "holdfast" in (root / "var/lib/grafana/dashboards/holdfast.json").read_text()
    provider = (root / "etc/grafana/provisioning/dashboards/holdfast.yml").read_text()
    assert str(root / "var/lib/grafana/dashboards") in provider
