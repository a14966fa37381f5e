"""A fit that is killed goes on to the same bits."""

from __future__ import annotations

import copy
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import gapmf
from gapmf import GammaPoissonMF, GaP, storage
from gapmf.errors import InvalidInputError, StorageError, TooCostlyError
from gapmf.storage import checkpoint


class Killed(BaseException):
    """What no handler of errors catches."""


def counts(seed=0, N=25):
    rng = np.random.default_rng(seed)
    return GaP(rng.gamma(0.3, 10.0, (12, 3)), alpha=0.5).sample(N, random_state=seed)


def killed_at(n, **parameters):
    """An estimator whose fit is killed in the n-th iteration of all."""
    seen = [0]

    def kill(record):
        seen[0] += 1
        if seen[0] == n:
            raise Killed

    return GammaPoissonMF(**parameters, callbacks=[kill])


FITS = {
    "adaptive": {"tol": 1e-3},
    "alpha": {"learn_alpha": True, "tol": 1e-4},
    "saem": {"schedule": "saem", "learn_alpha": "shared", "tol": 1e-3},
    "textbook": {"schedule": "saem-textbook", "max_iter": 90},
    "posterior": {"schedule": "posterior", "pseudo_count": "auto", "tol": 1e-3},
    "paper": {"schedule": "paper", "n_draws": 2, "n_burn_in": 1, "max_iter": 40},
    "mcem-h": {"algorithm": "mcem-h", "schedule": "paper", "n_draws": 2, "max_iter": 30},
    "mcem-ch": {"algorithm": "mcem-ch", "tol": 1e-3},
    "starts": {"n_init": 2, "init": "random", "tol": 1e-2, "score_every": 7},
    "alike": {"n_components": 2, "alpha": 50.0, "tol": 1e-3},  # restarts at random points
    "exact": {"algorithm": "exact", "n_components": 2},
    "em-c": {"algorithm": "em-c", "n_components": 2, "n_init": 2},
    "vbem": {"algorithm": "vbem", "n_init": 2, "learn_alpha": True, "tol": 1e-4},
    "mjle": {"algorithm": "mjle", "n_init": 2, "tol": 1e-4},
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:the learned α of components")
@pytest.mark.parametrize("name", FITS)
def test_a_killed_fit_goes_on_to_the_same_bits(name, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power is cut here, and it takes long
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    X = counts()
    parameters = {"n_components": 3, "random_state": 4} | FITS[name]
    seen = []
    whole = GammaPoissonMF(**parameters, callbacks=[seen.append]).fit(X)
    total = len(seen)  # of all starts
    # In the first window and in the middle; before any iteration has ended, all fits are alike.
    for n in sorted({21, total // 2} | ({1} if name == "adaptive" else set())):
        path = tmp_path / f"{n}"
        monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
        with pytest.raises(Killed):
            killed_at(n, **parameters, checkpoint=path).fit(X)
        monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 15.0)  # this one runs to its end
        again = GammaPoissonMF.resume(path, X) if path.exists() else whole
        assert path.exists() or n == 1  # before the first iteration had ended
        np.testing.assert_array_equal(again.components_, whole.components_)
        np.testing.assert_array_equal(again.alpha_, whole.alpha_)
        for part in set(whole.history_) - {"seconds"}:
            np.testing.assert_array_equal(again.history_[part], whole.history_[part])
        assert again.converged_ == whole.converged_
        np.testing.assert_array_equal(again.transform(X[:2]), whole.transform(X[:2]))
        assert (np.diff(again.history_["seconds"]) > 0).all()


SCRIPT = """
import os, random, sys, time
import scipy.sparse as sp
from gapmf import GammaPoissonMF
from gapmf.storage import checkpoint

GammaPoissonMF(2, learn_alpha=True, max_iter=2).fit([[1, 2], [3, 0]])  # loads the kernels
checkpoint.EVERY_SECONDS = 0.01
X, path, out = sp.load_npz(sys.argv[1]), sys.argv[2], sys.argv[3]

def fit(resumed, say):
    def slow(record):
        nonlocal say
        if say is not None:
            os.close(say)  # it has begun
            say = None
        time.sleep(0.01 if n_killed < 10 else 0.0)
    if resumed:
        est = GammaPoissonMF.resume(path, X, callbacks=[slow], n_jobs=2)
    else:
        est = GammaPoissonMF(
            3, learn_alpha=True, n_init=2, tol=1e-4, random_state=1, checkpoint=path,
            callbacks=[slow],
        ).fit(X)
    est.save(out)

moments = random.Random(0)
n_killed = n_resumed = 0
while not os.path.exists(out):
    resumed = os.path.exists(path)
    n_resumed += resumed
    here, there = os.pipe()
    child = os.fork()
    if not child:
        fit(resumed, there)
        os._exit(0)
    os.close(there)
    assert os.read(here, 1) == b""  # until the child has begun, or ended
    os.close(here)
    if n_killed < 10:
        time.sleep(moments.uniform(0.01, 0.25))
        os.kill(child, 9)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -9)
    n_killed += code == -9
print(n_killed, n_resumed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process that can fork begins sooner")
def test_kill_9_at_ten_random_moments(tmp_path):
    """Each time the fit goes on in a new process; at the end W has the same bits."""
    X = sp.csr_array(counts(N=30))
    sp.save_npz(tmp_path / "X.npz", X)
    out = tmp_path / "model"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, tmp_path / "X.npz", tmp_path / "fit", out],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    n_killed, n_resumed = map(int, done.stdout.split())
    assert n_killed == 10
    assert n_resumed >= 5
    whole = GammaPoissonMF(3, learn_alpha=True, n_init=2, tol=1e-4, random_state=1).fit(X)
    found = GammaPoissonMF.load(out)
    np.testing.assert_array_equal(found.components_, whole.components_)
    np.testing.assert_array_equal(found.score_samples(X), whole.score_samples(X))


def a_checkpoint(path, **changes):
    parameters = {"n_components": 2, "tol": 1e-3, "random_state": 0, "checkpoint": path} | changes
    with pytest.raises(Killed):
        killed_at(5, **parameters).fit(counts())
    return path


def test_a_checkpoint_is_not_overwritten_but_by_its_own_fit(tmp_path):
    path = a_checkpoint(tmp_path / "fit")
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match=r"has not finished: resume it .*--resume"):
        GammaPoissonMF(2, checkpoint=path).fit(counts())
    assert path.read_bytes() == before
    first = GammaPoissonMF.resume(path, counts())
    # Now it is the checkpoint of a fit that ended: of no use but to be read again, or replaced.
    again = GammaPoissonMF.resume(path, counts())
    np.testing.assert_array_equal(again.components_, first.components_)
    np.testing.assert_array_equal(again.transform(counts()), first.transform(counts()))
    assert again.get_params() == first.get_params()
    GammaPoissonMF(2, tol=1e-3, random_state=1, checkpoint=path).fit(counts())


def test_resume_checks_what_it_is_given(tmp_path):
    path = a_checkpoint(tmp_path / "fit")
    with pytest.raises(InvalidInputError, match=r"is not what the fit in .* was started with"):
        GammaPoissonMF.resume(path, counts(seed=1))
    with pytest.raises(InvalidInputError, match=r"is not what the fit in .* was started with"):
        GammaPoissonMF.resume(path, counts(), sample_weight=np.full(25, 2))
    with pytest.raises(
        InvalidInputError, match=r"resume cannot change tol, which may change .* n_jobs, verbose"
    ):
        GammaPoissonMF.resume(path, counts(), tol=1.0)
    with pytest.raises(StorageError, match="checkpoint"):
        GammaPoissonMF.load(path)
    with pytest.raises(FileNotFoundError):
        GammaPoissonMF.resume(tmp_path / "nowhere", counts())
    elsewhere = tmp_path / "elsewhere"
    est = GammaPoissonMF.resume(path, counts(), checkpoint=elsewhere, n_jobs=2, verbose=0)
    assert (est.n_jobs, est.checkpoint) == (2, elsewhere)
    assert storage.read(elsewhere, "checkpoint")["finished"]
    assert not storage.read(path, "checkpoint")["finished"]


def test_foreign_files_are_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(StorageError, match="not a gapmf file"):
        GammaPoissonMF(2, checkpoint=path).fit(counts())
    assert path.read_text() == "mine"


def test_a_fit_that_is_refused_leaves_nothing(tmp_path):
    path = tmp_path / "fit"
    X = np.random.default_rng(0).poisson(300.0, (20, 30))
    with pytest.raises(TooCostlyError):
        GammaPoissonMF(8, algorithm="exact", checkpoint=path).fit(X)
    assert list(tmp_path.iterdir()) == []


def test_the_checkpoint_of_an_interrupted_fit_can_be_resumed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)

    def stop(record):
        if record.iteration == 30:
            raise KeyboardInterrupt

    fit = {"n_components": 2, "tol": 1e-3, "random_state": 0}
    est = GammaPoissonMF(**fit, checkpoint=tmp_path / "fit", callbacks=[stop])
    with pytest.warns(ConvergenceWarning, match="was interrupted after 30 iterations"):
        est.fit(counts())
    assert est.n_iter_ == 30
    whole = GammaPoissonMF(**fit).fit(counts())
    again = GammaPoissonMF.resume(tmp_path / "fit", counts())
    np.testing.assert_array_equal(again.components_, whole.components_)


@pytest.mark.parametrize("generator", [np.random.default_rng(3), np.random.RandomState(3)])
def test_generators_go_on_too(generator, tmp_path):
    path = tmp_path / "fit"
    fit = {"n_components": 2, "n_init": 2, "tol": 1e-3}
    whole = GammaPoissonMF(**fit, random_state=copy.deepcopy(generator)).fit(counts())
    with pytest.raises(Killed):
        killed_at(5, **fit, random_state=generator, checkpoint=path).fit(counts())
    again = GammaPoissonMF.resume(path, counts())
    np.testing.assert_array_equal(again.components_, whole.components_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("schedule", ["adaptive", "saem"])
def test_components_without_any_activation(schedule, tmp_path, monkeypatch):
    """At a tiny α some have none at all, in floating point."""
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    given = {"alpha": 1e-4, "schedule": schedule, "max_iter": 70, "random_state": 0}
    path = tmp_path / "fit"
    with pytest.raises(Killed):
        killed_at(55, n_components=8, checkpoint=path, **given).fit(counts(N=2))
    run = storage.read(path, "checkpoint")["state"]["monte_carlo"]["run"]
    total = run["tail"] if schedule == "adaptive" else run["progress"]["mean"]
    assert (total["h_sum"] == 0.0).any()
    again = GammaPoissonMF.resume(path, counts(N=2))
    whole = GammaPoissonMF(8, **given).fit(counts(N=2))
    np.testing.assert_array_equal(again.components_, whole.components_)


@pytest.mark.parametrize("algorithm", ["mcem-ch", "mcem-h"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_tiny_alpha_can_be_fitted(algorithm):
    est = GammaPoissonMF(6, algorithm=algorithm, alpha=1e-3, max_iter=80, random_state=0)
    assert np.isfinite(est.fit(counts(N=8)).components_).all()


def test_what_was_begun_is_not_lost_to_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    path = tmp_path / "fit"
    fit = {"n_components": 2, "tol": 1e-3, "random_state": 0}

    def refuse(record):
        if record.iteration == 5:
            raise InvalidInputError("no more")

    with pytest.raises(InvalidInputError, match="no more"):
        GammaPoissonMF(**fit, checkpoint=path, callbacks=[refuse]).fit(counts())
    assert path.exists()
    with pytest.raises(InvalidInputError, match="no more"):
        GammaPoissonMF.resume(path, counts(), callbacks=[refuse])
    assert path.exists()
    whole = GammaPoissonMF(**fit).fit(counts())
    again = GammaPoissonMF.resume(path, counts())
    np.testing.assert_array_equal(again.components_, whole.components_)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "given",
    [{"algorithm": "em-c"}, {"max_iter": 25, "n_init": 3}, {"algorithm": "mjle", "tol": 1e-7}],
)
def test_a_warm_start_is_resumed_as_one(given, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    path = tmp_path / "fit"
    fits = []
    for kill in (False, True):
        est = GammaPoissonMF(2, random_state=0, warm_start=True, **given).fit(counts())
        est.set_params(checkpoint=path if kill else None)
        if kill:
            est.set_params(callbacks=killed_at(5).callbacks)
            with pytest.raises(Killed):
                est.fit(counts(seed=1))
            est = GammaPoissonMF.resume(path, counts(seed=1))
        else:
            est.fit(counts(seed=1))
        fits.append(est)
    assert fits[0].n_iter_ == fits[1].n_iter_
    np.testing.assert_array_equal(fits[0].components_, fits[1].components_)


FORGERIES = {
    "W": lambda run: run["model"].update(W=np.ones((3, 2))),
    "factors": lambda run: run["progress"]["momentum"]["factors"].__setitem__(0, np.ones((3, 2))),
    "window": lambda run: run["window"].update(c_sum=np.ones((40, 2))),
    "schedule": lambda run: run.update(progress=None),
    "type": lambda run: run.update(n_iter="five"),
    "number": lambda run: run.update(n_iter=10**6),
    "friction": lambda run: run["progress"]["momentum"].update(friction=float("nan")),
    "not finite": lambda run: run["window"].update(c_sum=run["window"]["c_sum"] * np.nan),
    "empty window": lambda run: run.update(window=None),
    "missing": lambda run: run.pop("model"),
}


@pytest.mark.parametrize("forge", FORGERIES.values(), ids=list(FORGERIES))
def test_a_state_of_other_shapes_is_refused(forge, tmp_path, monkeypatch):
    """The kernels trust the sizes of arrays, so a file must not bring others."""
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(checkpoint, "_SHARE", 0.0)
    path = tmp_path / "fit"
    with pytest.raises(Killed):  # in the part of a window that is averaged
        killed_at(50, n_components=2, random_state=0, checkpoint=path).fit(counts())
    content = storage.read(path, "checkpoint")
    forge(content["state"]["monte_carlo"]["run"])
    storage.write(path, "checkpoint", content, version=gapmf.__version__)
    with pytest.raises(StorageError, match=r"cannot be (resumed|loaded)"):
        GammaPoissonMF.resume(path, counts())


def test_no_other_file_is_overwritten_or_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    paths = {name: tmp_path / name for name in ("unfinished", "model", "table", "finished")}
    with pytest.raises(Killed):
        killed_at(5, n_components=2, random_state=0, checkpoint=paths["unfinished"]).fit(counts())
    est = GammaPoissonMF(2, tol=1e-2, random_state=0, checkpoint=paths["finished"]).fit(counts())
    est.save(paths["model"])
    paths["table"].write_text("a,b\n1,2\n")
    (tmp_path / "begun").write_bytes(paths["unfinished"].read_bytes())
    before = {name: path.read_bytes() for name, path in paths.items()}
    for name in ("unfinished", "model", "table"):
        with pytest.raises(InvalidInputError):
            GammaPoissonMF.resume(tmp_path / "begun", counts(), checkpoint=paths[name])
    est.stability(counts(), n_fits=2)
    est.set_params(n_components=1, learn_alpha=True)
    with pytest.raises(TooCostlyError):
        est.fit([[300_000_000, 1], [2, 1]])
    assert {name: path.read_bytes() for name, path in paths.items()} == before


@pytest.mark.filterwarnings("ignore:mcem-c was interrupted")
def test_ctrl_c_ends_what_makes_several_fits():
    def interrupt(record):
        if record.iteration == 3:
            raise KeyboardInterrupt

    est = GammaPoissonMF(2, random_state=0, callbacks=[interrupt])
    with pytest.raises(KeyboardInterrupt):
        gapmf.select_rank(counts(), [1, 2], estimator=est)
    assert est.fit(counts()).interrupted_


def test_a_folder_that_does_not_exist_is_refused_before_the_fit(tmp_path):
    never = [lambda record: pytest.fail("the fit has begun")]
    for path, match in (
        (tmp_path / "no" / "c", "the folder .*no does not exist"),
        (tmp_path, "is a folder"),
    ):
        for kind in (str, type(path)):
            with pytest.raises(InvalidInputError, match=match):
                GammaPoissonMF(2, checkpoint=kind(path), callbacks=never).fit(counts())
