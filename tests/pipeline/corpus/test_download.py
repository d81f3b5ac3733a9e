"""The download of archives from a mirror: over HTTP and from a folder, cut off, continued, corrupt and missing."""

import http.server
import re
import shutil
import threading

import pytest

from pipeline.command import Failure
from pipeline.corpus import download as downloads
from pipeline.corpus import fetch as fetching
from pipeline.corpus.download import download, read_sums
from pipeline.corpus.fetch import fetch
from pipeline.corpus.wmt14 import archives, source_of
from pipeline.files import sha256
from pipeline.sweep import options


class Handler(http.server.BaseHTTPRequestHandler):
    """Files of a folder, with ranges; ``cut`` bytes of each answer, if it is set."""

    folder, cut, requests = None, None, []

    def do_GET(self):
        file = self.folder / self.path.lstrip("/")
        if not file.exists():
            self.send_error(404)
            return
        data, start = file.read_bytes(), re.match(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))
        start = int(start[1])
        self.requests.append((file.name, start))
        if start >= len(data):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        self.wfile.write(data[start:][: self.cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server(mirror):
    handler = type("Handler", (Handler,), {"folder": mirror, "requests": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        threading.Thread(target=httpd.serve_forever, daemon=True).start()
        handler.address = f"http://127.0.0.1:{httpd.server_address[1]}"
        yield handler
        httpd.shutdown()


@pytest.mark.parametrize("kind", ["http", "folder", "file"])
def test_the_archives_are_downloaded_and_their_hashes_recorded(mirror, server, tmp_path, kind):
    address = {"http": server.address, "folder": str(mirror), "file": mirror.as_uri()}[kind]
    for _ in range(2):  # the second time nothing is fetched
        fetch(tmp_path / "wmt14", address, 9, {})
    out = tmp_path / "wmt14/archives"
    assert read_sums(out) == {a.name: sha256(mirror / a.name) for a in archives()}
    assert len(server.requests) == (5 if kind == "http" else 0)
    assert sorted(p.name for p in out.iterdir()) == sorted([*(a.name for a in archives()), "SHA256SUMS"])


def test_what_an_interruption_left_is_continued(mirror, server, tmp_path):
    archive = archives()[0]
    server.cut = 100
    with pytest.raises(Failure, match=r"call again to go on"):
        download(source_of(archive, server.address), tmp_path / "a")
    assert (tmp_path / f"a/{archive.name}.part").stat().st_size == 100
    server.cut = None
    path = download(source_of(archive, server.address), tmp_path / "a")
    assert server.requests[-1] == (archive.name, 100)
    assert path.read_bytes() == (mirror / archive.name).read_bytes()
    assert sorted(p.name for p in path.parent.iterdir()) == ["SHA256SUMS", archive.name]


def test_a_part_that_is_longer_than_the_file_is_thrown_away(mirror, server, tmp_path):
    archive = archives()[0]
    (tmp_path / f"{archive.name}.part").write_bytes(b"x" * 10**6)
    assert download(source_of(archive, server.address), tmp_path).read_bytes() == (mirror / archive.name).read_bytes()


def test_missing_corrupt_and_changed_archives_are_refused(mirror, server, tmp_path):
    first, second, third = archives()[:3]
    (mirror / first.name).unlink()
    with pytest.raises(Failure, match=f"{first.name}: 404 Not Found: try another --mirror"):
        download(source_of(first, server.address), tmp_path)
    good = (mirror / second.name).read_bytes()
    for bad in (good[: len(good) // 2], b"<html>moved</html>"):
        (mirror / second.name).write_bytes(bad)
        with pytest.raises(Failure, match="not a complete gzip file"):
            download(source_of(second, server.address), tmp_path)
    assert not any(path.name.startswith(second.name) for path in tmp_path.iterdir() if path.is_file())
    path = download(source_of(third, server.address), tmp_path)
    path.write_bytes(good)
    with pytest.raises(Failure, match=r"its SHA-256 is .* is in SHA256SUMS: remove the file"):
        download(source_of(third, server.address), tmp_path)
    server.address = "http://127.0.0.1:1"
    with pytest.raises(Failure, match="refused"):
        download(source_of(second, server.address), tmp_path)


def test_no_room_is_said_before_anything_is_written(mirror, server, tmp_path, monkeypatch):
    monkeypatch.setattr(downloads.shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 9, 9))
    with pytest.raises(Failure, match=r"bytes to come, but 9 are free in .*: make room"):
        download(source_of(archives()[0], server.address), tmp_path / "a")
    assert list((tmp_path / "a").iterdir()) == []


def test_hashes_that_are_no_text_are_refused(mirror, tmp_path):
    for content in (bytes(range(256)), b"0123 archive.tgz\n"):
        (tmp_path / "SHA256SUMS").write_bytes(content)
        with pytest.raises(Failure, match="SHA256SUMS: not lines of a hash and a name: remove it"):
            download(source_of(archives()[0], str(mirror)), tmp_path)


@pytest.mark.parametrize("command", [fetching.main, options.parse])
def test_an_empty_mirror_is_not_the_public_address(tmp_path, capsys, command):
    words = ["wmt14_en_de"] if command is options.parse else []
    with pytest.raises(SystemExit) as ended:
        command([*words, "--out", str(tmp_path / "out"), "--mirror", ""])
    assert ended.value.code == 2 and "--mirror: must not be empty" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
