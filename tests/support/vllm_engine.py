"""A vLLM engine under a steady load whose page follows from the time at which it is asked: small, and never noisy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from support.http_target import Asked, page

REQUESTS_PER_SECOND = 5.0


def no_failures(_at: float) -> float:
    """Every transfer succeeds."""
    return 0.0


@dataclass(frozen=True, slots=True)
class VllmEngine:
    """Answers `/metrics`.

    Attributes:
        failures: KV transfers that have failed by a loop time.
    """

    failures: Callable[[float], float] = no_failures

    async def __call__(self, _asked: Asked) -> AsyncIterator[bytes]:
        """What it says now."""
        yield page(self.page(asyncio.get_running_loop().time()))

    def page(self, at: float) -> bytes:
        """What it says at a loop time, in seconds: TTFT 0.2 s, ITL 10 ms."""
        requests = 1000 + round(REQUESTS_PER_SECOND * at)
        tokens = 100 * requests
        return (
            "vllm:num_requests_running 10\n"
            "vllm:num_requests_waiting 0\n"
            "vllm:kv_cache_usage_perc 0.2\n"
            f'vllm:request_success_total{{finished_reason="stop"}} {requests}\n'
            f"vllm:prompt_tokens_total {10 * tokens}\n"
            f"vllm:generation_tokens_total {tokens}\n"
            f"vllm:nixl_num_failed_transfers_total {self.failures(at)}\n"
            f"{_histogram('vllm:time_to_first_token_seconds', (0.15, 0.25), requests, 0.2)}"
            f"{_histogram('vllm:inter_token_latency_seconds', (0.008, 0.012), tokens, 0.01)}"
        ).encode()


def _histogram(name: str, around: tuple[float, float], count: int, mean: float) -> str:
    """All observations lie between two bounds."""
    return (
        f'{name}_bucket{{le="{around[0]}"}} 0\n'
        f'{name}_bucket{{le="{around[1]}"}} {count}\n'
        f'{name}_bucket{{le="+Inf"}} {count}\n'
        f"{name}_count {count}\n"
        f"{name}_sum {mean * count}\n"
    )
