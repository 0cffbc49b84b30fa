"""The two instances of the first model, each on its own."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from pdscope.demo.agenda import Agenda
from pdscope.demo.decode import DecodeBatch
from pdscope.demo.link import Link
from pdscope.demo.prefill import PrefillServer
from pdscope.demo.scenario import Machines
from pdscope.demo.timeline import Request

MACHINES = Machines(decode_step_jitter=0.0)
SHARED_TOKENS = 2048


def request(number: int, prompt_tokens: int = 4096, output_tokens: int = 10) -> Request:
    pages = MACHINES.pages(prompt_tokens)
    return Request(
        number=number,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        is_streaming=True,
        kv_bytes=pages * MACHINES.page_tokens * MACHINES.kv_bytes_per_token,
        arrived_at=0.0,
    )


def test_the_link_serves_in_order_at_full_speed() -> None:
    """Two transfers asked for together arrive one after the other; an idle link gains nothing."""
    agenda = Agenda()
    link = Link(agenda, bytes_per_second=100.0, latency_seconds=0.5)
    arrived: list[float] = []
    for _ in range(2):
        link.send(200, lambda: arrived.append(agenda.now_seconds))
    agenda.run(10.0)
    link.send(100, lambda: arrived.append(agenda.now_seconds))
    agenda.run(20.0)
    assert arrived == [2.5, 4.5, 11.5]


def prefill_server(agenda: Agenda, delivered: list[Request]) -> PrefillServer:
    link = Link(agenda, 200e9, MACHINES.link_latency_seconds)
    return PrefillServer(agenda, MACHINES, SHARED_TOKENS, link, delivered.append)


def test_prefill_fills_a_batch_up_to_its_token_budget() -> None:
    """The first batch holds the request that came alone, the second what fits with a warm cache."""
    agenda, delivered = Agenda(), []
    server = prefill_server(agenda, delivered)
    requests = [request(0), *(request(number, prompt_tokens=10_240) for number in range(1, 4))]
    for one in requests:
        server.accept(one)
        server.bootstrapped(one)
    agenda.run(60.0)
    starts = [one.prefill_started_at for one in requests]
    assert starts[0] == 0.0
    assert starts[1] == starts[2] == requests[0].prefill_finished_at  # 2 x 8192 uncached tokens are the budget
    assert starts[3] == requests[1].prefill_finished_at
    assert [one.cached_tokens for one in requests] == [0, SHARED_TOKENS, SHARED_TOKENS, SHARED_TOKENS]
    assert delivered == requests


def test_prefill_takes_a_prompt_over_the_budget_alone() -> None:
    """It must not wait for ever."""
    agenda, delivered = Agenda(), []
    server = prefill_server(agenda, delivered)
    long = request(0, prompt_tokens=MACHINES.prefill_batch_tokens + 1)
    server.accept(long)
    server.bootstrapped(long)
    agenda.run(60.0)
    expected = MACHINES.prefill_batch_seconds + long.prompt_tokens * MACHINES.prefill_seconds_per_token
    assert long.prefill_finished_at == pytest.approx(expected)
    assert delivered == [long]


def decode_batch(agenda: Agenda, machines: Machines) -> tuple[DecodeBatch, list[Request]]:
    """A decode instance whose prefill and link take no time."""
    allocated: list[Request] = []

    def deliver(one: Request) -> None:
        allocated.append(one)
        one.transferred_at = agenda.now_seconds
        agenda.after(0.0, lambda: batch.receive(one))

    batch = DecodeBatch(agenda, machines, Random(0), allocated=deliver, left=lambda: None)
    return batch, allocated


def test_decode_admits_as_many_as_it_has_slots() -> None:
    """The third request waits for one of the first two to end."""
    agenda = Agenda()
    batch, allocated = decode_batch(agenda, replace(MACHINES, decode_slots=2))
    requests = [request(0, output_tokens=10), request(1, output_tokens=20), request(2)]
    for one in requests:
        batch.accept(one)
    agenda.run(0.1)
    assert allocated == requests[:2]
    assert batch.state().allocating == 1
    agenda.run(5.0)
    assert requests[2].allocated_at == requests[0].finished_at
    assert batch.state().held_tokens == 0


def test_decode_keeps_memory_back_for_what_runs() -> None:
    """A prompt fits only beside the tokens reserved for each request, the new one included."""
    agenda = Agenda()
    one_fits = 4096 + MACHINES.decode_reserved_tokens
    machines = replace(MACHINES, pool_tokens=2 * one_fits - 1)
    batch, allocated = decode_batch(agenda, machines)
    requests = [request(0), request(1)]
    for one in requests:
        batch.accept(one)
    agenda.run(0.1)
    assert allocated == requests[:1]
    state = batch.state()
    assert (state.allocating, state.allocating_tokens) == (1, 4096)
    agenda.run(5.0)
    assert allocated == requests
    assert requests[1].allocated_at == requests[0].finished_at


def test_a_decode_step_costs_what_its_batch_reads() -> None:
    """Without jitter its duration is the sum of its parts."""
    agenda = Agenda()
    batch, _ = decode_batch(agenda, MACHINES)
    one = request(0, output_tokens=3)
    batch.accept(one)
    agenda.run(5.0)
    steps = [
        MACHINES.decode_step_seconds
        + context * MACHINES.decode_seconds_per_context_token
        + MACHINES.decode_seconds_per_request
        for context in (4097, 4098)
    ]
    assert one.finished_at - one.joined_at == pytest.approx(sum(steps))
    assert one.generated_tokens == 3
