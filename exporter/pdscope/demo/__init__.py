"""A simulated deployment with prefill and decode apart, which speaks the engine's own formats over HTTP.

`scenario` holds causes; `simulation` (with `prefill`, `decode`, `link`) is the model; `timeline` is the seam; the
`sglang_*` modules turn what the model does into the pages of the engine; `deployment` serves them.
"""

from pdscope.demo.deployment import DemoDeployment, Endpoint
from pdscope.demo.scenario import SCENARIOS, Scenario
from pdscope.demo.simulation import Simulation

__all__ = ["SCENARIOS", "DemoDeployment", "Endpoint", "Scenario", "Simulation"]
