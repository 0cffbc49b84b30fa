"""deploy/compose.yml and what it mounts: files that exist, ports at which somebody listens, names that are meant."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

from pdscope.demo.scenarios import SCENARIOS

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.yml").read_text(encoding="utf-8"))["services"]
OVERRIDE: dict[str, dict[str, Any]] = yaml.safe_load((DEPLOY / "compose.serve.yml").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
BUILT = [name for name, service in SERVICES.items() if "build" in service]


def port_of(name: str) -> str:
    """Where the program of a service is told to listen."""
    service = SERVICES[name]
    if "environment" in service:
        return str(service["environment"]["GF_SERVER_HTTP_PORT"])
    (address,) = [a.partition("=")[2] for a in service["command"] if a.startswith("--web.listen-address=")]
    return str(address.removeprefix("0.0.0.0:"))


def mounts(name: str) -> dict[str, Path]:
    """Path in the container of a service -> file or folder of the repository."""
    parts = [volume.split(":") for volume in SERVICES[name].get("volumes", ())]
    return {part[1]: (DEPLOY / part[0]).resolve() for part in parts if part[0].startswith(".")}


def in_container(name: str, path: str) -> Path:
    """The file of the repository that a service sees under a path."""
    for target, source in mounts(name).items():
        if PurePosixPath(path).is_relative_to(target):
            return source / PurePosixPath(path).relative_to(target)
    pytest.fail(f"{name} sees nothing of ours at {path}")


def provisioned(kind: str) -> dict[str, Any]:
    """The only file of that kind that Grafana reads at its start."""
    (file,) = in_container("grafana", f"/etc/grafana/provisioning/{kind}").glob("*.yml")
    found: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert found["apiVersion"] == 1
    return found


@pytest.mark.parametrize("name", SERVICES)
def test_published_is_what_listens_and_on_the_loopback_only(name: str) -> None:
    """Every service, at one port."""
    port = port_of(name)
    assert SERVICES[name]["ports"] == [f"127.0.0.1:{port}:{port}"]


@pytest.mark.parametrize("name", SERVICES)
def test_mounted_exists(name: str) -> None:
    """Docker makes an empty folder of what does not."""
    missing = [str(path) for path in mounts(name).values() if not path.exists()]
    assert missing == []
    assert all(path.is_relative_to(ROOT) for path in mounts(name).values())


@pytest.mark.parametrize("name", [name for name in SERVICES if name not in BUILT])
def test_images_are_pinned(name: str) -> None:
    """By a whole version, so that tomorrow's is the one of today."""
    assert re.fullmatch(r"[a-z]+/[a-z]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


def test_dockerfile_and_compose_agree() -> None:
    """On the port, and on what is copied: it exists, and .dockerignore lets it through."""
    assert [*BUILT] == ["pdscope"]
    context = (DEPLOY / SERVICES["pdscope"]["build"]["context"]).resolve()
    assert (context / "Dockerfile").is_file()
    assert re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE) == [port_of("pdscope")]
    assert f"http://127.0.0.1:{port_of('pdscope')}/-/healthy" in DOCKERFILE
    allowed = re.findall(r"^!(\S+)$", (ROOT / ".dockerignore").read_text(encoding="utf-8"), re.MULTILINE)
    copied = [source for line in re.findall(r"^COPY (.+) \S+$", DOCKERFILE, re.MULTILINE) for source in line.split()]
    assert sorted(copied) == sorted(allowed)
    assert all((context / source).exists() for source in copied)
    waits = SERVICES["prometheus"]["depends_on"]["pdscope"]["condition"]
    assert (waits == "service_healthy") == ("HEALTHCHECK" in DOCKERFILE)


def test_the_demo_is_one_that_there_is() -> None:
    """The scenario that is shown where nothing is asked for."""
    (option,) = [a for a in SERVICES["pdscope"]["command"] if a.startswith("--scenario=")]
    found = re.fullmatch(r"--scenario=\$\{PDSCOPE_SCENARIO:-(\w+)\}", option)
    assert found is not None
    assert found[1] in SCENARIOS


def test_with_a_configuration_of_ones_own_the_image_does_what_it_does_by_itself() -> None:
    """compose.serve.yml: the command of the Dockerfile, and the file that it reads."""
    assert set(OVERRIDE) == {"services"}
    (service,) = OVERRIDE["services"].items()
    assert service[0] == "pdscope"
    (command,) = re.findall(r"^CMD (\[.+\])$", DOCKERFILE, re.MULTILINE)
    assert service[1]["command"] == yaml.safe_load(command)
    (volume,) = service[1]["volumes"]
    assert volume.endswith(":/etc/pdscope/pdscope.yml:ro")
    assert "--config.file=/etc/pdscope/pdscope.yml" in service[1]["command"]


def test_prometheus_reads_scrapes_and_alerts_what_is_there() -> None:
    """Its rules, pdscope, and Alertmanager; and its alerts lead to where pdscope is published."""
    read = yaml.safe_load(in_container("prometheus", "/etc/prometheus/prometheus.yml").read_text(encoding="utf-8"))
    rules = [in_container("prometheus", path).relative_to(ROOT) for path in read["rule_files"]]
    assert [str(path) for path in rules] == ["rules/recording.yml", "rules/alerts.yml"]
    (scraped,) = read["scrape_configs"]
    assert scraped["static_configs"] == [{"targets": [f"pdscope:{port_of('pdscope')}"]}]
    (told,) = read["alerting"]["alertmanagers"]
    assert told["static_configs"] == [{"targets": [f"alertmanager:{port_of('alertmanager')}"]}]
    assert read["global"]["external_labels"]["pdscope_url"] == f"http://127.0.0.1:{port_of('pdscope')}"
    (datasource,) = provisioned("datasources")["datasources"]
    assert datasource["jsonData"]["timeInterval"] == read["global"]["scrape_interval"]


@pytest.mark.promtool
def test_prometheus_accepts_it(promtool: str) -> None:
    """Its syntax; the paths are those of the container."""
    command = [promtool, "check", "config", "--syntax-only", str(DEPLOY / "prometheus.yml")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["prometheus", "alertmanager"])
def test_configurations_are_where_the_commands_say(name: str) -> None:
    """Files, not folders."""
    (option,) = [a for a in SERVICES[name]["command"] if a.startswith("--config.file=")]
    assert in_container(name, option.partition("=")[2]).is_file()


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    """The one it begins with is among them."""
    (datasource,) = provisioned("datasources")["datasources"]
    assert datasource["type"] == "prometheus"
    assert datasource["url"] == f"http://prometheus:{port_of('prometheus')}"
    (provider,) = provisioned("dashboards")["providers"]
    folder = in_container("grafana", provider["options"]["path"])
    assert folder == ROOT / "dashboards"
    home = SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert in_container("grafana", home) in set(folder.glob("*.json"))
