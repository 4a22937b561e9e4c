"""Where prepared things are kept between runs: everything in it can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir(*parts: str) -> Path:
    """Return a folder of this project's cache (it may not exist yet): XDG_CACHE_HOME, else ~/.cache."""
    # The standard says that a relative value is to be ignored.
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    home = configured if configured.is_absolute() else Path.home() / ".cache"
    return home.joinpath("swe_pytest", *parts)
