"""Where links lead: the documentation, pdscope, and the other boards."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.render.alerting.settings import Settings
from pdscope.render.dashboards.panel import Link

_PDSCOPE = "${pdscope_url}"
WALK_UID = "pdscope-deployment"
WORKER_UID = "pdscope-worker"


@dataclass(frozen=True, slots=True)
class Places:
    """Addresses of one rendering.

    Attributes:
        pdscope_url: default of the variable; whoever looks at the board may change it.
        docs_url: folder of the documentation, without a slash at its end.
    """

    pdscope_url: str
    docs_url: str

    @classmethod
    def of(cls, settings: Settings) -> Places:
        """Those of the alerts."""
        return cls(settings.diagnose_url, settings.runbook_url.rstrip("/").removesuffix("/runbooks"))

    def page(self, path: str) -> str:
        """A page of the documentation: path below docs/."""
        return f"{self.docs_url}/{path}"

    def home(self) -> str:
        """The on-call page."""
        return f"{_PDSCOPE}/"

    def diagnosis(self, deployment: str) -> Link:
        """The diagnosis as it is now, with its evidence and remedies.

        Args:
            deployment: a variable of Grafana.
        """
        return Link("Diagnosis now", f"{_PDSCOPE}/diagnose?format=html&deployment={_encoded(deployment)}")

    def history(self, deployment: str) -> Link:
        """The last changes of the verdict, and what changed around them."""
        return Link("Changes of the verdict", f"{_PDSCOPE}/diagnose/history?deployment={_encoded(deployment)}")

    def walk(self, deployment: str) -> Link:
        """The board of one deployment, at the same time."""
        return Link("Walk through this deployment", _board(WALK_UID, deployment))

    def worker(self, deployment: str, worker: str) -> Link:
        """The board of one worker, at the same time."""
        return Link("This worker", f"{_board(WORKER_UID, deployment)}&var-worker={_encoded(worker)}")


def _board(uid: str, deployment: str) -> str:
    kept = "${datasource:queryparam}&${cluster:queryparam}&${namespace:queryparam}&${pdscope_url:queryparam}"
    return f"/d/{uid}?{kept}&var-deployment={_encoded(deployment)}&${{__url_time_range}}"


def _encoded(variable: str) -> str:
    """`${name}` -> `${name:percentencode}`."""
    return variable.removesuffix("}") + ":percentencode}"
