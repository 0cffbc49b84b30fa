"""Where numbers come from: the pages of engines, routers and devices, and what each series on them is."""
