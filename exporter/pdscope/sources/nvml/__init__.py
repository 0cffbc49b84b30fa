"""This host's NVIDIA devices through NVML: one thread samples, what it found is handed over as a text page."""
