"""The forward-only tar reader, held against the writers of `tarfile` and of GNU tar."""

from __future__ import annotations

import gzip
import io
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdscope.errors import BundleError
from pdscope.sources.targz import read_targz

LIMIT_BYTES = 1 << 20
FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)
BLOCK_BYTES = 512


def tar(files: Iterable[tuple[str, bytes]], file_format: int = tarfile.PAX_FORMAT, **fields: object) -> bytes:
    """An archive of regular files, not compressed; `fields` are set on each header."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=file_format) as archive:
        for name, body in files:
            header = tarfile.TarInfo(name)
            header.size = len(body)
            for field, value in fields.items():
                setattr(header, field, value)
            archive.addfile(header, io.BytesIO(body))
    return out.getvalue()


def read(gz: bytes, limit_bytes: int = LIMIT_BYTES) -> list[tuple[str, bytes]]:
    """Names and contents, as our reader sees them."""
    return [(header.name, start(header.size)) for header, start in read_targz(io.BytesIO(gz), limit_bytes)]


def read_tar(plain: bytes, limit_bytes: int = LIMIT_BYTES) -> list[tuple[str, bytes]]:
    return read(gzip.compress(plain), limit_bytes)


def raw_header(body: bytes, kind: bytes = tarfile.XHDTYPE, size: int | None = None) -> bytes:
    """A header with that body behind it, as no library would write it."""
    header = tarfile.TarInfo("extended")
    header.type = kind
    header.size = len(body) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + body + bytes(-len(body) % BLOCK_BYTES)


components = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=150)
paths = st.lists(components, min_size=1, max_size=3).map("/".join)


@given(st.lists(st.tuples(paths, st.binary(max_size=1500)), max_size=4), st.sampled_from(FORMATS[1:]))
def test_reads_what_tarfile_writes(files: list[tuple[str, bytes]], file_format: int) -> None:
    """Any name and any content, in both formats that can hold any name."""
    assert read_tar(tar(files, file_format)) == files


@pytest.mark.parametrize("file_format", ["v7", "oldgnu", "gnu", "ustar", "posix"])
def test_reads_what_gnu_tar_writes(tmp_path: Path, file_format: str) -> None:
    """Each format of GNU tar, with a path as long as that format can hold."""
    longest = {"v7": 80, "ustar": 200}.get(file_format, 1000)
    parts = ["d" * 50] * (longest // 51) + ["page.prom"]
    page = tmp_path.joinpath(*parts)
    page.parent.mkdir(parents=True)
    page.write_bytes(b"up 1\n")
    archive = tmp_path / "a.tar.gz"
    subprocess.run(
        ["tar", "-C", tmp_path, f"--format={file_format}", "-czf", archive, parts[0]], check=True, timeout=30
    )
    with archive.open("rb") as raw:
        found = {header.name: start(100) for header, start in read_targz(raw, LIMIT_BYTES) if header.isreg()}
    assert found == {"/".join(parts): b"up 1\n"}


def test_contents_may_be_passed_over_or_begun() -> None:
    """The next header is found whatever was read of the member before."""
    files = [(f"f{size}", bytes([size % 251]) * size) for size in (0, 1, 511, 512, 513, 5000)]
    gz = gzip.compress(tar(files))
    assert [header.name for header, _ in read_targz(io.BytesIO(gz), LIMIT_BYTES)] == [name for name, _ in files]
    begun = [start(2) for _, start in read_targz(io.BytesIO(gz), LIMIT_BYTES)]
    assert begun == [body[:2] for _, body in files]


def test_folders_and_links_have_no_content() -> None:
    """Their size field means nothing."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE):
            header = tarfile.TarInfo(kind.decode())
            header.type, header.size, header.linkname = kind, 999, "x"
            archive.addfile(header)
    entries = read_targz(io.BytesIO(gzip.compress(out.getvalue())), LIMIT_BYTES)
    assert [(header.type, start(10)) for header, start in entries] == [
        (kind, b"") for kind in (tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE)
    ]


def test_pax_size_wins() -> None:
    """A writer that knows sizes only as extended records leaves the field of the header zero."""
    plain = raw_header(b"10 size=3\n") + tar([("a", b"")])[:BLOCK_BYTES] + b"abc".ljust(BLOCK_BYTES, b"\0")
    assert read_tar(plain + bytes(1024)) == [("a", b"abc")]


def test_comment_on_the_archive_is_passed_over() -> None:
    """`git archive` begins with a global header."""
    plain = raw_header(b"14 comment=ab\n", tarfile.XGLTYPE) + tar([("a", b"x")])
    assert read_tar(plain) == [("a", b"x")]


def test_sparse_files_are_told_apart() -> None:
    """Their content on disk is not their content."""
    plain = tar([("a", b"x")], pax_headers={"GNU.sparse.major": "1"})
    types = [header.type for header, _ in read_targz(io.BytesIO(gzip.compress(plain)), LIMIT_BYTES)]
    assert types == [tarfile.GNUTYPE_SPARSE]


def test_undecodable_names_survive() -> None:
    """A name that is not UTF-8 keeps its bytes."""
    assert read_tar(tar([("a\udcff", b"x")], tarfile.GNU_FORMAT)) == [("a\udcff", b"x")]


def test_cut_off_anywhere_is_an_error() -> None:
    """No part of an archive passes for the whole."""
    gz = gzip.compress(tar([("a", b"x" * 600), ("b" * 150, b"y")], tarfile.PAX_FORMAT), mtime=0)
    for length in range(len(gz)):
        with pytest.raises(BundleError):
            read(gz[:length])


def test_tar_without_its_end_is_an_error() -> None:
    """Cut off before it was compressed: gzip finds nothing wrong."""
    plain = tar([("a", b"x" * 600)])
    for length in range(0, 512 + 1024 + 1, 256):
        with pytest.raises(BundleError, match="its tar archive has no end"):
            read_tar(plain[:length])


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        (b"<html>" * 200, "not a tar archive, or damaged: no header at byte 0 of it"),
        (tar([("a", b"x")])[:1024] + b"rubbish!" * 64, "no header at byte 1,024 of it"),
        (raw_header(b"1" * 60_000), "no list of records"),
        (raw_header(b"9 path=ab\n"), "no list of records"),
        (raw_header(b"12 path=ab\n"), "no list of records"),
        (raw_header(b"0 path=a\n"), "no list of records"),
        (raw_header(b"900 path=a\n"), "no list of records"),
        (raw_header(b"6 =ab\n"), "no list of records"),
        (raw_header(b"11 size=-1\n") + tar([("a", b"")]), "size that is no number"),
        (raw_header(b"11 size=1e\n") + tar([("a", b"")]), "size that is no number"),
        (raw_header(b"", size=-512), "a negative size at byte 0"),
        (raw_header(b"", size=100_000), "a tar header of 100,000 bytes"),
        (raw_header(b"", tarfile.REGTYPE, size=10**15) + bytes(2048), "its tar archive has no end"),
    ],
)
def test_damage_is_named(plain: bytes, message: str) -> None:
    """Including headers on which `tarfile` before 3.11.14 spends minutes, or for ever."""
    with pytest.raises(BundleError, match=message):
        read_tar(plain)


def test_rubbish_behind_the_gzip_stream_is_an_error() -> None:
    """Its checksum comes last, so it is read to the end."""
    gz = gzip.compress(tar([("a", b"x")]))
    assert read(gz + bytes(100)) == [("a", b"x")]
    with pytest.raises(BundleError, match="damaged gzip stream"):
        read(gz + b"rubbish")
    with pytest.raises(BundleError, match="damaged gzip stream: CRC check failed"):
        read(gz[:-8] + bytes([gz[-8] ^ 1]) + gz[-7:])


def test_limit_counts_what_is_passed_over() -> None:
    """Headers, padding and contents that nobody asked for; exactly the limit is allowed."""
    plain = tar([("a", bytes(100_000))])
    assert len(read_tar(plain, len(plain))) == 1
    with pytest.raises(BundleError, match=f"more than {len(plain) - 1:,} bytes when decompressed"):
        list(read_targz(io.BytesIO(gzip.compress(plain)), len(plain) - 1))


@given(st.data())
def test_a_changed_byte_is_found_or_harmless(data: st.DataObject) -> None:
    """Only the head of a gzip stream has bytes without a checksum."""
    files = [("a", b"x" * 600), ("é" * 80, b"y")]
    gz = bytearray(gzip.compress(tar(files), mtime=0))
    gz[data.draw(st.integers(0, len(gz) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        assert read(bytes(gz)) == files
    except BundleError:
        return


@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes_are_read_or_refused(rubbish: bytes, begins_well: bool) -> None:
    """No exception but ours, whatever lies in the stream."""
    start = tar([("a", b"x")])[: BLOCK_BYTES * 2] if begins_well else b""
    try:
        assert all(isinstance(body, bytes) for _, body in read_tar(start + rubbish))
    except BundleError:
        return


@given(st.lists(st.tuples(st.integers(0, BLOCK_BYTES - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_any_header_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    """A changed header with a right checksum gets past the first defence."""
    header = bytearray(raw_header(b"", tarfile.REGTYPE))
    for position, byte in changes:
        header[position] = byte
    header[148:156] = b"        "
    header[148:156] = b"%06o\0 " % sum(header)
    try:
        assert len(read_tar(bytes(header) + bytes(1024))) <= 1
    except BundleError:
        return
