"""What the demo can show: one module a scenario, found by discovery. Causes only, never a metric.

A new scenario is one new module here with a `SCENARIO`. It names the verdict that its cause deserves, and a test holds
that against `physics.truth`, which finds the same by counterfactual.
"""

from pdscope.demo.scenarios._scenario import Scenario
from pdscope.demo.scenarios._shelf import SCENARIOS, find

__all__ = ["SCENARIOS", "Scenario", "find"]
