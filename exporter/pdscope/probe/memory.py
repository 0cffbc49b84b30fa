"""Memory that blocks are read from and written to: page-aligned, touched, at an address that a device can be told."""

from __future__ import annotations

import ctypes
import mmap

_PATTERN = 0xA5


class Region:
    """Anonymous memory of `size` bytes. `close` gives it back; what holds `view` must be done by then."""

    def __init__(self, size: int, *, filled: bool) -> None:
        """Every page is touched, so that none is first met while the clock runs.

        Args:
            size: bytes, at least 1.
            filled: with the pattern that `arrived` looks for, otherwise with zeros.

        Raises:
            OSError: there is not so much memory.
        """
        self._map = mmap.mmap(-1, size)
        self._start = ctypes.c_char.from_buffer(self._map)
        self.size = size
        self.address = ctypes.addressof(self._start)
        self.view = memoryview(self._map)
        ctypes.memset(self.address, _PATTERN if filled else 0, size)

    def arrived(self, offset: int, size: int) -> bool:
        """Whether the block at `offset` holds the pattern at both its ends."""
        return self.view[offset] == _PATTERN and self.view[offset + size - 1] == _PATTERN

    def close(self) -> None:
        """Give the memory back."""
        self.view.release()
        del self._start
        self._map.close()
