"""The example for Alertmanager, in Alertmanager itself: accepted, routed and inhibiting as docs/alerting.md says."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from pdscope.diagnosis.base import Rule
from pdscope.diagnosis.engine import discover
from pdscope.render.alerting.alert import alert_name
from pdscope.render.alerting.inhibition import causes
from support.programs import needed
from support.promtool_case import RULES

pytestmark = pytest.mark.promtool
EXAMPLE = RULES / "alertmanager.example.yml"
PATIENCE_SECONDS = 30.0
COVERING = {
    "loud": frozenset({"symptom", "unheard"}),
    "quiet": frozenset({"symptom"}),
    "symptom": frozenset[str](),
    "unheard": frozenset[str](),
}
"""Made-up rule -> what it covers."""


def amtool(*arguments: str) -> str:
    run = subprocess.run(
        [needed("amtool", package="prometheus-alertmanager"), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


def test_configuration_is_accepted() -> None:
    """By version 0.25, which refuses what came later."""
    assert "SUCCESS" in amtool("check-config", str(EXAMPLE))


@pytest.mark.parametrize(
    ("name", "severity", "receiver"),
    [
        ("PdscopeLateKVRead", "critical", "pdscope-page"),
        ("PdscopeKVTransferPath", "page", "pdscope-page"),
        ("PdscopeKVTransferPath", "warning", "pdscope-ticket"),
        ("PdscopePDRatio", "info", "pdscope-nobody"),
        ("NodeDown", "page", "default"),
    ],
)
def test_routes(name: str, severity: str, receiver: str) -> None:
    """By severity; what is not ours goes where it went."""
    labels = (f"alertname={name}", f"severity={severity}")
    assert amtool("config", "routes", "test", f"--config.file={EXAMPLE}", *labels).strip() == receiver


def test_no_alert_inhibits_itself_by_a_detour() -> None:
    """Or a fault would silence all that tells of it."""
    named = {rule["alert"] for g in yaml.safe_load((RULES / "alerts.yml").read_text())["groups"] for rule in g["rules"]}
    silenced_by = causes(discover(), named)
    assert named >= {*silenced_by}.union(*silenced_by.values())
    assert "PdscopePrefillQueue" in silenced_by["PdscopeKVTransferBandwidth"]

    def reached(name: str) -> set[str]:
        found: set[str] = set()
        frontier = {name}
        while frontier:
            frontier = {s for n in frontier for s in silenced_by.get(n, ())} - found
            found |= frontier
        return found

    assert [name for name in silenced_by if name in reached(name)] == []


def test_a_rule_without_an_alert_silences_nothing() -> None:
    """Whatever it covers, and whether what it covers has one."""
    rules = [Rule(id=name, verdict=None, evaluate=lambda _: (), covers=covers) for name, covers in COVERING.items()]
    named = causes(rules, {"PdscopeLoud", "PdscopeSymptom"})
    assert {cause: named[cause] for cause in named if cause in map(alert_name, COVERING)} == {
        "PdscopeLoud": ("PdscopeSymptom",)
    }


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """Alertmanager with the example, on a port of 127.0.0.1."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("alertmanager")
    command = [
        needed("prometheus-alertmanager", "alertmanager", package="prometheus-alertmanager"),
        f"--config.file={EXAMPLE}",
        f"--storage.path={folder}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/v2") as client:
                wait(lambda: ready(client), folder / "log")
                yield client
        finally:
            process.terminate()


def ready(client: httpx.Client) -> bool:
    try:
        return client.get("/status").is_success
    except httpx.TransportError:
        return False


def wait(condition: Any, log: Path | None = None) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, log.read_text() if log else "Alertmanager did not get there"


def silenced(client: httpx.Client, deployment: str, alerts: Mapping[str, str]) -> set[str]:
    """Fire `name/severity` -> verdict or "", in one deployment and namespace; which of them are inhibited.

    Alertmanager takes note of alerts one after the other and some time after it has shown them: once the last two of
    all, of another deployment, have had their effect, so have the others.
    """
    fire(client, deployment, alerts)
    fire(client, f"after {deployment}", LAST)
    wait(lambda: inhibited_of(client, f"after {deployment}") == {"PdscopeKVTransferPath/warning"})
    return inhibited_of(client, deployment)


LAST = {"PdscopeKVTransferPath/page": "kv_transfer_path", "PdscopeKVTransferPath/warning": "kv_transfer_path"}


def fire(client: httpx.Client, deployment: str, alerts: Mapping[str, str]) -> None:
    now = datetime.now(tz=UTC).isoformat()
    fired = [
        {
            "labels": {
                "alertname": key.partition("/")[0],
                "severity": key.partition("/")[2],
                "namespace": "llm",
                "deployment": deployment,
                **({"verdict": verdict} if verdict else {}),
            },
            "startsAt": now,
        }
        for key, verdict in alerts.items()
    ]
    client.post("/alerts", content=json.dumps(fired), headers={"content-type": "application/json"}).raise_for_status()


def inhibited_of(client: httpx.Client, deployment: str) -> set[str]:
    found = client.get("/alerts", params={"filter": f'deployment="{deployment}"'}).json()
    return {f"{a['labels']['alertname']}/{a['labels']['severity']}" for a in found if a["status"]["inhibitedBy"]}


@pytest.mark.parametrize(
    ("alerts", "inhibited"),
    [
        pytest.param(
            {"PdscopeKVTransferPath/page": "kv_transfer_path", "PdscopeKVTransferPath/warning": "kv_transfer_path"},
            {"PdscopeKVTransferPath/warning"},
            id="a page its own warning",
        ),
        pytest.param(
            {"PdscopeRouterImbalance/page": "router_imbalance", "PdscopePrefillQueue/page": "prefill_queue"},
            {"PdscopePrefillQueue/page"},
            id="cause its symptom",
        ),
        pytest.param(
            {"PdscopeRouterImbalance/warning": "router_imbalance", "PdscopePrefillQueue/page": "prefill_queue"},
            {"PdscopeRouterImbalance/warning"},
            id="never a page by a warning of its cause",
        ),
        pytest.param(
            {
                "PdscopeDecodeAdmission/page": "decode_admission",
                "PdscopeKVTransferFailing/page": "kv_transfer_failing",
                "PdscopeHardwareDegraded/page": "hardware_degraded",
                "PdscopeDecodeKVCapacity/page": "decode_kv_capacity",
            },
            {"PdscopeDecodeAdmission/page"},
            id="never what the order of evidence names before the cause",
        ),
        pytest.param(
            {"PdscopeKVPinned/page": "kv_pinned", "PdscopeKVLeaseExpired/critical": ""},
            set(),
            id="never a critical one by a page of its cause",
        ),
        pytest.param(
            {"PdscopeInstanceDown/warning": "", "PdscopeInsufficientData/warning": "insufficient_data"},
            {"PdscopeInsufficientData/warning"},
            id="an instance that is down the lack of data",
        ),
        pytest.param(
            {"PdscopeInstanceDown/page": "", "PdscopeInstanceDown/warning": "", "PdscopeTelemetryLost/warning": ""},
            {"PdscopeInstanceDown/warning", "PdscopeTelemetryLost/warning"},
            id="a page of a finding its own warning",
        ),
        pytest.param(
            {
                "PdscopeLateKVRead/critical": "",
                "PdscopeKVLeaseExpired/critical": "",
                "PdscopeHostBound/page": "host_bound",
            },
            {"PdscopeKVLeaseExpired/critical"},
            id="wrong reads the expired leases behind them and nothing else",
        ),
        pytest.param(
            {
                "PdscopeHostBound/page": "host_bound",
                "PdscopeSchemaDrift/warning": "",
                "PdscopeInstanceDown/warning": "",
            },
            set(),
            id="a page says nothing of what is no verdict",
        ),
        pytest.param(
            {"PdscopeDiagnosisStale/warning": "", "PdscopeReplicaStale/warning": ""},
            {"PdscopeReplicaStale/warning"},
            id="the whole its part",
        ),
    ],
)
def test_inhibition(
    alertmanager: httpx.Client, request: pytest.FixtureRequest, alerts: dict[str, str], inhibited: set[str]
) -> None:
    """A cause silences its symptoms, and a page the warnings of its deployment."""
    assert silenced(alertmanager, request.node.callspec.id, alerts) == inhibited


def test_deployments_do_not_silence_each_other(alertmanager: httpx.Client) -> None:
    """A cause in one explains nothing in another."""
    assert silenced(alertmanager, "one", {"PdscopeRouterImbalance/page": "router_imbalance"}) == set()
    assert silenced(alertmanager, "two", {"PdscopePrefillQueue/page": "prefill_queue"}) == set()
