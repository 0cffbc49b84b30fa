"""What listens in a simulated deployment: every instance, the device exporters, and the router.

```python
simulation = Simulation(draw)
listening = servers(simulation)            # before the simulation runs: the writers watch it from its beginning
simulation.run(60.0)
body = listening[0].pages["/metrics"].read()
text = yaml.safe_dump(configuration(simulation, {one.name: url_of(one) for one in listening}))
```
"""

from __future__ import annotations

from collections.abc import Callable

from pdscope.demo.pages.configuration import ROUTER, configuration, deployment
from pdscope.demo.pages.dcgm import Dcgm
from pdscope.demo.pages.exposure import exposed
from pdscope.demo.pages.hosts import hosts, instances
from pdscope.demo.pages.page import TEXT, Page
from pdscope.demo.pages.server import Server
from pdscope.demo.pages.sglang import sglang_pages
from pdscope.demo.pages.smg import Smg
from pdscope.demo.pages.vllm import vllm_pages
from pdscope.demo.physics.simulation import Simulation

__all__ = ["Page", "Server", "configuration", "deployment", "servers"]

_EPOCH_UNIX_SECONDS = 1_796_000_000.0
"""When simulated time begins, where there is no wall clock."""


def servers(
    simulation: Simulation, *, prefix: str = "", unix_seconds: Callable[[], float] | None = None
) -> tuple[Server, ...]:
    """The servers of a deployment, as they can be reached: instances, then device exporters, then the router.

    Args:
        simulation: as it was made; it must not have run.
        prefix: before every name, e.g. `slow-link-`, so that several deployments can share a configuration.
        unix_seconds: the wall clock, for pages that print one; None counts simulated time from a fixed moment.

    Raises:
        ValueError: the simulation has run already, so that its histograms would lack what has been.
    """
    if simulation.now_seconds > 0.0:
        raise ValueError(f"the simulation has run to {simulation.now_seconds} s: its pages would lack that")
    clock = unix_seconds or (lambda: _EPOCH_UNIX_SECONDS + simulation.now_seconds)
    engine = simulation.draw.engine
    write = sglang_pages if engine == "sglang" else vllm_pages
    listening = [
        Server(f"{prefix}{one.name}", one.role, engine, write(simulation, one, clock)) for one in instances(simulation)
    ]
    for host in hosts(simulation):
        exporter = Dcgm(simulation, host)
        page = Page(TEXT, exporter.metrics)
        listening.append(Server(f"{prefix}{host.name}", "devices", "dcgm", {"/metrics": page}))
    router = Page(TEXT, Smg(simulation).metrics)
    listening.append(Server(f"{prefix}{ROUTER}", "router", "smg", {"/metrics": router}))
    return exposed(listening, simulation.draw)
