"""Reads a .tar.gz of unknown origin, forward only, in bounded memory and time.

The container is walked here, header by header, because `tarfile` keeps every member in memory, reads extended
headers of any size and, before Python 3.11.14, can be kept busy for ever by crafted ones (CVE-2024-6232,
CVE-2025-8194). A header itself is decoded by `tarfile`.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO

from pdscope.errors import BundleError

_BLOCK_BYTES = 512
_CHUNK_BYTES = 1 << 16
_EXTENDED_HEADER_BYTES = 1 << 16
"""Far above what the longest path and the extended attributes of a text file need."""
_EXTENDED_TYPES = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
_TYPES_WITHOUT_DATA = (
    tarfile.DIRTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.FIFOTYPE,
)
_PAX_RECORD = re.compile(rb"([0-9]{1,6}) ([^=\n]+)=")


def read_targz(raw: BinaryIO, limit_bytes: int) -> Iterator[tuple[tarfile.TarInfo, Callable[[int], bytes]]]:
    """Walk the members of the archive, in its order.

    A sparse file has the type `GNUTYPE_SPARSE`, however it is written.

    Args:
        raw: the archive, at its beginning.
        limit_bytes: how much may be decompressed, headers and padding included.

    Yields:
        A member's header, and what reads its first n bytes: once, before the next member is asked for.

    Raises:
        BundleError: the archive is damaged, cut off or too large.
    """
    stream = _Gunzip(raw, limit_bytes)
    extended: dict[str, str] = {}
    while (header := _header(stream)) is not None:
        if header.type in _EXTENDED_TYPES:
            extended |= _extended(header, stream)
            continue
        header.name = extended.get("path", header.name)
        header.size = _size(header, extended)
        if any(key.startswith("GNU.sparse.") for key in extended):
            header.type = tarfile.GNUTYPE_SPARSE
        extended = {}
        size = 0 if header.type in _TYPES_WITHOUT_DATA else header.size
        end = stream.position + _padded(size)
        yield header, partial(_read_start, stream, size)
        stream.skip_to(end)
    stream.drain()


class _Gunzip:
    """The decompressed stream: an error instead of an early end, and never more than `limit` bytes of it."""

    def __init__(self, raw: BinaryIO, limit: int) -> None:
        self._stream = gzip.GzipFile(fileobj=raw)
        self._limit = limit
        self.position = 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        data = self._read_some(size)
        if len(data) < size:
            raise BundleError("cut off: its tar archive has no end")
        return data

    def skip_to(self, position: int) -> None:
        """Pass over what lies before `position`."""
        while self.position < position:
            self.read(min(position - self.position, _CHUNK_BYTES))

    def drain(self) -> None:
        """Read to the end, where gzip keeps its checksum."""
        while self._read_some(_CHUNK_BYTES):
            pass

    def _read_some(self, size: int) -> bytes:
        try:
            data = self._stream.read(min(size, self._limit - self.position + 1))
        except EOFError as error:
            raise BundleError("cut off: its gzip stream has no end") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise BundleError(f"damaged gzip stream: {error}") from error
        self.position += len(data)
        if self.position > self._limit:
            raise BundleError(f"more than {self._limit:,} bytes when decompressed")
        return data


def _read_start(stream: _Gunzip, size: int, wanted: int) -> bytes:
    return stream.read(min(wanted, size))


def _padded(size: int) -> int:
    return -(-size // _BLOCK_BYTES) * _BLOCK_BYTES


def _header(stream: _Gunzip) -> tarfile.TarInfo | None:
    """The next header; None at the archive's end mark."""
    position = stream.position
    block = stream.read(_BLOCK_BYTES)
    if not block.strip(b"\0"):
        return None
    try:
        header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    except tarfile.HeaderError as error:
        raise BundleError(f"not a tar archive, or damaged: no header at byte {position:,} of it") from error
    if header.size < 0:
        raise BundleError(f"damaged tar archive: a negative size at byte {position:,} of it")
    return header


def _extended(header: tarfile.TarInfo, stream: _Gunzip) -> dict[str, str]:
    """What an extended header says of the member after it, in the keys of pax."""
    if header.size > _EXTENDED_HEADER_BYTES:
        raise BundleError(f"a tar header of {header.size:,} bytes")
    data = stream.read(_padded(header.size))[: header.size]
    match header.type:
        case tarfile.XHDTYPE:
            return _pax_records(data)
        case tarfile.GNUTYPE_LONGNAME:
            return {"path": _text(data.partition(b"\0")[0])}
        case _:  # a long link target, or a comment on the whole archive: neither names a member
            return {}


def _pax_records(data: bytes) -> dict[str, str]:
    """Decode lines of the form `<bytes in this line> <key>=<value>`; a value may have several lines."""
    records: dict[str, str] = {}
    start = 0
    while start < len(data):
        record = _PAX_RECORD.match(data, start)
        end = start + int(record[1]) if record else 0
        if record is None or end <= record.end() or data[end - 1 : end] != b"\n":
            raise BundleError("damaged tar archive: an extended header that is no list of records")
        records[_text(record[2])] = _text(data[record.end() : end - 1])
        start = end
    return records


def _size(header: tarfile.TarInfo, extended: dict[str, str]) -> int:
    size = extended.get("size")
    if size is None:
        return header.size
    if not re.fullmatch("[0-9]{1,18}", size):
        raise BundleError("damaged tar archive: an extended header with a size that is no number")
    return int(size)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
