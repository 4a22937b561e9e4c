"""Distribution files, fetched from the index that pip is configured with; no code of theirs is run."""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import httpx2
    from unearth import Link

MAX_BYTES = 64 * 1024 * 1024
ATTEMPTS = 3
PAUSE_S = 1.0
_TRUE = {"1", "true", "yes", "on", "y", "t"}


@dataclass(frozen=True, slots=True)
class Distribution:
    """One file of one release, pinned by the sha256 of its bytes."""

    package: str
    version: str
    sha256: str
    kind: Literal["sdist", "wheel"]

    def __str__(self) -> str:
        return f"{self.package} {self.version} ({self.kind})"


class DistributionUnavailable(Exception):
    """A pinned file cannot be had; the message names it, what was tried and the next step."""


class HashMismatch(DistributionUnavailable):
    """What the index offers under this name and version is not the pinned file."""


@dataclass(frozen=True, slots=True)
class PipConfiguration:
    """Where and how pip would look for packages. `index_urls` is empty for pip's own default."""

    index_urls: tuple[str, ...] = ()
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    trusted_hosts: tuple[str, ...] = ()
    cert: str = ""
    client_cert: str = ""
    proxy: str = ""
    timeout_s: float = 15.0

    @classmethod
    def current(cls) -> PipConfiguration:
        """Ask pip itself, so that its files and PIP_* variables count exactly as they do for an install.

        Raises: DistributionUnavailable when this Python has no pip.
        """
        command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "config", "list"]
        asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if asked.returncode != 0:
            raise DistributionUnavailable(
                f"pip does not tell its configuration: {asked.stderr.strip() or asked.returncode}; "
                f"next: install pip for {sys.executable} (python -m ensurepip)"
            )
        return cls.parse(asked.stdout)

    @classmethod
    def parse(cls, listing: str) -> PipConfiguration:
        """Read `pip config list`. The environment wins over [download], that over [install] and [global]."""
        entries: dict[str, str] = {}
        for line in listing.splitlines():
            key, equals, value = line.partition("=")
            if equals:
                entries[key.strip().lower()] = str(ast.literal_eval(value.strip()))

        def get(option: str) -> str:
            keys = (f"{section}.{option}" for section in (":env:", "download", "install", "global"))
            return next((entries[key] for key in keys if key in entries), "")

        return cls(
            index_urls=tuple(get("index-url").split()),
            extra_index_urls=tuple(get("extra-index-url").split()),
            find_links=tuple(get("find-links").split()),
            no_index=get("no-index").lower() in _TRUE,
            trusted_hosts=tuple(get("trusted-host").split()),
            cert=get("cert"),
            client_cert=get("client-cert"),
            proxy=get("proxy"),
            timeout_s=float(get("default-timeout") or get("timeout") or 15.0),
        )

    @property
    def summary(self) -> str:
        """Where files are looked for, without credentials."""
        indexes: tuple[str, ...] = ()
        if not self.no_index:
            indexes = (*(self.index_urls or ("pip's default index",)), *self.extra_index_urls)
        return ", ".join(place.rpartition("@")[2] for place in (*indexes, *self.find_links)) or "nowhere"


class DistributionCache:
    """Pinned files on this host: each is fetched once, however many processes ask, and never half."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, distribution: Distribution) -> Path:
        """Return where the file is kept, whether or not it is there yet."""
        name = f"{distribution.package}-{distribution.version}-{distribution.sha256[:16]}.{distribution.kind}"
        return self.folder / name

    def fetch(self, wanted: Sequence[Distribution]) -> list[Path]:
        """Return the files in the same order, fetching those that are not here.

        Raises: HashMismatch, DistributionUnavailable. Nothing is kept that does not have the pinned hash.
        """
        missing = [one for one in wanted if not self._holds(one)]
        if missing:
            self.folder.mkdir(parents=True, exist_ok=True)
            with exclusive(self.folder / ".lock"):
                missing = [one for one in missing if not self._holds(one)]
                if missing:
                    self._download(missing)
        return [self.path(one) for one in wanted]

    def _holds(self, distribution: Distribution) -> bool:
        path = self.path(distribution)
        return path.is_file() and _sha256(path.read_bytes()) == distribution.sha256

    def _download(self, missing: Sequence[Distribution]) -> None:
        index = _Index(PipConfiguration.current())
        with closing(index), ThreadPoolExecutor(max_workers=4) as threads:
            for distribution, content in zip(missing, threads.map(index.get, missing), strict=True):
                handle, name = tempfile.mkstemp(dir=self.folder)
                try:
                    with os.fdopen(handle, "wb") as stream:
                        stream.write(content)
                    Path(name).replace(self.path(distribution))
                finally:
                    Path(name).unlink(missing_ok=True)


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file against every other process of this host; the system frees it if we die."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _not_now(response: httpx2.Response) -> None:
    """Raise for an answer that another attempt may better; an index that is ill is no empty index."""
    if response.status_code == 429 or response.status_code >= 500:
        response.raise_for_status()


def _offered(link: Link) -> str:
    return "".join((link.hash_option or {}).get("sha256", []))


class _Index:
    """The indexes of a pip configuration, open for asking. Safe to use from several threads."""

    def __init__(self, configuration: PipConfiguration) -> None:
        import ssl

        from unearth import PackageFinder
        from unearth.auth import MultiDomainBasicAuth
        from unearth.fetchers import PyPIClient

        self._configuration = configuration
        self._urls: list[str] = []
        if not configuration.no_index:
            default = [source["url"] for source in PackageFinder().sources]
            self._urls = [*(configuration.index_urls or default), *configuration.extra_index_urls]
        self._find_links = [
            place for place in configuration.find_links if "://" in place or Path(place).exists()
        ]
        if not self._urls and not self._find_links:
            raise DistributionUnavailable(
                "pip is configured with no-index and no find-links that exist; next: allow an index"
            )
        self._session = PyPIClient(
            trusted_hosts=configuration.trusted_hosts,
            verify=ssl.create_default_context(cafile=configuration.cert) if configuration.cert else True,
            cert=configuration.client_cert or None,
            timeout=configuration.timeout_s,
            proxy=configuration.proxy or None,
            follow_redirects=True,
            event_hooks={"response": [_not_now]},
        )
        self._session.auth = MultiDomainBasicAuth(prompting=False, index_urls=self._urls)

    def close(self) -> None:
        self._session.close()

    def get(self, distribution: Distribution) -> bytes:
        """Return the bytes of the pinned file. Raises: HashMismatch, DistributionUnavailable."""
        import httpx2

        error: httpx2.HTTPError | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                time.sleep(attempt * PAUSE_S)  # an index that is busy names no event to await
            try:
                return self._get_once(distribution)
            except httpx2.HTTPError as latest:
                error = latest
        raise DistributionUnavailable(
            f"{distribution}: {ATTEMPTS} attempts failed, the last with {type(error).__name__}: {error}; "
            f"looked in {self._configuration.summary}; next: check `pip config list`, the network and proxies"
        ) from error

    def _get_once(self, distribution: Distribution) -> bytes:
        links = self._links(distribution)
        if not links:
            raise DistributionUnavailable(
                f"{distribution}: not offered; looked in {self._configuration.summary}; "
                "next: check `pip config list`, and whether that index carries this package"
            )
        seen: list[str] = []
        # The file with the pinned hash first, then those whose hash the index does not tell.
        for link in sorted(links, key=lambda one: _offered(one) != distribution.sha256):
            offered = _offered(link)
            if not offered or offered == distribution.sha256:
                content = self._content(link, distribution)
                offered = _sha256(content)
                if offered == distribution.sha256:
                    return content
            seen.append(f"{link.filename} sha256:{offered}")
        raise HashMismatch(
            f"{distribution}: pinned is sha256:{distribution.sha256}, offered is {', '.join(seen)}; "
            f"looked in {self._configuration.summary}; next: find out who changed the file, and why"
        )

    def _links(self, distribution: Distribution) -> list[Link]:
        from unearth import PackageFinder

        finder = PackageFinder(
            self._session,  # type: ignore[arg-type]  # unearth's own client misses its own protocol
            index_urls=self._urls,
            find_links=self._find_links,
            trusted_hosts=self._configuration.trusted_hosts,
            ignore_compatibility=True,
            no_binary=[":all:"] if distribution.kind == "sdist" else [],
            only_binary=[":all:"] if distribution.kind == "wheel" else [],
        )
        requirement = f"{distribution.package}=={distribution.version}"
        matches = finder.find_matches(requirement, allow_yanked=True, allow_prereleases=True)
        return [match.link for match in matches]

    def _content(self, link: Link, distribution: Distribution) -> bytes:
        with self._session.get_stream(link.url_without_fragment) as response:
            response.raise_for_status()
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise DistributionUnavailable(
                        f"{distribution}: {link.filename} is larger than the limit of {MAX_BYTES} bytes"
                    )
        return bytes(content)
