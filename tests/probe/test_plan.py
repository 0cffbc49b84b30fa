"""What a probe pulls stays within its budget."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.errors import UsageError
from pdscope.model.topology import Attention, KvShape
from pdscope.probe.plan import MIN_ROUNDS, Blocks, Step, blocks_of, make_plan, scattered

LLAMA_70B = KvShape(Attention.GQA, layers=80, bytes_per_element=2, kv_heads=8, head_dim=128)
DEEPSEEK = KvShape(Attention.MLA, layers=61, bytes_per_element=2, latent_dim=576)


@pytest.mark.parametrize(
    ("shape", "ranks", "block_bytes", "count"),
    [
        (LLAMA_70B, 1, 65536, 128 * 80),
        (LLAMA_70B, 4, 16384, 128 * 80),
        (LLAMA_70B, 16, 8192, 128 * 80),
        (DEEPSEEK, 8, 18432, 128 * 61),
    ],
)
def test_a_block_is_a_page_of_a_layer_of_a_rank(shape: KvShape, ranks: int, block_bytes: int, count: int) -> None:
    """Heads are shared but never split; the latent of MLA is on every rank."""
    assert blocks_of(shape, tokens=2040, page_tokens=16, ranks=ranks) == Blocks(block_bytes, count)


def test_a_model_without_growing_layers_has_no_such_block() -> None:
    with pytest.raises(UsageError, match="--block-bytes"):
        blocks_of(
            KvShape(Attention.GQA, 2, 2, kv_heads=1, head_dim=64, full_attention_layers=0), tokens=16, page_tokens=16
        )


@given(
    block_bytes=st.integers(1, 2**30),
    blocks=st.integers(1, 10**6),
    max_bytes=st.integers(1, 2**40),
    streams=st.integers(1, 64),
)
def test_the_budget_holds(block_bytes: int, blocks: int, max_bytes: int, streams: int) -> None:
    """Never more bytes than allowed, never fewer rounds than make a percentile, or a plain refusal."""
    wanted = Blocks(block_bytes, blocks)
    if max_bytes < block_bytes * (MIN_ROUNDS + 1) * (2 + (streams if streams > 1 else 0)):
        with pytest.raises(UsageError, match="--max-bytes of"):
            make_plan(wanted, max_bytes=max_bytes, seconds=10, streams=streams)
        return
    plan = make_plan(wanted, max_bytes=max_bytes, seconds=10, streams=streams)
    assert plan.total_bytes <= max_bytes
    assert all(step.rounds >= MIN_ROUNDS for step in plan.steps)
    assert all(step.block_bytes <= plan.region_bytes <= max(block_bytes, 2**28) for step in plan.steps)
    assert {step.in_flight for step in plan.steps} == {1, streams}
    assert sum(step.seconds for step in plan.steps) == pytest.approx(10)


@given(slots=st.integers(1, 300), blocks=st.integers(1, 700), block_bytes=st.integers(1, 9))
def test_blocks_lie_scattered(slots: int, blocks: int, block_bytes: int) -> None:
    """Inside the region, each slot equally often, and no neighbours in turn to be merged."""
    region = slots * block_bytes + block_bytes - 1
    offsets = list(scattered(Step("s", block_bytes, blocks, 1, 1, 1.0), region))
    assert len(offsets) == blocks
    assert all(0 <= offset <= region - block_bytes and offset % block_bytes == 0 for offset in offsets)
    counts = [offsets.count(offset) for offset in set(offsets)]
    assert len(counts) == min(slots, blocks)
    assert max(counts) - min(counts) <= 1
    if slots >= 5:
        neighbours = [b - a for a, b in pairwise(offsets)]
        assert block_bytes not in neighbours


@pytest.mark.parametrize(
    ("blocks", "changed", "text"),
    [
        (Blocks(0, 1), {}, "a block of 0 B"),
        (Blocks(2**31, 1), {}, "1 GiB"),
        (Blocks(1, 0), {}, "at least one block"),
        (Blocks(1, 1), {"max_bytes": 2**41}, "--max-bytes must be"),
        (Blocks(1, 1), {"seconds": 0.0}, "--seconds"),
        (Blocks(1, 1), {"seconds": float("nan")}, "--seconds"),
        (Blocks(1, 1), {"streams": 65}, "--streams"),
        (Blocks(1024, 1), {"max_bytes": 4096}, "need 36864 B"),
    ],
)
def test_figures_out_of_bounds_are_named(blocks: Blocks, changed: dict[str, float], text: str) -> None:
    figures = {"max_bytes": 2**20, "seconds": 1.0, "streams": 4} | changed
    with pytest.raises(UsageError, match=text):
        make_plan(blocks, **figures)  # type: ignore[arg-type]
