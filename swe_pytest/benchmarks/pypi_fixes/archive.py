"""What a distribution file holds, read in memory: nothing is unpacked onto the host, so nothing escapes."""

from __future__ import annotations

import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

MAX_FILES = 20_000
MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """A regular file."""

    content: bytes
    executable: bool = False


Tree = Mapping[str, File]
"""Files by relative POSIX path. There are no empty directories, links or special files."""


class UnsafeArchive(Exception):
    """An archive holds what a source tree has no need of: a link, a device, a path that leads out."""


def read_sdist(path: Path) -> dict[str, File]:
    """Return the files below the one top-level folder of a source distribution (.tar.* or .zip).

    Raises: UnsafeArchive, also when the archive cannot be read or is absurdly large.
    """
    tree: dict[str, File] = {}
    for name, file in _members(path):
        _, slash, inner = name.partition("/")
        if slash:
            tree[inner] = file
    if not tree:
        raise UnsafeArchive(f"{path.name}: no files below a top-level folder")
    return tree


def read_wheel(path: Path) -> dict[str, File]:
    """Return the files that a pure wheel puts on the import path.

    Raises: UnsafeArchive, also for a wheel that is not pure or needs more than being unpacked.
    """
    tree = dict(_members(path))
    metadata = next((file for name, file in tree.items() if name.endswith(".dist-info/WHEEL")), File(b""))
    if not re.search(rb"^Root-Is-Purelib: *true\s*$", metadata.content, re.MULTILINE | re.IGNORECASE):
        raise UnsafeArchive(f"{path.name}: not a pure wheel")
    if any(re.match(r"[^/]+\.data/", name) for name in tree):
        raise UnsafeArchive(f"{path.name}: holds files for outside the import path")
    return tree


def _members(path: Path) -> Iterator[tuple[str, File]]:
    """Yield the regular files of an archive under checked names; folders are only implied."""
    try:
        total = 0
        entries = _tar_entries(path) if tarfile.is_tarfile(path) else _zip_entries(path)
        for count, entry in enumerate(entries, 1):
            total += entry.size
            if count > MAX_FILES or total > MAX_BYTES:
                raise UnsafeArchive(f"{path.name}: more than {MAX_FILES} files or {MAX_BYTES} bytes")
            yield _checked(path, entry.name), File(entry.read(), entry.executable)
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise UnsafeArchive(f"{path.name}: cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class _Entry:
    """A regular file of an archive whose bytes have not been read yet; `size` is what the archive claims."""

    name: str
    size: int
    executable: bool
    read: Callable[[], bytes]


def _tar_entries(path: Path) -> Iterator[_Entry]:
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isdir():
                continue
            stream = archive.extractfile(member) if member.isreg() else None
            if stream is None:
                raise UnsafeArchive(f"{path.name}: {member.name!r} is not a regular file")
            yield _Entry(member.name, member.size, bool(member.mode & 0o100), stream.read)


def _zip_entries(path: Path) -> Iterator[_Entry]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise UnsafeArchive(f"{path.name}: {info.filename!r} is not a regular file")
            yield _Entry(info.filename, info.file_size, bool(mode & 0o100), partial(archive.read, info))


def _checked(path: Path, name: str) -> str:
    parts = PurePosixPath(name).parts
    # A .git of its own would become the repository's configuration, and with it code that git runs.
    unsafe = (
        not parts or name.startswith("/") or any(part == ".." or part.lower() == ".git" for part in parts)
    )
    if unsafe or re.search(r"[\x00-\x1f\\]", name):
        raise UnsafeArchive(f"{path.name}: the path {name!r} leads out of its folder or is not plain")
    return "/".join(parts)
