"""Pages of real programs, written from a simulation: SGLang, vLLM, dcgm-exporter and the SGLang model gateway.

`servers` is the way in: what listens where, and the configuration that points at it. A writer watches the simulation
from its beginning and keeps what its program would have accumulated; being read changes nothing. `families/` holds
names, kinds, help texts, labels and bucket bounds, word for word as the programs print them.
"""
