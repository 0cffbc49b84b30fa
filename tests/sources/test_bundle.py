"""Capture bundles: what is read, what is ignored, and that no hostile or damaged one does harm."""

from __future__ import annotations

import errno
import gzip
import io
import math
import os
import re
import shutil
import tarfile
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pdscope.errors import BundleError
from pdscope.sources.bundle import Bundle, BundleLimits, PageKind, RecordedPage, read_bundle

CONFIG = "deployments: [] # é\n"
FILES = {
    "pdscope.yml": CONFIG.encode(),
    "expect.yaml": b"not of the bundle",
    "samples/p0/1790000000.prom": b"up 1\n",
    "samples/p0/1790000005.5.prom": b"up 2\n",
    "samples/p0/1790000000.loads.json": b"{}",
    "samples/d-0.é/1790000000.prom": b"",
    "samples/d-0.é/notes.txt": b"hello",
}
BUNDLE = Bundle(
    name="b",
    config_text=CONFIG,
    pages=(
        RecordedPage("d-0.é", 1790000000.0, PageKind.METRICS, b""),
        RecordedPage("p0", 1790000000.0, PageKind.LOADS, b"{}"),
        RecordedPage("p0", 1790000000.0, PageKind.METRICS, b"up 1\n"),
        RecordedPage("p0", 1790000005.5, PageKind.METRICS, b"up 2\n"),
    ),
    ignored=("samples/d-0.é/notes.txt",),
    folders=frozenset({"p0", "d-0.é"}),
)
SMALL = {"pdscope.yml": b"{}", "samples/p/1.prom": b"x" * 100, "samples/p/2.prom": b"y" * 100}

Files = Mapping[str, bytes]
Make = Callable[[Path, Files], Path]


def folder(where: Path, files: Files) -> Path:
    for name, body in files.items():
        path = where / "b" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    return where / "b"


def targz(where: Path, files: Files) -> Path:
    with tarfile.open(where / "b.tar.gz", "w:gz") as archive:
        for name, body in files.items():
            add_to_tar(archive, name, body=body)
    return where / "b.tar.gz"


def zipped(where: Path, files: Files) -> Path:
    with zipfile.ZipFile(where / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return where / "b.zip"


def add_to_tar(
    archive: tarfile.TarFile, name: str, kind: bytes = tarfile.REGTYPE, body: bytes = b"", link: str = ""
) -> None:
    header = tarfile.TarInfo(name)
    header.type, header.size, header.linkname = kind, len(body), link
    archive.addfile(header, io.BytesIO(body))


def written(path: Path, content: bytes | bytearray) -> Path:
    path.write_bytes(content)
    return path


def refusal(path: Path, limits: BundleLimits | None = None) -> str:
    """The text after the bundle's name with which it is refused."""
    with pytest.raises(BundleError) as caught:
        read_bundle(path, limits or BundleLimits())
    text = str(caught.value)
    start = f"bundle {str(path)!r}: "
    assert text.startswith(start)
    assert text.isprintable()
    return text.removeprefix(start)


each_container = pytest.mark.parametrize("make", [folder, targz, zipped])
each_archive = pytest.mark.parametrize("make", [targz, zipped])


# --- what is read


@each_container
@pytest.mark.parametrize("top", ["", "any folder/"])
def test_same_bundle_from_each_container(tmp_path: Path, make: Make, top: str) -> None:
    """A folder, a .tar.gz and a .zip say the same, with and without a folder around the bundle."""
    assert read_bundle(make(tmp_path, {top + name: body for name, body in FILES.items()})) == BUNDLE


@pytest.mark.parametrize(("form", "suffix"), [("gztar", ".tar.gz"), ("zip", ".zip")])
@pytest.mark.parametrize("base", [None, "b"])
def test_archive_with_folder_entries(tmp_path: Path, form: str, suffix: str, base: str | None) -> None:
    """As `tar -C b -czf x.tar.gz .` and `zip -r x.zip b` write it; what it is, its content says, not its name."""
    folder(tmp_path, FILES)
    root = tmp_path if base else tmp_path / "b"
    archive = Path(shutil.make_archive(str(tmp_path / "made"), form, root, base))
    assert archive.name == f"made{suffix}"
    for name in ("b.tar.gz", "b.tgz", "b.ZIP", "b"):
        target = archive.with_name(name) if name != "b" else archive.with_name("elsewhere") / name
        target.parent.mkdir(exist_ok=True)
        shutil.copy(archive, target)
        assert read_bundle(target) == BUNDLE


def test_name_of_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`pdscope diagnose .` names the folder."""
    monkeypatch.chdir(folder(tmp_path, FILES))
    assert read_bundle(Path()) == BUNDLE


@pytest.mark.parametrize(
    ("file_name", "at"),
    [
        ("0.prom", 0.0),
        ("1790000000.prom", 1790000000.0),
        ("1795967190.932.prom", 1795967190.932),
        ("1795967190.932.loads.json", 1795967190.932),
        ("253402300799.999.prom", 253402300799.999),
        ("253402300800.prom", None),
        ("9" * 200 + ".prom", None),
        ("1e9.prom", None),
        ("1e400.prom", None),
        ("-1.prom", None),
        ("+1.prom", None),
        ("1_000.prom", None),
        ("\u0661.prom", None),
        ("nan.prom", None),
        ("inf.prom", None),
        (".5.prom", None),
        ("1..prom", None),
        (" 1.prom", None),
        ("1\n.prom", None),
        ("1.PROM", None),
        ("1.prom.gz", None),
        ("1.json", None),
        ("1", None),
        (".prom", None),
        ("._1.prom", None),
        ("1.prom/1.prom", None),
        ("../1.prom~", None),
    ],
)
def test_names_of_pages(tmp_path: Path, file_name: str, at: float | None) -> None:
    """A name is a plain decimal time of this epoch, or the file is reported."""
    name = os.path.normpath(f"samples/t/{file_name}")
    bundle = read_bundle(targz(tmp_path, {"pdscope.yml": b"", "samples/z/0.prom": b"", name: b"page"}))
    if at is None:
        assert bundle.ignored == (repr(name)[1:-1],)
        assert len(bundle.pages) == 1
    else:
        kind = PageKind.LOADS if "loads" in name else PageKind.METRICS
        assert RecordedPage("t", at, kind, b"page") in bundle.pages
        assert not bundle.ignored


@each_container
def test_target_names_are_taken_as_they_are(tmp_path: Path, make: Make) -> None:
    """Neither case nor Unicode form is touched: what is equal, the configuration decides."""
    names = ["P0", "p0", "\u00e9", "e\u0301", "a b", "samples", "pdscope.yml", "1.prom", "a\\b", "é\x1b[2J"]
    files = {"pdscope.yml": b""} | {f"samples/{name}/1.prom": name.encode() for name in names}
    bundle = read_bundle(make(tmp_path, files))
    assert {page.target: page.body.decode() for page in bundle.pages} == {name: name for name in names}


@pytest.mark.parametrize("make", [folder, targz])
def test_undecodable_names_are_reported(tmp_path: Path, make: Make) -> None:
    """No configuration can name such a target; the report can be printed."""
    bundle = read_bundle(make(tmp_path, {**SMALL, "samples/\udcff/1.prom": b"", "samples/p/\udcff": b""}))
    assert bundle.ignored == (r"samples/p/\udcff", r"samples/\udcff/1.prom")
    assert len(bundle.pages) == 2


def test_leftovers_of_macos_do_not_matter(tmp_path: Path) -> None:
    """Finder zips resource forks beside the folder."""
    files = {f"b/{name}": body for name, body in FILES.items()}
    forks = {"__MACOSX/._b": b"fork", "__MACOSX/b/samples/p0/._1790000000.prom": b"fork", ".DS_Store": b""}
    assert read_bundle(zipped(tmp_path, files | forks)) == BUNDLE


@each_archive
def test_order_in_the_archive_does_not_matter(tmp_path: Path, make: Make) -> None:
    """The configuration may come last."""
    assert read_bundle(make(tmp_path, dict(reversed(FILES.items())))) == BUNDLE


# --- the last window


def pages(*times: float, target: str = "t", kind: PageKind = PageKind.METRICS) -> list[RecordedPage]:
    return [RecordedPage(target, at, kind, b"") for at in times]


def bundle_of(found: list[RecordedPage]) -> Bundle:
    return Bundle("b", "", tuple(sorted(found, key=lambda page: (page.at, page.target, page.kind))))


def test_last_window_begins_at_or_before_its_start() -> None:
    """Each target and kind has its own first page; one that is younger than the window has all its pages."""
    bundle = bundle_of(
        pages(0, 10, 20, 30, 40)
        + pages(1, 19, 31, target="u")
        + pages(25, 35, target="young")
        + pages(3, 9, target="gone")
        + pages(11, 39, kind=PageKind.LOADS)
    )
    kept: dict[tuple[str, str], list[float]] = {}
    for page in bundle.last_window(20):
        kept.setdefault((page.target, page.kind.value), []).append(page.at)
    assert kept == {
        ("t", "metrics"): [20, 30, 40],
        ("u", "metrics"): [19, 31],
        ("young", "metrics"): [25, 35],
        ("gone", "metrics"): [9],
        ("t", "loads"): [11, 39],
    }
    assert bundle.newest == 40


def test_window_that_ends_between_recorded_fractions() -> None:
    """A scrape exactly one window before the newest is its first."""
    bundle = bundle_of(pages(1795967190.932, 1795967225.158, 1795967246.158))
    assert [page.at for page in bundle.last_window(21)] == [1795967225.158, 1795967246.158]


def test_windows_at_the_edges() -> None:
    """None at all, the newest alone, everything."""
    assert bundle_of([]).last_window(60) == ()
    assert bundle_of([]).newest is None
    bundle = bundle_of(pages(0, 1))
    assert bundle.last_window(0) == bundle.pages[1:]
    assert bundle.last_window(math.inf) == bundle.pages
    for window in (-1.0, math.nan):
        with pytest.raises(ValueError, match="a window of"):
            bundle.last_window(window)


recordings = st.lists(
    st.builds(
        RecordedPage,
        target=st.sampled_from("abc"),
        at=st.integers(0, 60).map(float) | st.floats(0, 60),
        kind=st.sampled_from(PageKind),
        body=st.just(b""),
    ),
    min_size=1,
    unique_by=lambda page: (page.target, page.at, page.kind),
).map(bundle_of)


@given(recordings, st.integers(0, 70).map(float) | st.floats(0, 70))
@example(bundle_of(pages(0, 60)), 60.0)
def test_last_window_is_what_its_definition_says(bundle: Bundle, window: float) -> None:
    """Page by page: it is in the window, or the last one at or before the start of it."""
    assert bundle.newest is not None
    start = bundle.newest - window
    expected = [
        page
        for page in bundle.pages
        if page.at > start
        or not any(
            later.target == page.target and later.kind == page.kind and page.at < later.at <= start
            for later in bundle.pages
        )
    ]
    assert list(bundle.last_window(window)) == expected


@given(recordings, st.floats(0, 70), st.floats(0, 70))
def test_a_longer_window_holds_a_shorter_one(bundle: Bundle, one: float, other: float) -> None:
    """Nothing is lost by asking for more, and the newest page is always there."""
    short, long = sorted((one, other))
    assert set(bundle.last_window(short)) <= set(bundle.last_window(long))
    assert bundle.last_window(short)[-1].at == bundle.newest


# --- what is missing or damaged


@each_container
@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"samples/p/1.prom": b""}, "no pdscope.yml at its top or in its one top folder"),
        ({"a/b/pdscope.yml": b"", "a/b/samples/p/1.prom": b""}, "no pdscope.yml at its top or in its one"),
        ({"a/pdscope.yml": b"", "b/samples/p/1.prom": b""}, "at its top, but several folders: 'a', 'b'"),
        ({"a/pdscope.yml": b"", "b/pdscope.yml": b""}, "at its top, but several folders: 'a', 'b'"),
        ({"pdscope.yml": b""}, "no samples/<target>/<unix seconds>.prom in it$"),
        ({"pdscope.yml": b"", "a/samples/p/1.prom": b""}, "no samples/<target>/<unix seconds>.prom in it$"),
        ({"pdscope.yml": b"", "samples/1.prom": b""}, "in it; not understood: 'samples/1.prom'"),
        ({"pdscope.yml": b"", "samples/p/x\x1b\n": b""}, r"not understood: 'samples/p/x\\x1b\\n'"),
        ({"b/pdscope.yml": b"a: \xff", "b/samples/p/1.prom": b""}, "'b/pdscope.yml': not UTF-8 text, byte 3"),
        ({**SMALL, "samples/p/1.0.prom": b""}, "'samples/p/1(.0)?.prom': a second page of that target, time"),
    ],
)
def test_incomplete_bundle(tmp_path: Path, make: Make, files: Files, message: str) -> None:
    """What is missing is named."""
    assert re.search(message, refusal(make(tmp_path, files)))


@each_archive
def test_archive_with_nothing_in_it(tmp_path: Path, make: Make) -> None:
    """An archive of no files, one that has a folder only, and a file of no bytes."""
    assert refusal(make(tmp_path, {})) == "nothing in it"
    (tmp_path / "e").mkdir()
    form = "zip" if make is zipped else "gztar"
    only_folder = Path(shutil.make_archive(str(tmp_path / "f"), form, tmp_path, "e"))
    assert refusal(only_folder) == "no pdscope.yml at its top or in its one top folder"
    assert refusal(written(tmp_path / "b.tar.gz", b"")) == "an empty file"


def test_empty_folder(tmp_path: Path) -> None:
    """Also one with files and links that have nothing to do with a bundle."""
    assert refusal(tmp_path) == "nothing in it"
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "notes.txt").touch()
    assert refusal(tmp_path) == "no pdscope.yml at its top or in its one top folder"


def test_missing_file(tmp_path: Path) -> None:
    """Also in a folder that is none."""
    assert refusal(tmp_path / "b.zip") == "No such file or directory"
    assert refusal(written(tmp_path / "f", b"") / "b.zip") == "Not a directory"


@pytest.mark.parametrize("name", ["b", "b/samples/p/2.prom"])
def test_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The file at fault is named when it is not the bundle itself."""
    bundle = folder(tmp_path, SMALL)
    forbidden = tmp_path / name
    real_stat, real_open = Path.stat, Path.open

    def check(path: Path) -> None:
        if path == forbidden:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def guarded_stat(path: Path, **arguments: bool) -> os.stat_result:
        if name == "b":
            check(path)
        return real_stat(path, **arguments)

    def guarded_open(path: Path, mode: str) -> IO[Any]:
        check(path)
        return real_open(path, mode)

    monkeypatch.setattr(Path, "stat", guarded_stat)
    monkeypatch.setattr(Path, "open", guarded_open)
    text = refusal(bundle)
    assert text.endswith("Permission denied")
    assert ("2.prom" in text) == (name != "b")


def test_not_an_archive(tmp_path: Path) -> None:
    """Wrong magic, a pipe, a tar archive that was not compressed."""
    assert refusal(written(tmp_path / "b.zip", b"<html>")) == "its content is neither a .tar.gz nor a .zip archive"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == "a pipe, neither a folder nor an archive"
    plain = gzip.decompress(targz(tmp_path, SMALL).read_bytes())
    assert "neither" in refusal(written(tmp_path / "b.tar", plain))
    gz = gzip.compress(b"a page, not an archive")
    assert "cut off: its tar archive has no end" in refusal(written(tmp_path / "page.gz", gz))
    assert "damaged or cut-off zip archive" in refusal(written(tmp_path / "b.zip", b"PK, but no zip"))


@each_archive
def test_cut_off_archive(tmp_path: Path, make: Make) -> None:
    """Wherever a download stopped."""
    whole = make(tmp_path, SMALL).read_bytes()
    for length in range(2, len(whole)):
        assert "cut" in refusal(written(tmp_path / "cut", whole[:length]))


def test_damage_names_the_member(tmp_path: Path) -> None:
    """A zip's checksums are per member."""
    raw = bytearray(zipped(tmp_path, SMALL).read_bytes())
    raw[raw.index(b"samples/p/2.prom") + len("samples/p/2.prom") + 2] ^= 0xFF
    assert refusal(written(tmp_path / "b.zip", raw)).startswith("'samples/p/2.prom': damaged or cut-off zip")


# --- what is unsafe


@each_archive
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/etc/passwd", "'/etc/passwd': an absolute path"),
        ("\\\\host\\share", r"'\\\\\\\\host\\\\share': an absolute path"),
        ("C:\\x", r"'C:\\\\x': an absolute path"),
        ("../x", "'../x': a path that leaves the bundle"),
        ("samples/p/../../../1.prom", "'samples/p/../../../1.prom': a path that leaves the bundle"),
        ("samples\\..\\x", r"'samples\\\\..\\\\x': a path that leaves the bundle"),
        ("../" + "x" * 500, "'../xxx*…x{60}': a path that leaves the bundle"),
        ("../\x1b]0;title\x07", r"'../\\x1b]0;title\\x07': a path that leaves the bundle"),
    ],
)
def test_path_out_of_the_bundle(tmp_path: Path, make: Make, name: str, message: str) -> None:
    """Refused though nothing is unpacked: no honest program writes it."""
    assert re.fullmatch(message, refusal(make(tmp_path, {**SMALL, name: b""})))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.LNKTYPE, "a hard link"),
        (tarfile.CHRTYPE, "a device"),
        (tarfile.BLKTYPE, "a device"),
        (tarfile.FIFOTYPE, "a pipe"),
        (tarfile.GNUTYPE_SPARSE, "a special file"),
        (b"V", "a special file"),
    ],
)
def test_special_file_in_a_tar(tmp_path: Path, kind: bytes, message: str) -> None:
    """Refused wherever it is."""
    path = targz(tmp_path, SMALL)
    with tarfile.open(path, "w:gz") as archive:
        add_to_tar(archive, "outside/x", kind, link="pdscope.yml")
    assert refusal(path) == f"'outside/x': {message}, only files and folders are read"


def test_link_in_a_zip(tmp_path: Path) -> None:
    """Zip keeps the Unix mode of a file."""
    link = zipfile.ZipInfo("samples/p/3.prom")
    link.external_attr = 0o120777 << 16
    path = zipped(tmp_path, SMALL)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(link, "/etc/passwd")
    assert refusal(path) == "'samples/p/3.prom': a symbolic link, only files and folders are read"


@pytest.mark.parametrize("name", ["pdscope.yml", "samples", "samples/q", "samples/p/3.prom"])
def test_link_in_a_folder(tmp_path: Path, name: str) -> None:
    """Not followed, wherever it points; a link to the bundle itself is fine."""
    bundle = folder(tmp_path, SMALL)
    (tmp_path / "b-link").symlink_to(bundle)
    assert read_bundle(tmp_path / "b-link") == read_bundle(bundle)
    if (bundle / name).exists():
        (bundle / name).rename(tmp_path / "target")
    (bundle / name).symlink_to(tmp_path / "target")
    assert refusal(bundle) == f"{name!r}: a symbolic link, only files and folders are read"


@pytest.mark.parametrize("name", ["pdscope.yml", "samples/p/1.prom"])
def test_same_file_twice(tmp_path: Path, name: str) -> None:
    """Programs differ in which one they take."""
    path = zipped(tmp_path, SMALL)
    with zipfile.ZipFile(path, "a") as archive, warnings.catch_warnings(action="ignore"):
        archive.writestr(name, b"other")
    assert "twice" in refusal(path) or "a second page of that target" in refusal(path)


def test_null_character_in_a_name(tmp_path: Path) -> None:
    """`zipfile` would cut the name there."""
    raw = zipped(tmp_path, {**SMALL, "samples/p/3.prom?x": b""}).read_bytes()
    text = refusal(written(tmp_path / "b.zip", raw.replace(b"3.prom?x", b"3.prom\0x")))
    assert text == r"'samples/p/3.prom\x00x': a null character in its path"


@pytest.mark.parametrize("flag", [0x1, 0x40])
def test_encrypted_zip(tmp_path: Path, flag: int) -> None:
    """Said as such, not as damage."""
    raw = bytearray(zipped(tmp_path, SMALL).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + offset] |= flag
    assert refusal(written(tmp_path / "b.zip", raw)) == "'pdscope.yml': encrypted"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_rare_compression(tmp_path: Path, method: int) -> None:
    """Those whose output cannot be bounded while reading."""
    with zipfile.ZipFile(tmp_path / "b.zip", "w", method) as archive:
        archive.writestr("pdscope.yml", b"")
    text = refusal(tmp_path / "b.zip")
    assert text == f"'pdscope.yml': compressed with method {method}: only plain zip (deflate) is read"


# --- what is too large


@each_container
def test_limits(tmp_path: Path, make: Make) -> None:
    """What is exactly at a limit is read."""
    path = make(tmp_path, SMALL)
    assert read_bundle(path, BundleLimits(page_bytes=100, config_bytes=2)).pages
    assert refusal(path, BundleLimits(page_bytes=99)) == "'samples/p/1.prom': more than 99 bytes"
    assert refusal(path, BundleLimits(config_bytes=1)) == "'pdscope.yml': more than 1 bytes"
    members = 5 if make is folder else 3
    assert read_bundle(path, BundleLimits(members=members)).pages
    assert refusal(path, BundleLimits(members=members - 1)) == f"more than {members - 1} files and folders"
    total = len(gzip.decompress(path.read_bytes())) if make is targz else 202
    assert read_bundle(path, BundleLimits(total_bytes=total)).pages
    assert f"more than {total - 1:,} bytes" in refusal(path, BundleLimits(total_bytes=total - 1))


@each_archive
@pytest.mark.parametrize("name", ["samples/p/3.prom", "elsewhere/large"])
def test_bomb_costs_no_memory(tmp_path: Path, make: Make, name: str) -> None:
    """A page that grows a thousandfold is refused before it has grown; what is no page is not decompressed."""
    path = make(tmp_path, SMALL | {name: bytes(64 << 20)})
    limits = BundleLimits(page_bytes=1 << 20, total_bytes=8 << 20)
    tracemalloc.start()
    try:
        if make is zipped and name.startswith("elsewhere"):
            assert read_bundle(path, limits).pages
        else:
            assert "bytes" in refusal(path, limits)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_zip_that_lies_about_sizes(tmp_path: Path) -> None:
    """The sizes in its headers open no door."""
    raw = bytearray(zipped(tmp_path, {"pdscope.yml": b"", "samples/p/1.prom": bytes(10_000)}).read_bytes())
    real, claimed = (10_000).to_bytes(4, "little"), (10).to_bytes(4, "little")
    assert raw.count(real) == 2
    path = written(tmp_path / "b.zip", raw.replace(real, claimed))
    assert refusal(path, BundleLimits(page_bytes=100)).startswith("'samples/p/1.prom': damaged or cut-off zip")


def test_zip_with_an_endless_list(tmp_path: Path) -> None:
    """The list of members is bounded before it is read."""
    path = zipped(tmp_path, {f"{'x' * 200}{number}": b"" for number in range(300)})
    assert refusal(path, BundleLimits(members=10)) == "a list of files and folders of more than 65,536 bytes"


# --- any bytes at all


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Good archives, to be spoilt."""
    where = tmp_path_factory.mktemp("good")
    return [make(where, SMALL).read_bytes() for make in (targz, zipped)]


@given(st.binary(max_size=3000), st.sampled_from([b"", b"\x1f\x8b\x08", b"PK\x03\x04", b"PK\x05\x06", b"gz"]))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, rubbish: bytes, magic: bytes) -> None:
    """Never another exception than BundleError."""
    content = gzip.compress(rubbish) if magic == b"gz" else magic + rubbish
    assert refusal(written(tmp_path_factory.getbasetemp() / "rubbish", content))


@given(st.data())
def test_spoilt_archives_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, archives: list[bytes], data: st.DataObject
) -> None:
    """Bytes changed, cut out and doubled; what passes has the pages that were written, or others by their names."""
    content = bytearray(data.draw(st.sampled_from(archives)))
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(content) - 1))
        stop = min(len(content), start + data.draw(st.sampled_from([1, 2, 4, 40])))
        content[start:stop] = data.draw(
            st.binary(min_size=stop - start, max_size=stop - start) | st.just(b"") | st.just(content[start:stop] * 2)
        )
        if not content:
            return
    try:
        bundle = read_bundle(written(tmp_path_factory.getbasetemp() / "spoilt", content))
    except BundleError:
        return
    assert {page.body for page in bundle.pages} <= {b"x" * 100, b"y" * 100}
