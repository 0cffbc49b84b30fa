"""Where the simulated servers listen: an address a name, which stays whatever runs behind it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial
from http import HTTPStatus
from types import TracebackType
from typing import Self

from pdscope.demo.runner.http import Request, Response, listen
from pdscope.demo.runner.stage import Stage


class Addresses:
    """An async context manager that lets every server of the stage listen.

    A server that the stage does not have now answers like one that is dead: the connection ends without a word.
    """

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stack = AsyncExitStack()
        self._urls: dict[str, str] = {}

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._urls.clear()
        await self._stack.aclose()

    @property
    def urls(self) -> dict[str, str]:
        """Of the servers that the stage has now and that listen, without a slash at the end.

        In the middle of a switch some of them do not yet.
        """
        return {name: self._urls[name] for name in self._stage.servers if name in self._urls}

    async def open(self) -> None:
        """Opens what is missing for the servers that the stage has now."""
        for name in self._stage.servers:
            if name not in self._urls:
                self._urls[name] = await self._stack.enter_async_context(listen(partial(self._answer, name)))

    async def _answer(self, name: str, request: Request) -> Response | None:
        if request.method != "GET":
            return Response(b"GET only\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        try:
            page = self._stage.page(name, request.path)
        except LookupError:
            return None
        if page is None:
            return Response(b"not found\n", status=HTTPStatus.NOT_FOUND)
        content_type, body = page
        return Response(body, content_type)
