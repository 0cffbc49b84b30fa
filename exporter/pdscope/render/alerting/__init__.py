"""Recording rules, alerts, inhibition and runbooks as data: the one source of rules/, deploy/ and docs/runbooks/.

Names of metrics come from the catalogue, names of verdicts from the vocabulary, what to do from the rules' own pages,
so none is typed twice and none can be dead.
"""
