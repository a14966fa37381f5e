"""The checkpoint file: when it is written, what it holds, and when it is removed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from gapmf.csr import content_digest
from gapmf.errors import InvalidInputError, StorageError
from gapmf.storage import archive, checkpoint
from gapmf.storage.checkpoint import (
    Checkpoint,
    check_no_unfinished_fit,
    fingerprint,
    read_checkpoint,
)


@dataclass(frozen=True)
class State:
    iteration: int


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still, and that writing moves by 2 seconds."""
    now = [100.0]
    write = archive.write

    def slow_write(*args, **options):
        now[0] += 2.0
        write(*args, **options)

    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(checkpoint, "write", slow_write)
    return now


def test_it_is_written_when_it_is_due(tmp_path, clock):
    path = tmp_path / "fit"
    written = Checkpoint(path, {"data": "hash"}, version="1.0")

    assert written.is_due()
    written.write_progress(State(1))
    assert read_checkpoint(path, version="1.0") == {
        "data": "hash",
        "state": {"class": "State", "iteration": 1},
        "finished": False,
    }
    clock[0] += 39.0  # writing took 2 seconds, which may be one part in 20 of the time
    assert not written.is_due()
    clock[0] += 1.0
    assert written.is_due()


def test_progress_is_not_discarded(tmp_path):
    path = tmp_path / "fit"
    written = Checkpoint(path, {}, version="1.0")
    written.discard()
    written.write(None)
    written.discard()
    assert not path.exists()
    written.write_progress(State(1))
    written.discard()
    assert path.exists()
    Checkpoint(path, {}, version="1.0", resumed=True).discard()
    assert path.exists()


def test_an_unfinished_fit_is_not_overwritten(tmp_path):
    path = tmp_path / "fit"
    check_no_unfinished_fit(path, version="1.0")
    written = Checkpoint(path, {}, version="1.0")
    written.write(State(1))
    with pytest.raises(
        InvalidInputError, match=r"fit is the checkpoint of a fit that has not finished: resume it"
    ):
        check_no_unfinished_fit(path, version="1.0")
    written.write(State(2), finished=True)
    check_no_unfinished_fit(path, version="1.0")


def test_another_version_is_refused(tmp_path):
    path = tmp_path / "fit"
    Checkpoint(path, {}, version="0.1.0").write(State(1))
    with pytest.raises(
        StorageError,
        match=r"fit is a checkpoint of gapmf 0\.1\.0, and this is 0\.2\.0: resume it with that "
        "version, or remove the file and fit again",
    ):
        read_checkpoint(path, version="0.2.0")
    archive.write(path, "model", 1, version="0.1.0")
    with pytest.raises(StorageError, match="is a model, not a checkpoint"):
        read_checkpoint(path, version="0.2.0")


def test_the_fingerprint_depends_on_counts_and_weights_only():
    def of(counts, weights=None):
        return fingerprint(counts.shape, content_digest(counts), weights)

    X = np.array([[1, 0, 2], [0, 3, 0]])
    first = of(sp.csr_array(X))
    assert first == of(sp.csr_array(X.astype(np.int32)))
    others = [(X[::-1], None), (X.T, None), (X + 1, None), (X, [1.0, 2.0]), (X, [2.0, 1.0])]
    hashes = {of(sp.csr_array(counts), weights) for counts, weights in others}
    assert len(hashes | {first}) == 6
