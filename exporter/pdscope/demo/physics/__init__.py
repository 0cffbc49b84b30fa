"""The physics behind the demo: a discrete-event model of prefill, decode, router, link and memory.

`draw` holds causes; `simulation` runs them; `outcome.run` sums a run up; `truth.truth` says by counterfactual which
resource is the bottleneck. Page writers read `Simulation`, its instances, and what `observer` tells them.
"""
