"""Fetching data: from a server of our own on this machine."""

import functools
import gzip
import http.server
import os
import threading
from pathlib import Path

import pytest

from gapmf.datasets import NIPS_SHAPE, fetch_nips
from gapmf.errors import InvalidInputError
from gapmf.io import read


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def serve():
    """A function that serves a folder; all servers stop with the test."""
    servers = []

    def start(folder):
        handler = functools.partial(Quiet, directory=str(folder))
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.slow
def test_nips_is_fetched_once(serve, tmp_path):
    source = os.environ.get("GAPMF_NIPS_DIR")
    if source is None or not Path(source).is_dir():
        pytest.skip("needs the NIPS counts: set GAPMF_NIPS_DIR")
    url = serve(source)
    path = fetch_nips(tmp_path / "new", url=url)
    table = read(path)
    assert table.counts.shape == NIPS_SHAPE
    assert "network" in table.feature_names
    path_again = fetch_nips(tmp_path / "new", url="http://127.0.0.1:1")  # nobody answers there
    assert path_again == path


def test_other_counts_are_refused(serve, tmp_path):
    (tmp_path / "there").mkdir()
    content = gzip.compress(b"1\n2\n1\n1 1 5\n")
    (tmp_path / "there" / "docword.nips.txt.gz").write_bytes(content)
    (tmp_path / "there" / "vocab.nips.txt").write_text("a\nb\n")
    with pytest.raises(InvalidInputError, match="1 samples × 2 features, not 1500 × 12419"):
        fetch_nips(tmp_path / "here", url=serve(tmp_path / "there"))


def test_nothing_is_left_when_nothing_comes(serve, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(OSError, match="could not be fetched: HTTP Error 404"):
        fetch_nips(tmp_path / "here", url=serve(tmp_path / "empty"))
    assert not list((tmp_path / "here").iterdir())
