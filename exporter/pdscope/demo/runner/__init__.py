"""Lets a scenario run in time: simulated engines behind addresses, a tour, and a way to change things by hand.

`stage` holds the deployment that runs now; `addresses` keeps its servers on the loopback interface; `tour` goes from
scenario to scenario; `control` is the way in by hand, over `parameters`.
"""

from pdscope.demo.runner.demo import Demo

__all__ = ["Demo"]
