"""The files of a capture bundle, one after another, out of a folder, .tar.gz or .zip.

A bundle comes from somebody else, attached to a report. So nothing is ever unpacked to disk, links are
refused, and sizes are counted while reading rather than believed. Errors raised here do not name the bundle:
`read_bundle` does.
"""

from __future__ import annotations

import io
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pdscope.errors import BundleError
from pdscope.sources.targz import read_targz

CONFIG_NAME = "pdscope.yml"
SAMPLES_NAME = "samples"
MODEL_SUFFIX = ".json"
"""Of the files beside the configuration, those that may describe a model."""

_CHUNK_BYTES = 1 << 16
_ZIP_ENTRY_BYTES = 256
"""What an entry of a zip's member list may take on average: 46 and the path, time stamps, owner."""
_ZIP_ENCRYPTED = 0x41
"""Flag bits of an entry: encrypted, strongly encrypted."""
_ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,  # seeking to where a damaged list points
    OverflowError,
    RuntimeError,  # also NotImplementedError: a feature that `zipfile` does not know
    ValueError,
)
_TAR_MODES = {
    tarfile.REGTYPE: stat.S_IFREG,
    tarfile.AREGTYPE: stat.S_IFREG,
    tarfile.CONTTYPE: stat.S_IFREG,
    tarfile.DIRTYPE: stat.S_IFDIR,
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
}
_SPECIAL_FILES = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


@dataclass(frozen=True, slots=True)
class Member:
    """A file or folder of a bundle.

    Attributes:
        parts: its path by components, below the top of the folder or archive.
        is_folder: it has no content.
        start: gives its first n bytes, or all if it has fewer.
    """

    parts: tuple[str, ...]
    is_folder: bool
    start: Callable[[int], bytes]

    def content(self, limit_bytes: int) -> bytes:
        """All of a file; to be asked for once, before the next member is.

        Raises:
            BundleError: it is larger than `limit_bytes`, whatever its header says, or damaged.
        """
        try:
            body = self.start(limit_bytes + 1)
        except BundleError as error:
            raise BundleError(f"{shown('/'.join(self.parts))}: {error}") from error
        if len(body) > limit_bytes:
            raise BundleError(f"{shown('/'.join(self.parts))}: more than {limit_bytes:,} bytes")
        return body


def escaped(name: str) -> str:
    """A name out of a bundle, safe to print: control characters and undecodable bytes are escaped."""
    return repr(name)[1:-1]


def shown(name: str) -> str:
    """A name out of a bundle, quoted for a message: escaped, and shortened in the middle."""
    return repr(name if len(name) <= 120 else f"{name[:59]}…{name[-60:]}")


def read_members(path: Path, *, limit_bytes: int, limit_members: int) -> Iterator[Member]:
    """Walk a folder or an archive; which kind it is, its content says, not its name.

    Of a folder, only what can belong to the bundle is visited.

    Args:
        path: the bundle.
        limit_bytes: how much a .tar.gz may hold decompressed; of the others the caller counts what it reads.
        limit_members: how many files and folders there may be.

    Raises:
        BundleError: the bundle is damaged or unsafe.
        OSError: the operating system refuses.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        yield from _counted(_folder_members(path), limit_members)
        return
    if not stat.S_ISREG(mode):
        raise BundleError(f"{_kind(mode)}, neither a folder nor an archive")
    with path.open("rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        match magic:
            case b"\x1f\x8b":
                yield from _counted(_tar_members(raw, limit_bytes), limit_members)
            case b"PK":
                yield from _counted(_zip_members(raw, limit_members), limit_members)
            case b"":
                raise BundleError("an empty file")
            case _:
                raise BundleError("its content is neither a .tar.gz nor a .zip archive")


def _counted(members: Iterator[Member], limit: int) -> Iterator[Member]:
    for count, member in enumerate(members, start=1):
        if count > limit:
            raise BundleError(f"more than {limit:,} files and folders")
        yield member


def _kind(mode: int) -> str:
    return _SPECIAL_FILES.get(stat.S_IFMT(mode), "a special file")


def _member(name: str, mode: int, start: Callable[[int], bytes]) -> Member:
    """The member of that name, if it is harmless."""
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:[/\\]", name):
        raise BundleError(f"{shown(name)}: an absolute path")
    if ".." in re.split(r"[/\\]", name):
        raise BundleError(f"{shown(name)}: a path that leaves the bundle")
    if "\0" in name:
        raise BundleError(f"{shown(name)}: a null character in its path")
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise BundleError(f"{shown(name)}: {_kind(mode)}, only files and folders are read")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    return Member(parts, stat.S_ISDIR(mode), start)


def _folder_members(folder: Path) -> Iterator[Member]:
    if os.path.lexists(folder / CONFIG_NAME):
        yield from _walk(folder, [CONFIG_NAME, SAMPLES_NAME, *_models(folder)])
        return
    for child in sorted(folder.iterdir()):
        mode = child.lstat().st_mode
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            yield _member(child.name, mode, partial(_read_file, child))
        if stat.S_ISDIR(mode) and os.path.lexists(child / CONFIG_NAME):
            names = (CONFIG_NAME, SAMPLES_NAME, *_models(child))
            yield from _walk(folder, [f"{child.name}/{name}" for name in names])


def _models(folder: Path) -> list[str]:
    """Names of the plain files in it that may describe a model: a link beside a bundle is none of its files."""
    return sorted(f.name for f in folder.iterdir() if f.suffix == MODEL_SUFFIX and stat.S_ISREG(f.lstat().st_mode))


def _walk(folder: Path, names: list[str]) -> Iterator[Member]:
    """Those files and folders that exist, and all below them."""
    pending = [path for name in reversed(names) if os.path.lexists(path := folder / name)]
    while pending:
        path = pending.pop()
        mode = path.lstat().st_mode
        yield _member(path.relative_to(folder).as_posix(), mode, partial(_read_file, path))
        if stat.S_ISDIR(mode):
            pending += sorted(path.iterdir(), reverse=True)


def _read_file(path: Path, size: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size)


def _tar_members(raw: BinaryIO, limit_bytes: int) -> Iterator[Member]:
    for header, start in read_targz(raw, limit_bytes):
        if header.type == tarfile.LNKTYPE:
            raise BundleError(f"{shown(header.name)}: a hard link, only files and folders are read")
        yield _member(header.name, _TAR_MODES.get(header.type, 0), start)


class _ZipFile(io.FileIO):
    """A zip archive on its way to `zipfile`, which reads the member list in one go, however long it is."""

    def __init__(self, raw: BinaryIO, limit_members: int) -> None:
        super().__init__(raw.fileno(), closefd=False)
        self._limit = max(limit_members * _ZIP_ENTRY_BYTES, _CHUNK_BYTES)

    def read(self, size: int | None = -1, /) -> bytes:
        """As in the base class; BundleError for what only the list of too many members can be."""
        if size is not None and size > self._limit:
            raise BundleError(f"a list of files and folders of more than {self._limit:,} bytes")
        return super().read(size)


@contextmanager
def _zip_errors() -> Iterator[None]:
    try:
        yield
    except _ZIP_ERRORS as error:
        raise BundleError(f"damaged or cut-off zip archive: {str(error) or type(error).__name__}") from error


def _zip_members(raw: BinaryIO, limit_members: int) -> Iterator[Member]:
    with _zip_errors():
        archive = zipfile.ZipFile(_ZipFile(raw, limit_members))
    for entry in archive.infolist():
        name = entry.orig_filename
        if entry.flag_bits & _ZIP_ENCRYPTED:
            raise BundleError(f"{shown(name)}: encrypted")
        by_name = stat.S_IFDIR if name.endswith("/") else stat.S_IFREG
        kind = stat.S_IFMT(entry.external_attr >> 16) or by_name  # programs for Windows write none
        yield _member(name, kind, partial(_read_zip_entry, archive, entry))


def _read_zip_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, size: int) -> bytes:
    # `zipfile` bounds the output of deflate only: a chunk of bzip2 or LZMA can decompress to any size.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BundleError(f"compressed with method {entry.compress_type}: only plain zip (deflate) is read")
    body = bytearray()
    with _zip_errors(), archive.open(entry) as file:
        while len(body) < size and (chunk := file.read(min(size - len(body), _CHUNK_BYTES))):
            body += chunk
    return bytes(body)
