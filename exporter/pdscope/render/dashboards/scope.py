"""The variables that boards share."""

from __future__ import annotations

from pdscope.render import catalogue
from pdscope.render.catalogue import MetricDef
from pdscope.render.dashboards.query import Variable

_CLUSTER = 'cluster=~"$cluster"'
_BOTH = f'{_CLUSTER},namespace=~"$namespace"'


def clusters() -> tuple[Variable, ...]:
    """Cluster and namespace of pdscope; where targets bear no such label, all is the only choice, and right."""
    build = catalogue.BUILD_INFO.name
    return (
        Variable("cluster", "Cluster", build, "cluster", all_value=".*"),
        Variable("namespace", "Namespace", f"{build}{{{_CLUSTER}}}", "namespace", all_value=".*"),
    )


def deployments(metric: MetricDef, *, is_multi: bool) -> Variable:
    """The deployments of which `metric` tells."""
    return Variable("deployment", "Deployment", f"{metric.name}{{{_BOTH}}}", "deployment", is_multi=is_multi)


def workers() -> Variable:
    """The workers of the chosen deployments."""
    selector = f'{catalogue.WORKER_INFO.name}{{{_BOTH},deployment=~"$deployment"}}'
    return Variable("worker", "Worker", selector, "worker")
