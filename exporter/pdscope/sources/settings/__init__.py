"""How each engine spells what a remedy sets, and the PromQL of its own series: data, used by the engine's adapter.

A spelling names the versions where it differs between them. A remedy of which an engine has no such thing is listed
as lacking, so that it is never offered; where there is merely nothing to set, it is in neither table.
"""
