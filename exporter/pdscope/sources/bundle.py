"""Capture bundles: recorded pages, and the configuration they were recorded with."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pdscope.errors import BundleError
from pdscope.sources.bundle_files import (
    CONFIG_NAME,
    MODEL_SUFFIX,
    SAMPLES_NAME,
    Member,
    escaped,
    read_members,
    shown,
)

_MIB = 1 << 20
_ARCHIVE_SUFFIX = re.compile(r"\.(tar\.gz|tgz|zip)$", re.IGNORECASE)
_UNIX_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_YEAR_10000_UNIX_SECONDS = 253_402_300_800
_APPLE_FOLDER = "__MACOSX"
"""Resource forks, which macOS puts beside the bundle in a .zip."""

_DEEPEST = 3
"""Of the folders that matter: the bundle, `samples`, a target."""

_Path = tuple[str, ...]
_File = tuple[_Path, bytes]
"""Path by components; content where it may be wanted, else empty."""


class PageKind(StrEnum):
    """What a recorded page is: an exposition, or the JSON of SGLang's `/v1/loads`."""

    METRICS = "metrics"
    LOADS = "loads"

    @property
    def suffix(self) -> str:
        """What follows the time stamp in the name of the file."""
        return ".prom" if self is PageKind.METRICS else ".loads.json"


@dataclass(frozen=True, slots=True)
class RecordedPage:
    """One answer of one target, as it came.

    Attributes:
        target: name of the instance or device in the configuration.
        at: unix seconds of the scrape.
        kind: how to read `body`.
        body: what the target answered; may be empty or nonsense, like any live page.
    """

    target: str
    at: float
    kind: PageKind
    body: bytes


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was recorded.

    Attributes:
        name: of the folder, or of the archive without its suffix.
        config_text: `pdscope.yml`, neither parsed nor checked.
        pages: ordered by time, then target, then kind.
        ignored: paths under `samples/` that are no page by their name, in order; escaped, so safe to print.
        models: by name, the JSON files beside `pdscope.yml`: the `hf_config` of a model may be among them.
        remarks: what its configuration names and the bundle does not hold.
        folders: names in `samples/`, also of those without a page: whoever recorded has asked them.
    """

    name: str
    config_text: str
    pages: tuple[RecordedPage, ...]
    ignored: tuple[str, ...] = ()
    folders: frozenset[str] = frozenset()
    models: Mapping[str, bytes] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    @property
    def newest(self) -> float | None:
        """Unix seconds of the last page; None without pages."""
        return self.pages[-1].at if self.pages else None

    def last_window(self, window_seconds: float) -> tuple[RecordedPage, ...]:
        """The pages that a diagnosis of the end of the recording needs, in order.

        For each target and kind they begin with its last page at or before (newest - window), so that rates
        cover the whole window, or with its first page if none is that old.

        Raises:
            ValueError: the window is negative or NaN.
        """
        if not window_seconds >= 0:
            raise ValueError(f"a window of {window_seconds} seconds")
        start = (self.newest or 0.0) - window_seconds
        begin = {(page.target, page.kind): page.at for page in self.pages if page.at <= start}
        return tuple(page for page in self.pages if page.at >= begin.get((page.target, page.kind), -math.inf))


@dataclass(frozen=True, slots=True)
class BundleLimits:
    """How much a bundle may hold.

    Attributes:
        page_bytes: of a page.
        config_bytes: of `pdscope.yml`, and of a file that describes a model.
        total_bytes: of all that is read, decompressed; for a .tar.gz that is the whole tar archive.
        members: files and folders.
    """

    page_bytes: int = 16 * _MIB
    config_bytes: int = 4 * _MIB
    total_bytes: int = 512 * _MIB
    members: int = 200_000


DEFAULT_LIMITS = BundleLimits()


def read_bundle(path: Path, limits: BundleLimits = DEFAULT_LIMITS) -> Bundle:
    """Read a bundle into memory; nothing is written to disk.

    Args:
        path: a folder, a .tar.gz or a .zip, with the bundle at its top or in its one top folder.
        limits: what it may hold.

    Raises:
        BundleError: it is missing, damaged, unsafe, too large or incomplete; the text names the bundle and,
            where there is one, the member.
    """
    try:
        members = read_members(path, limit_bytes=limits.total_bytes, limit_members=limits.members)
        files, folders = _collect(members, limits)
        name = path.resolve().name if path.is_dir() else _ARCHIVE_SUFFIX.sub("", path.name)
        return _assemble(name, files, folders)
    except BundleError as error:
        raise BundleError(f"bundle {str(path)!r}: {error}") from error
    except OSError as error:
        where = "" if error.filename in (None, path, str(path)) else f"{shown(str(error.filename))}: "
        raise BundleError(f"bundle {str(path)!r}: {where}{error.strerror or error}") from error


def _collect(members: Iterable[Member], limits: BundleLimits) -> tuple[list[_File], set[_Path]]:
    """All files, and the folders that matter, whether or not they have a member of their own."""
    files: list[_File] = []
    folders: set[_Path] = set()
    total = 0
    for member in members:
        inside = member.parts if member.is_folder else member.parts[:-1]
        folders.update(inside[:depth] for depth in range(1, min(len(inside), _DEEPEST) + 1))
        if member.is_folder:
            continue
        if _is_model(member.parts):
            # whatever else lies there may be of any size: one that is too large for a model is left out, not refused
            body = member.start(limits.config_bytes + 1)
            if len(body) > limits.config_bytes:
                continue
        else:
            limit = _limit_bytes(member.parts, limits)
            body = b"" if limit is None else member.content(limit)
        total += len(body)
        if total > limits.total_bytes:
            raise BundleError(f"more than {limits.total_bytes:,} bytes in all")
        files.append((member.parts, body))
    return files, folders


def _limit_bytes(parts: tuple[str, ...], limits: BundleLimits) -> int | None:
    """How large the file may be; None: its content is not wanted, wherever the bundle begins."""
    if _is_config(parts):
        return limits.config_bytes
    if len(parts) in (3, 4) and parts[-3] == SAMPLES_NAME and _page_name(parts[-1]):
        return limits.page_bytes
    return None


def _is_config(parts: tuple[str, ...]) -> bool:
    return len(parts) in (1, 2) and parts[-1] == CONFIG_NAME


def _is_model(parts: tuple[str, ...]) -> bool:
    return len(parts) in (1, 2) and parts[-1].endswith(MODEL_SUFFIX) and parts[0] != _APPLE_FOLDER


def _page_name(file_name: str) -> tuple[float, PageKind] | None:
    """Time and kind, if it is the name of a page."""
    for kind in PageKind:
        seconds = file_name.removesuffix(kind.suffix)
        if seconds == file_name or not _UNIX_SECONDS.fullmatch(seconds):
            continue
        if (at := float(seconds)) < _YEAR_10000_UNIX_SECONDS:
            return at, kind
    return None


def _assemble(name: str, files: list[_File], folders: set[_Path]) -> Bundle:
    root, config_text = _root_and_config(files, {path[0] for path in folders})
    samples = (*root, SAMPLES_NAME)
    bodies: dict[tuple[float, str, PageKind], bytes] = {}
    ignored: list[str] = []
    for parts, body in files:
        if parts[: len(samples)] != samples:
            continue
        page = _page_key(parts[len(samples) :])
        if page is None:
            ignored.append("/".join(parts[len(root) :]))
        elif page in bodies:
            raise BundleError(f"{shown('/'.join(parts))}: a second page of that target, time and kind")
        else:
            bodies[page] = body
    if not bodies:
        example = f"; not understood: {shown(min(ignored))}" if ignored else ""
        raise BundleError(f"no {SAMPLES_NAME}/<target>/<unix seconds>.prom in it{example}")
    pages = (RecordedPage(target, at, kind, bodies[at, target, kind]) for at, target, kind in sorted(bodies))
    asked = frozenset(path[-1] for path in folders if path[:-1] == samples)
    models = {parts[-1]: body for parts, body in files if _is_model(parts) and parts[:-1] == root}
    return Bundle(name, config_text, tuple(pages), tuple(map(escaped, sorted(ignored))), asked, models)


def _page_key(parts: tuple[str, ...]) -> tuple[float, str, PageKind] | None:
    """Time, target and kind of the page with that path below `samples`; None if it is no page by its name."""
    if len(parts) != 2 or not (page_name := _page_name(parts[1])):
        return None
    target = parts[0]
    try:
        target.encode()
    except UnicodeEncodeError:  # a name that is not UTF-8 on disk: no configuration can name that target
        return None
    at, kind = page_name
    return at, target, kind


def _root_and_config(files: list[_File], top_folders: set[str]) -> tuple[tuple[str, ...], str]:
    """Where the bundle begins, and its configuration."""
    if not files and not top_folders:
        raise BundleError("nothing in it")
    configs = [file for file in files if _is_config(file[0])]
    at_top = [file for file in configs if len(file[0]) == 1]
    folders = sorted(top_folders - {_APPLE_FOLDER})
    if not configs:
        raise BundleError(f"no {CONFIG_NAME} at its top or in its one top folder")
    if not at_top and len(folders) > 1:
        some = ", ".join(map(shown, folders[:5]))
        raise BundleError(f"no {CONFIG_NAME} at its top, but several folders: {some}")
    if len(at_top or configs) > 1:
        raise BundleError(f"{CONFIG_NAME} is in it twice")
    parts, body = (at_top or configs)[0]
    try:
        return parts[:-1], body.decode()
    except UnicodeDecodeError as error:
        raise BundleError(f"{shown('/'.join(parts))}: not UTF-8 text, byte {error.start}") from error
