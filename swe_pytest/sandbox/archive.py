"""Tar archives in memory: how files enter a container as bytes."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Mapping


def tar_of(files: Mapping[str, bytes], mode: int) -> bytes:
    """Return an archive of regular files, owned by root, in the order given; names are relative paths.

    GNU format: the one that carries any name of any length to every tar there is, as plain bytes.
    """
    buffer = io.BytesIO()
    with tarfile.open(
        fileobj=buffer, mode="w", format=tarfile.GNU_FORMAT, encoding="utf-8", errors="surrogateescape"
    ) as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = mode
            # Python takes a file with the size and time of its last version for unchanged.
            member.mtime = time.time()
            archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()
