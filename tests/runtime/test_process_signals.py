"""Signals are handled while the process serves, and do afterwards what they did before."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator

import pytest

from pdscope.runtime.process_signals import handling

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[signal.SIG_IGN, signal.SIG_DFL, signal.default_int_handler])
def before(request: pytest.FixtureRequest) -> Iterator[object]:
    """What SIGHUP does at first: ignored as below `nohup`, ends the process, or calls a function."""
    kept = signal.signal(signal.SIGHUP, request.param)
    yield signal.getsignal(signal.SIGHUP)
    signal.signal(signal.SIGHUP, kept)


async def test_handled_within_and_as_before_after(before: object) -> None:
    called = asyncio.Event()
    with handling({signal.SIGHUP: called.set}):
        signal.raise_signal(signal.SIGHUP)
        await asyncio.wait_for(called.wait(), 5.0)
    assert signal.getsignal(signal.SIGHUP) is before


async def test_as_before_after_an_error(before: object) -> None:
    with pytest.raises(RuntimeError, match="broken"), handling({signal.SIGHUP: lambda: None}):
        raise RuntimeError("broken")
    assert signal.getsignal(signal.SIGHUP) is before
