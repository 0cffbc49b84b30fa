"""Prefill on an instance that decodes: of a unified instance, or of what a decode instance has to compute again."""

from __future__ import annotations

from collections import deque

from pdscope.demo.physics.draw import Prefill
from pdscope.demo.physics.machine import Machine, Pass
from pdscope.demo.physics.request import Request

_HOST_COPY_BYTES_PER_SECOND = 25e9
"""PCIe, a device: SGLang brings the KV of a retracted request back from host memory."""


class LocalPrefill:
    """Parts of prompts that run along with decode steps, within a token budget.

    Args:
        machine: devices of the instance.
        settings: budget, host work, cache.
    """

    def __init__(self, machine: Machine, settings: Prefill) -> None:
        self.machine = machine
        self._settings = settings
        self._waiting: deque[Request] = deque()
        self._left: dict[Request, int] = {}
        self._done: dict[Request, int] = {}
        self._parts: list[tuple[Request, int]] = []
        self._groups: set[int] = set()
        self.tokens = 0
        self.cached_tokens = 0

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to compute."""
        return bool(self._waiting)

    def add(self, request: Request, tokens: int) -> None:
        """Queues the first `tokens` tokens of `request`."""
        cached = request.shared_tokens if self._settings.prefix_cache and request.group in self._groups else 0
        if request.prefill < 0 and not request.preemptions:
            request.cached_tokens = cached
        self.cached_tokens += cached
        self._waiting.append(request)
        self._left[request] = tokens - cached
        self._done[request] = cached

    def next_pass(self) -> tuple[Pass | None, int, float]:
        """Work, tokens and host seconds of the pass that goes with the next step; (None, 0, 0) for none."""
        budget = self._settings.batch_tokens
        self._parts = []
        tokens, pairs, context = 0, 0.0, 0
        for request in self._waiting:
            size = min(budget, self._left[request])
            if size == 0:
                break
            before = self._done[request]
            self._parts.append((request, size))
            budget -= size
            tokens += size
            pairs += size * before + size * (size + 1) / 2
            context += before + size
        if not tokens:
            return None, 0, 0.0
        return self.machine.prefill(tokens, pairs, context), tokens, self._settings.pass_seconds

    def completed(self) -> list[Request]:
        """The pass has ended: whose prompt is whole now."""
        whole: list[Request] = []
        for request, size in self._parts:
            self.tokens += size
            self._left[request] -= size
            self._done[request] += size
            if not self._left[request]:
                self._waiting.remove(request)
                del self._left[request], self._done[request]
                self._groups.add(request.group)
                whole.append(request)
        self._parts = []
        return whole

    def copy_seconds(self, request: Request) -> float:
        """Bringing the KV of `request` back from host memory."""
        machine = self.machine
        size = (request.prompt_tokens + request.generated_tokens) * machine.model.kv_bytes_per_token
        return size / (_HOST_COPY_BYTES_PER_SECOND * machine.devices)
