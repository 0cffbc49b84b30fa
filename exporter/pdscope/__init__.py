"""pdscope: metrics and bottleneck diagnosis for LLM serving with prefill and decode apart."""

__version__ = "0.1.0"
