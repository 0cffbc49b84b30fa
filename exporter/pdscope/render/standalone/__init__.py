"""Rules for those who run no daemon: a part of the diagnosis in PromQL, over the engines' own series.

Names of series come from the adapters and thresholds from the rules of the diagnosis, so that the two cannot drift
apart. What PromQL cannot know stays without a value: a condition is 1, 0 or absent, and absent never counts as 0.
"""
