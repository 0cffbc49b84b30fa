"""The KV memory of a decode instance: whole pages for what was allocated, tokens for what has been generated since."""

from __future__ import annotations

from pdscope.demo.physics.request import Request
from pdscope.demo.physics.transfer import padded


class Pool:
    """Counts tokens. A batch grows by one token a request and step, so its growth follows from the steps alone.

    Args:
        tokens: all there are.
        page_tokens: of a page; allocations are whole pages.
    """

    def __init__(self, tokens: int, page_tokens: int) -> None:
        self.tokens = tokens
        self._page_tokens = page_tokens
        self._held: dict[Request, tuple[int, int]] = {}
        self._held_tokens = 0
        self._offsets: dict[Request, int] = {}
        self._offset_sum = 0

    def used(self, running: int, steps: int) -> int:
        """Tokens in use.

        Args:
            running: requests in the batch.
            steps: of the batch so far.
        """
        return self._held_tokens + running * steps + self._offset_sum

    def need(self, request: Request) -> int:
        """Tokens that an allocation for `request` takes: its prompt, and what it had generated before."""
        return padded(request.prompt_tokens + request.generated_tokens, self._page_tokens)

    def held(self, request: Request) -> int:
        """Tokens allocated for `request`, without those generated since; 0 for a stranger."""
        return self._held.get(request, (0, 0))[0]

    def hold(self, request: Request) -> None:
        """Allocates what `request` needs."""
        need = self.need(request)
        self._held[request] = (need, request.generated_tokens)
        self._held_tokens += need

    def start(self, request: Request, generated: int, steps: int) -> None:
        """`request` joins the batch with `generated` tokens when the batch has made `steps` steps."""
        offset = generated - self._held[request][1] - steps
        self._offsets[request] = offset
        self._offset_sum += offset

    def stop(self, request: Request) -> None:
        """`request` leaves the batch."""
        self._offset_sum -= self._offsets.pop(request)

    def release(self, request: Request) -> None:
        """What was allocated for `request` is free; harmless for a stranger."""
        self._held_tokens -= self._held.pop(request, (0, 0))[0]
