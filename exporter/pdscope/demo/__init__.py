"""A simulated deployment with prefill and decode apart, which speaks the engines' own formats over HTTP.

`physics` is the model and holds causes; `scenarios` choose them; `pages` turn what happens into the pages of engines,
device exporters and router; `runner` lets it run in time and serves it.
"""
