"""Grafana dashboards as data: the one source of dashboards/.

Names of metrics come from the catalogue and from the engines' adapters, states from the vocabulary, so none is typed
twice and none can be dead.
"""
