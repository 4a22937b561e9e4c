"""Fetching pinned files: from the configured index, checked, once, and without running their code."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import tarfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from swe_pytest.benchmarks.pypi_fixes import distribution
from swe_pytest.benchmarks.pypi_fixes.distribution import (
    Distribution,
    DistributionCache,
    DistributionUnavailable,
    HashMismatch,
    PipConfiguration,
)


def sdist(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


CONTENT = sdist({"thing-1.0/thing.py": b"print('thing')\n"})
THING = Distribution("thing", "1.0", hashlib.sha256(CONTENT).hexdigest(), "sdist")


@dataclass
class Index:
    """A package index on this machine: one package, and what it was asked for."""

    content: bytes = CONTENT
    told_hash: str = ""
    ill: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    authorizations: list[str] = field(default_factory=list)
    address: str = ""

    def page(self) -> bytes:
        fragment = f"#sha256={self.told_hash}" if self.told_hash else ""
        return f'<a href="/files/thing-1.0.tar.gz{fragment}">thing-1.0.tar.gz</a>'.encode()


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """A real HTTP server, configured for pip as its only index."""
    served = Index()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            served.authorizations.append(self.headers.get("Authorization", ""))
            body, status, kind = b"", 404, "text/html"
            if self.path in served.ill:
                served.ill.remove(self.path)
                status = 503
            elif self.path == "/simple/thing/":
                body, status = served.page(), 200
            elif self.path == "/files/thing-1.0.tar.gz":
                body, status, kind = served.content, 200, "application/gzip"
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        served.address = f"127.0.0.1:{server.server_port}"
        only_index(monkeypatch, f"http://{served.address}/simple")
        yield served
        server.shutdown()
        thread.join()


def only_index(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", url)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(distribution, "PAUSE_S", 0.01)


def test_a_pinned_file_comes_from_the_index_that_pip_is_configured_with(index: Index, tmp_path: Path) -> None:
    """The bytes are the pinned ones, and the index is not asked again for what is here."""
    cache = DistributionCache(tmp_path)
    [path] = cache.fetch([THING])
    assert path.read_bytes() == CONTENT
    assert index.asked == ["/simple/thing/", "/files/thing-1.0.tar.gz"]
    assert cache.fetch([THING]) == [path]
    assert len(index.asked) == 2


def test_a_folder_of_files_is_an_index_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With no-index and find-links, as on a machine without network, files come from there."""
    only_index(monkeypatch, "http://127.0.0.1:9/never-asked")
    links = tmp_path / "links"
    links.mkdir()
    (links / "thing-1.0.tar.gz").write_bytes(CONTENT)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", f"{tmp_path}/not-there {links}")
    [path] = DistributionCache(tmp_path / "cache").fetch([THING])
    assert path.read_bytes() == CONTENT


@pytest.mark.parametrize("told", ["truth", "lie", "nothing"])
def test_a_file_with_another_hash_is_refused_and_not_kept(index: Index, tmp_path: Path, told: str) -> None:
    """Whatever the index says about the hash, only bytes with the pinned one are kept; the error names all."""
    index.content = sdist({"thing-1.0/thing.py": b"print('changed')\n"})
    changed = hashlib.sha256(index.content).hexdigest()
    index.told_hash = {"truth": changed, "lie": THING.sha256, "nothing": ""}[told]
    with pytest.raises(HashMismatch, match=r"thing 1\.0 \(sdist\).*next: ") as caught:
        DistributionCache(tmp_path).fetch([THING])
    assert THING.sha256 in str(caught.value)
    assert changed in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_damaged_file_in_the_cache_is_fetched_again(index: Index, tmp_path: Path) -> None:
    """A truncated cache entry is never handed out."""
    cache = DistributionCache(tmp_path)
    [path] = cache.fetch([THING])
    path.write_bytes(CONTENT[:20])
    assert cache.fetch([THING])[0].read_bytes() == CONTENT


def test_a_package_that_is_not_offered_is_named(index: Index, tmp_path: Path) -> None:
    """The error says which package, where it was looked for, and what to do."""
    absent = Distribution("no-such-thing", "2.0", "0" * 64, "sdist")
    with pytest.raises(DistributionUnavailable, match=r"no-such-thing 2\.0.*not offered.*next: ") as caught:
        DistributionCache(tmp_path).fetch([absent])
    assert index.address in str(caught.value)


@pytest.mark.parametrize("path", ["/simple/thing/", "/files/thing-1.0.tar.gz"])
def test_an_index_that_is_ill_is_asked_again(index: Index, tmp_path: Path, path: str) -> None:
    """An answer like 503 is no "not offered", neither for the page nor for the file."""
    index.ill = [path, path]
    assert DistributionCache(tmp_path).fetch([THING])[0].read_bytes() == CONTENT


def test_an_index_that_does_not_listen_gives_up_with_the_next_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Attempts are bounded, and the error names package, index and remedy."""
    only_index(monkeypatch, "http://127.0.0.1:9/simple")
    with pytest.raises(DistributionUnavailable, match=r"thing 1\.0.*3 attempts.*127\.0\.0\.1:9.*next: "):
        DistributionCache(tmp_path).fetch([THING])


def test_credentials_are_sent_and_never_shown(
    index: Index, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """User and password of the index URL go to the index, and into no error."""
    only_index(monkeypatch, f"http://reader:pa55word@{index.address}/simple")
    DistributionCache(tmp_path).fetch([THING])
    assert set(index.authorizations) == {"Basic " + base64.b64encode(b"reader:pa55word").decode()}
    with pytest.raises(DistributionUnavailable) as caught:
        DistributionCache(tmp_path).fetch([Distribution("absent", "1", "0" * 64, "sdist")])
    assert "pa55word" not in str(caught.value)


def test_many_who_ask_at_once_cause_one_download(index: Index, tmp_path: Path) -> None:
    """The lock is held by open file, so threads here stand for processes."""
    ask: Callable[[int], list[Path]] = lambda _: DistributionCache(tmp_path).fetch([THING])  # noqa: E731
    with ThreadPoolExecutor(8) as threads:
        paths = {path for [path] in threads.map(ask, range(8))}
    assert len(paths) == 1
    assert index.asked.count("/files/thing-1.0.tar.gz") == 1


def test_fetching_runs_no_code_of_the_package(index: Index, tmp_path: Path) -> None:
    """A source distribution whose build would leave a mark leaves none."""
    mark = tmp_path / "mark"
    build = f"open({str(mark)!r}, 'w')\n".encode()
    index.content = sdist({"thing-1.0/setup.py": build, "thing-1.0/pyproject.toml": b""})
    wanted = Distribution("thing", "1.0", hashlib.sha256(index.content).hexdigest(), "sdist")
    DistributionCache(tmp_path / "cache").fetch([wanted])
    assert not mark.exists()


def test_the_environment_wins_over_sections_of_pips_files() -> None:
    """Precedence is pip's: environment, [download], [install], [global]; lists are split at blanks."""
    told = PipConfiguration.parse(
        ":env:.extra-index-url='http://a/ http://b/'\n"
        ":env:.find-links='/links\\n/more'\n"
        "download.index-url='http://download/'\n"
        "global.cert='/etc/ca.pem'\n"
        "global.extra-index-url='http://never/'\n"
        "global.index-url='http://global/'\n"
        "global.no-index='false'\n"
        "global.timeout='7'\n"
    )
    assert told == PipConfiguration(
        index_urls=("http://download/",),
        extra_index_urls=("http://a/", "http://b/"),
        find_links=("/links", "/more"),
        cert="/etc/ca.pem",
        timeout_s=7.0,
    )
