"""Prometheus and Grafana of the compose files: whom they ask, what they show, and to whom."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.compose_files import OBSERVED, SCALED, composed, networks
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
CONFIG = DEPLOY / "prometheus" / "prometheus.yml"
ALERTS = CONFIG.parent / "alerts.yml"
TESTS_OF_ALERTS = Path(__file__).parent / "alerts.test.yml"
PARTIES = ("leader", "helper", "collector")
arrangements = pytest.mark.parametrize("files", [OBSERVED, SCALED], ids=" ".join)


def parsed(path: Path) -> Any:  # noqa: ANN401  whatever YAML holds
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def listening(services: dict[str, Any], party: str) -> dict[str, str]:
    """Return the health listener of each service of a party that has one."""
    return {
        name: each["environment"]["PRIO_HEALTH_LISTEN"]
        for name, each in services.items()
        if name.split("-")[0] == party and "PRIO_HEALTH_LISTEN" in each["environment"]
    }


def alerts() -> dict[str, dict[str, Any]]:
    """Return the alerts by name, in the file's order."""
    (group,) = parsed(ALERTS)["groups"]
    return {each["alert"]: each for each in group["rules"]}


@arrangements
def test_what_observes_has_no_secret_and_reads_only_files_of_ours(files: tuple[str, ...]) -> None:
    services = composed(files)["services"]
    for service in (services["prometheus"], services["grafana"]):
        assert not re.search("password|secret_key|token", str(service), re.IGNORECASE)
        for volume in service["volumes"]:
            if volume.startswith("/"):
                source, _, mode = volume.split(":")
                assert mode == "ro"
                assert Path(source).exists()


@arrangements
def test_a_health_listener_is_met_by_its_own_party_and_prometheus_alone(
    files: tuple[str, ...],
) -> None:
    whole = composed(files)
    services = whole["services"]
    watches = {name for name in whole["networks"] if name.endswith("-watch")}
    assert watches == {f"{party}-watch" for party in PARTIES}
    assert all(whole["networks"][name] == {"internal": True} for name in watches)
    joined = {name: set(networks(each)) for name, each in services.items()}
    assert joined["prometheus"] == watches | {"observation"}
    for party in PARTIES:
        watch, members = f"{party}-watch", listening(services, party)
        assert members
        assert {name for name in joined if watch in joined[name]} == {*members, "prometheus"}
        for name, listener in members.items():
            assert networks(services[name])[watch] == [f"{party}-health"]
            if listener.startswith("0.0.0.0:"):
                others = {each for net in joined[name] for each in joined if net in joined[each]}
                assert all(each == "prometheus" or each.startswith(party) for each in others)
            else:
                assert f"{party}-" in listener
    assert not joined["grafana"] & watches


@arrangements
def test_prometheus_asks_every_party_under_the_name_that_it_has(files: tuple[str, ...]) -> None:
    services = composed(files)["services"]
    scraped = {
        each["job_name"]: each["dns_sd_configs"] for each in parsed(CONFIG)["scrape_configs"]
    }
    assert scraped.keys() == set(PARTIES)
    for party, (found,) in scraped.items():
        assert found["names"] == [f"{party}-health"]
        for listener in listening(services, party).values():
            assert listener.endswith(f":{found['port']}")


def test_grafana_has_the_dashboard_and_asks_prometheus_as_often_as_that_asks() -> None:
    services = composed(OBSERVED)["services"]
    provisioning = DEPLOY / "grafana" / "provisioning"
    (source,) = parsed(provisioning / "datasources" / "prometheus.yml")["datasources"]
    host, port = source["url"].removeprefix("http://").split(":")
    assert services[host]["ports"][0].endswith(f":{port}")
    assert set(networks(services["grafana"])) <= set(networks(services[host]))
    interval = parsed(CONFIG)["global"]["scrape_interval"]
    assert source["jsonData"]["timeInterval"] == interval
    (provider,) = parsed(provisioning / "dashboards" / "prio.yml")["providers"]
    shown = f"grafana/prio.json:{provider['options']['path']}/prio.json:ro"
    assert [each for each in services["grafana"]["volumes"] if each.endswith(shown)]
    variables = json.loads((DEPLOY / "grafana" / "prio.json").read_text())["templating"]["list"]
    kinds = {each["query"] for each in variables if each["type"] == "datasource"}
    assert kinds == {source["type"]}


def promtool(*arguments: str | Path) -> None:
    """Run promtool, which must find nothing wrong."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: apt-get install prometheus")
    done = subprocess.run(  # noqa: S603  our own command
        ["promtool", *arguments],  # noqa: S607  found on the PATH
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)


def test_prometheus_takes_its_configuration_with_the_alerts() -> None:
    promtool("check", "config", "--lint-fatal", CONFIG)
    promtool("check", "rules", "--lint-fatal", ALERTS)


def test_each_alert_comes_when_it_is_due_and_not_before() -> None:
    promtool("test", "rules", TESTS_OF_ALERTS)
    tested = {
        each["alertname"]
        for group in parsed(TESTS_OF_ALERTS)["tests"]
        for each in group["alert_rule_test"]
        if "exp_alerts" in each
    }
    assert tested == set(alerts())


def test_each_alert_is_explained_under_the_heading_that_it_names() -> None:
    page = ROOT / "docs" / "operations" / "alerts.md"
    explained = re.findall(r"^## (\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert explained == list(alerts())
    for name, alert in alerts().items():
        assert alert["annotations"]["read"] == f"{page.relative_to(ROOT)}#{name.lower()}"
        assert alert["labels"]["severity"] in {"critical", "warning"}


def test_compose_gives_prometheus_the_files_that_its_configuration_names() -> None:
    given = [each.split(":")[1] for each in composed(OBSERVED)["services"]["prometheus"]["volumes"]]
    for name in (CONFIG.name, *parsed(CONFIG)["rule_files"]):
        assert f"/etc/prometheus/{name}" in given
