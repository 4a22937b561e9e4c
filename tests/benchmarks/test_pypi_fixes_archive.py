"""Reading archives: what a hostile one holds is refused, and nothing of it reaches the host."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from swe_pytest.benchmarks.pypi_fixes import archive
from swe_pytest.benchmarks.pypi_fixes.archive import File, UnsafeArchive, read_sdist, read_wheel


def tar_of(path: Path, *entries: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as writer:
        for entry, content in entries:
            entry.size = len(content)
            writer.addfile(entry, io.BytesIO(content))
    return path


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def test_a_source_distribution_is_read_below_its_top_folder(tmp_path: Path) -> None:
    """Files come with content and executable bit; folders are implied; `./` in names does not matter."""
    path = tar_of(
        tmp_path / "thing-1.0.tar.gz",
        (entry("thing-1.0", tarfile.DIRTYPE, mode=0o755), b""),
        (entry("./thing-1.0/setup.py", mode=0o755), b"run"),
        (entry("thing-1.0/src/a b.py"), b"\xff\x00"),
    )
    assert read_sdist(path) == {"setup.py": File(b"run", executable=True), "src/a b.py": File(b"\xff\x00")}


@pytest.mark.parametrize(
    "hostile",
    [
        entry("/etc/passwd"),
        entry("thing-1.0/../../etc/passwd"),
        entry("thing-1.0/.git/config"),
        entry("thing-1.0/sub/.GIT/hooks/pre-commit"),
        entry("thing-1.0/a\nb"),
        entry("thing-1.0/a\\b"),
        entry("thing-1.0/link", tarfile.SYMTYPE, "/etc/passwd"),
        entry("thing-1.0/link", tarfile.SYMTYPE, "setup.py"),
        entry("thing-1.0/link", tarfile.LNKTYPE, "thing-1.0/setup.py"),
        entry("thing-1.0/fifo", tarfile.FIFOTYPE),
        entry("thing-1.0/device", tarfile.CHRTYPE),
    ],
    ids=lambda hostile: f"{hostile.name!r}-{hostile.type.decode()}",
)
def test_a_malicious_tar_is_refused(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    """Paths that lead out, git's own folder, links and devices make the whole archive useless."""
    path = tar_of(tmp_path / "thing.tar.gz", (entry("thing-1.0/setup.py"), b""), (hostile, b""))
    with pytest.raises(UnsafeArchive, match=r"thing\.tar\.gz"):
        read_sdist(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_zip_may_hold_no_link(tmp_path: Path) -> None:
    """The same holds for zip files, which some source distributions are."""
    path = tmp_path / "thing.zip"
    with zipfile.ZipFile(path, "w") as writer:
        link = zipfile.ZipInfo("thing-1.0/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        writer.writestr(link, "/etc/passwd")
    with pytest.raises(UnsafeArchive, match="link"):
        read_sdist(path)


def test_an_absurdly_large_archive_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts what the archive says that it holds."""
    monkeypatch.setattr(archive, "MAX_BYTES", 1000)
    path = tar_of(tmp_path / "bomb.tar.gz", (entry("thing-1.0/zeros"), bytes(1001)))
    with pytest.raises(UnsafeArchive, match="1000 bytes"):
        read_sdist(path)


@pytest.mark.parametrize("damage", ["cut", "text", "empty"])
def test_a_damaged_archive_is_named(tmp_path: Path, damage: str) -> None:
    """A file that is cut short, or no archive at all, gives this error and no other."""
    path = tar_of(tmp_path / "thing.tar.gz", (entry("thing-1.0/data"), bytes(range(256)) * 999))
    content = path.read_bytes()
    path.write_bytes({"cut": content[: len(content) // 2], "text": b"no archive", "empty": b""}[damage])
    with pytest.raises(UnsafeArchive, match=r"thing\.tar\.gz"):
        read_sdist(path)


def wheel_of(path: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w") as writer:
        for name, text in files.items():
            writer.writestr(name, text)
    return path


def test_a_pure_wheel_is_read_as_it_stands(tmp_path: Path) -> None:
    """All its files go on the import path under their own names."""
    files = {"thing.py": "x = 1\n", "thing-1.0.dist-info/WHEEL": "Root-Is-Purelib: true\n"}
    tree = read_wheel(wheel_of(tmp_path / "thing.whl", files))
    assert {name: file.content.decode() for name, file in tree.items()} == files


@pytest.mark.parametrize(
    "files",
    [
        {"thing.so": "", "thing-1.0.dist-info/WHEEL": "Root-Is-Purelib: false\n"},
        {"thing.py": ""},
        {"thing-1.0.data/scripts/run": "", "thing-1.0.dist-info/WHEEL": "Root-Is-Purelib: true\n"},
    ],
    ids=["compiled", "no metadata", "scripts"],
)
def test_a_wheel_that_needs_installing_is_refused(tmp_path: Path, files: dict[str, str]) -> None:
    """Unpacking is only right for pure wheels without files for other places."""
    with pytest.raises(UnsafeArchive):
        read_wheel(wheel_of(tmp_path / "thing.whl", files))
