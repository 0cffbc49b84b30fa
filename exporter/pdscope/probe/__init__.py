"""The link between two hosts, measured: blocks of the model's size are pulled as decode pulls them, within a budget.

`plan` says what to pull, `client` and `server` are the two ends, `tcp` and `nixl` carry the blocks, `result` says what
came out. Nothing here runs unless a person starts `pdscope probe-link`.
"""
