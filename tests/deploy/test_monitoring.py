"""Alert rules and dashboard: they parse, and every metric that they name exists."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped] # its stubs are another package

from holdfast.gateway.http.metrics import Metrics
from tests.house.places import ROOT

FOLDER = ROOT / "deploy" / "monitoring"
_METRIC = re.compile(r"\b((?:holdfast|process|python)_[a-z_]+)\b")
# Made by Prometheus itself.
_OWN = {"up"}


def served() -> set[str]:
    """Return the names of all series that a gateway serves."""
    metrics = Metrics()
    names: set[str] = set()
    for family in metrics.registry.collect():
        suffixes = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "info": ("_info",)}
        names |= {family.name + suffix for suffix in suffixes.get(family.type, ("",))}
    return names


def labels() -> dict[str, set[str]]:
    """Return the labels of each of our metrics, by the name of its series."""
    metrics = vars(Metrics())
    found: dict[str, set[str]] = {}
    for one in metrics.values():
        name, label_names = getattr(one, "_name", ""), getattr(one, "_labelnames", ())
        for suffix in ("", "_total", "_bucket"):
            found[name + suffix] = {*label_names, "job", "instance", "le"}
    return found


def alerts() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "dashboard.json").read_text())
    return found


def expressions() -> list[str]:
    shown = [target["expr"] for panel in dashboard()["panels"] for target in panel["targets"]]
    listed = [one["query"]["query"] for one in dashboard()["templating"]["list"] if isinstance(one["query"], dict)]
    return [*shown, *listed, *(rule["expr"] for rule in alerts())]


def test_every_metric_of_the_alerts_and_the_dashboard_exists() -> None:
    named = {name for expression in expressions() for name in _METRIC.findall(expression)}

    assert len(named) > 15
    assert named - served() == set()


@pytest.mark.parametrize("expression", expressions())
def test_every_label_of_an_expression_is_one_of_its_metric(expression: str) -> None:
    known = labels()
    for metric, selectors in re.findall(r"(holdfast_[a-z_]+)\{([^}]*)\}", expression):
        used = set(re.findall(r"(\w+)\s*=~?\"", selectors))
        assert used <= known[metric], metric
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        metrics = re.findall(r"holdfast_[a-z_]+", expression)
        assert all({part.strip() for part in grouped.split(",")} <= known[metric] for metric in metrics)


def test_alerts_say_what_to_do() -> None:
    for rule in alerts():
        assert {"alert", "expr", "for", "labels", "annotations"} <= set(rule)
        assert {"summary", "action"} <= set(rule["annotations"])
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


def test_panels_of_the_dashboard_have_places_of_their_own() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules_and_the_scrape_configuration() -> None:
    for arguments in (("rules", "alerts.yml"), ("config", "--syntax-only", "prometheus.yml")):
        done = subprocess.run(
            ["promtool", "check", *arguments], cwd=FOLDER, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_dashboard_shows_savings_also_where_they_are_losses() -> None:
    (panel,) = [one for one in dashboard()["panels"] if "saved for proxied" in one["title"]]

    assert 'request="own"' in panel["targets"][0]["expr"].partition(" - ")[0]
    assert 'request="sent"' in panel["targets"][0]["expr"].partition(" - ")[2]
    assert "min" not in panel["fieldConfig"]["defaults"]
