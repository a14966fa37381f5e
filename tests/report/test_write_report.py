"""Reports without a browser: what is in them, what is refused, and what stays small."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import struct
import zlib
from html.parser import HTMLParser

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gapmf import GammaPoissonMF, GaP, log_marginal_likelihood, write_report
from gapmf.errors import InvalidInputError
from gapmf.persistence import Fitted
from gapmf.report import charts
from gapmf.report.content import MAX_SAMPLES, Wanted, _one_component, collect
from gapmf.report.elements import escape, json_element, tag


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    X = rng.poisson(rng.gamma(0.5, 1.0, (30, 3)) @ rng.gamma(0.3, 30.0, (3, 9)))
    X[0] += 1
    return GammaPoissonMF(3, random_state=0, tol=1e-2).fit(X), X


class Outline(HTMLParser):
    """Whether elements are closed, and the text outside of scripts and styles."""

    def __init__(self):
        super().__init__()
        self.open, self.words, self.tags = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("img", "input", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.words.append(data)


def read(path):
    text = path.read_text(encoding="utf-8")
    outline = Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    return text, outline, " ".join(" ".join(outline.words).split())


def test_samples_without_counts_are_explained(fit, tmp_path):
    est, X = fit
    said = "without counts ha"
    write_report(tmp_path / "report.html", est, X)
    assert said not in read(tmp_path / "report.html")[2]
    write_report(tmp_path / "report.html", est, np.vstack([X, np.zeros_like(X[:2])]))
    assert f" 2 samples {said}ve the proportions that" in read(tmp_path / "report.html")[2]


def test_a_model_alone(fit, tmp_path):
    est, _ = fit
    write_report(tmp_path / "report.html", est, model_name="my zoo.gapmf")
    _, _, words = read(tmp_path / "report.html")
    for text in ("3 components", "9 features", "The fit stopped by itself", "Component 2"):
        assert text in words
    assert words.count("gapmf report 'my zoo.gapmf' --data DATA -o report.html") == 3
    assert "gapmf report 'my zoo.gapmf' --data DATA --rank -o report.html" in words


def test_numbers_are_those_of_the_library(fit, tmp_path):
    est, X = fit
    frame = pd.DataFrame(X, index=[f"day {n}" for n in range(30)])
    content = collect(est, frame, Wanted())
    found = est.log_likelihood(X, precision=1e-3, total_only=True)
    assert content.data.log_likelihood.total == found.total
    assert content.data.of_the_fit
    assert not collect(est, X[:20], Wanted()).data.of_the_fit
    posterior = est.posterior(X)
    np.testing.assert_array_equal(content.data.samples.proportions, posterior.proportions)
    np.testing.assert_array_equal(content.data.samples.deviations, posterior.proportions_std)
    write_report(tmp_path / "r.html", est, frame)
    text, _, words = read(tmp_path / "r.html")
    assert f"{found.total / X.sum():.4f}".replace("-", "−") in words
    assert "those of the fit" in words
    data = json.loads(re.search(r'id="table-samples".*?json">(.*?)</script>', text, re.S)[1])
    assert len(data["rows"]) == 30
    for n, (name, counts, chips) in enumerate(data["rows"]):
        assert (name, counts[0]) == (f"day {n}", X[n].sum())
        for k, share, sd in chips:
            assert share == pytest.approx(posterior.proportions[n, k], abs=1e-4)
            assert sd == pytest.approx(posterior.proportions_std[n, k], abs=1e-4)


def test_the_comparison_with_one_component(fit):
    """By hand: negative binomial totals, the best of many shapes, and multinomial directions."""
    est, X = fit
    totals, p = X.sum(axis=1), est.feature_counts_ / est.feature_counts_.sum()
    one = _one_component(est.set_params(smoothing=0.0), X_csr(X), None)
    est.set_params(smoothing=1e-3)
    direction = stats.multinomial(totals, np.broadcast_to(p, X.shape)).logpmf(X).sum()
    mean = totals.mean()

    def values(log_shapes):
        a = np.exp(log_shapes)
        return stats.nbinom(a, a / (a + mean)).logpmf(totals[:, None]).sum(axis=0)

    coarse = np.linspace(-4, 4, 401)
    near = coarse[values(coarse).argmax()] + np.linspace(-0.02, 0.02, 41)
    best = values(near).max()
    assert one == pytest.approx(direction + best, abs=1e-3)


def test_exposures(tmp_path):
    """One component by hand, over shapes and means; and the predictive check, which takes them."""
    rng = np.random.default_rng(3)
    s = rng.uniform(0.1, 10.0, 40)
    X = rng.poisson(s[:, None] * (rng.gamma(0.7, 1.0, (40, 2)) @ rng.gamma(0.5, 6.0, (2, 5))))
    est = GammaPoissonMF(2, random_state=0, tol=1e-2, smoothing=0.0).fit(X, exposure=s)
    totals, p = X.sum(axis=1), est.feature_counts_ / est.feature_counts_.sum()
    direction = stats.multinomial(totals, np.broadcast_to(p, X.shape)).logpmf(X).sum()

    def values(log_shapes, log_means):
        a, m = np.exp(log_shapes)[:, None, None], np.exp(log_means)[:, None] * s
        return stats.nbinom(a, a / (a + m)).logpmf(totals).sum(axis=-1)

    shapes, means = np.linspace(-3, 3, 61), np.linspace(-1, 5, 61)
    coarse = values(shapes, means)
    i, j = np.unravel_index(coarse.argmax(), coarse.shape)
    assert 0 < i < 60
    assert 0 < j < 60
    fine = np.linspace(-0.1, 0.1, 81)
    best = values(shapes[i] + fine, means[j] + fine).max()
    assert best > values(shapes[i] + fine, np.log([totals.sum() / s.sum()])).max() + 1e-2
    data = collect(est, X, Wanted(exposure=s)).data
    assert data.one_component == pytest.approx(direction + best, abs=1e-3)
    write_report(tmp_path / "r.html", est, X, exposure=s)
    _, _, words = read(tmp_path / "r.html")
    assert "data sets were drawn from the fitted model" in words
    assert "as probable" in words
    mask = rng.random(X.shape) < 0.9
    write_report(tmp_path / "r.html", est, X, exposure=s, observed=mask)
    _, _, words = read(tmp_path / "r.html")
    assert "no such check yet of data with unobserved entries" in words
    assert "as probable" not in words


def X_csr(X):
    from gapmf.counts import check_counts

    return check_counts(X)


def test_escapes():
    assert tag("p", "<b>", title='"', hidden=True, id=None) == (
        '<p title="&quot;" hidden>&lt;b&gt;</p>'
    )
    assert escape("caf\udce9 \0") == "caf\\udce9 \N{REPLACEMENT CHARACTER}"
    names = ["</script>", "<!--", "&amp;", "\u2028", "\ud800", '"']
    made = json_element(names)
    assert not re.search(
        r"[<>&]", made.removeprefix("<script type=").removesuffix("</script>")[20:]
    )
    inner = re.search(r">(.*)<", made)[1]
    assert json.loads(inner) == names


def test_the_policy_knows_the_script(fit, tmp_path):
    write_report(tmp_path / "r.html", fit[0])
    text, outline, _ = read(tmp_path / "r.html")
    own = re.search(r"<script>(.*?)</script>", text, re.S)[1]
    digest = base64.b64encode(hashlib.sha256(own.encode()).digest()).decode()
    policy = next(a["content"] for t, a in outline.tags if "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy
    for _, attributes in outline.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:image/png;base64,"))
        assert not any(name.startswith("on") for name in attributes)
    assert "http" not in html.unescape(text).replace("http-equiv", "")


def test_images(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.poisson(rng.gamma(0.5, 2.0, (20, 2)) @ rng.gamma(0.5, 3.0, (2, 6)))
    est = GammaPoissonMF(2, random_state=0, tol=0.1).fit(X)
    write_report(tmp_path / "r.html", est, X, image=(2, 3))
    text, _, words = read(tmp_path / "r.html")
    assert text.count("data:image/png") >= 2
    assert "Find a feature" not in words
    for bad, match in (
        ("square", "no square image"),
        ("2x4", "8 pixels"),
        ("2x", "height × width"),
        ((6,), "height × width"),
        ("-2x-3", "the height of an image"),
    ):
        with pytest.raises(InvalidInputError, match=match):
            write_report(tmp_path / "bad.html", est, X, image=bad)
    assert not (tmp_path / "bad.html").exists()


@pytest.mark.parametrize("channels", [0, 3, 4])
def test_png(channels):
    rng = np.random.default_rng(channels)
    shape = (3, 5, channels) if channels else (3, 5)
    pixels = rng.integers(0, 256, shape).astype(np.uint8)
    data = base64.b64decode(charts.png(pixels).removeprefix("data:image/png;base64,"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    place, chunks = 8, {}
    while place < len(data):
        (size,) = struct.unpack(">I", data[place : place + 4])
        name, content = data[place + 4 : place + 8], data[place + 8 : place + 8 + size]
        assert zlib.crc32(name + content) == struct.unpack(">I", data[place + 8 + size :][:4])[0]
        chunks[name], place = content, place + 12 + size
    assert chunks[b"IHDR"] == struct.pack(
        ">IIBBBBB", 5, 3, 8, {0: 0, 3: 2, 4: 6}[channels], 0, 0, 0
    )
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(3, -1)
    np.testing.assert_array_equal(rows[:, 1:].reshape(shape), pixels)
    assert not rows[:, 0].any()


def test_a_structure_plot_has_the_right_areas():
    """The area of a path is the sum of its component's proportions."""
    P = np.random.default_rng(0).dirichlet([1.0, 0.5, 2.0], 40)
    P[3] = 0.0, 1.0, 0.0
    drawn = charts.structure(P, ["a", "b", "c"], "label")
    for k, path in enumerate(re.findall(r'd="M0 (.*?)Z"', drawn)):
        x, y = [0.0], [float(re.match(r"\d+", path)[0])]
        for kind, number in re.findall(r"([HV])(\d+)", path):
            x.append(float(number) if kind == "H" else x[-1])
            y.append(float(number) if kind == "V" else y[-1])
        area = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1))) / 1000
        assert area == pytest.approx(P[:, k].sum(), abs=0.04)


def test_groups_of_cells(fit, tmp_path):
    est, X = fit
    kinds = pd.Categorical(["b", "a", None] * 10, categories=["b", "unused", "a"])
    obs = pd.DataFrame({"kind": kinds}, index=[f"cell{n}" for n in range(30)])
    adata = anndata.AnnData(X.astype(float), obs)
    adata.uns["kind_colors"] = ["#111111", "#222222", "url(http://example.org)"]
    est = GammaPoissonMF(2, random_state=0, tol=0.1).fit(adata)
    content = collect(est, adata, Wanted(groups="kind"))
    samples = content.data.samples
    assert samples.group_order == ["b", "a", "without a group"]
    assert samples.group_colours == {"b": "#111111", "unused": "#222222"}
    assert samples.names[:2] == ["cell0", "cell1"]
    with pytest.raises(InvalidInputError, match="no column 'size': there are kind"):
        collect(est, adata, Wanted(groups="size"))
    with pytest.raises(InvalidInputError, match="X is no AnnData"):
        collect(est, X, Wanted(groups="kind"))
    many = collect(est, X, Wanted(groups=list(range(30)), group_colours={"3": "red"}))
    assert len(many.data.samples.group_order) == 30
    assert many.data.samples.group_colours == {"3": "red"}
    more = collect(est, np.tile(X, (2, 1)), Wanted(groups=[*range(30), *range(31, 61)]))
    assert more.data.samples.group_order[-1] == "other groups"
    assert len(more.data.samples.group_order) == 30


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"X": None, "groups": ["a"]}, "groups is about data"),
        ({"X": None, "rank_report": True}, "rank report needs data"),
        ({"groups": ["a"]}, "groups has 1 entries, but there are 30"),
        ({"sample_names": ["a"]}, "sample_names are 1, but there are 30"),
        ({"X": [[1, 2]]}, "features"),
        ({"path": "r.txt"}, "must end in .html"),
        ({"path": "no/r.html"}, "does not exist"),
    ],
)
def test_refusals_write_nothing(options, match, fit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    est, X = fit
    given = {"path": "r.html", "X": X} | options
    with pytest.raises((InvalidInputError, OSError, ValueError), match=match):
        write_report(given.pop("path"), est, given.pop("X"), **given)
    assert list(tmp_path.iterdir()) == []


def test_a_report_of_other_components_is_refused(fit, tmp_path):
    est, X = fit
    ranks = GammaPoissonMF(2, random_state=0, tol=0.1).fit(X).rank_report(X)
    with pytest.raises(InvalidInputError, match="about 2 components, but the model has 3"):
        write_report(tmp_path / "r.html", est, X, rank_report=ranks)


@pytest.mark.parametrize(("N", "F", "K"), [(1, 1, 1), (3, 1, 2), (1, 4, 3)])
def test_tiny_and_empty_models(N, F, K, tmp_path):
    """One sample, one feature, one component; samples and components without anything."""
    W = np.arange(1.0, F * K + 1).reshape(F, K)
    W[:, -1] = 0.0 if K > 1 else 1.0
    model = GaP(W)
    history = {
        "seconds": np.array([0.1]), "n_sweeps": np.array([1]), "norms": model.column_norms[None],
        "log_likelihood": np.array([np.nan]),
    }  # fmt: skip
    est = GammaPoissonMF(K)._store(Fitted(model, 1, 1, True, history, np.ones(F), 0))
    X = np.zeros((N, F), dtype=int)
    write_report(tmp_path / "empty.html", est, X)
    assert "there are no counts" in read(tmp_path / "empty.html")[2]
    X[0] = 3
    write_report(tmp_path / "r.html", est, X)
    read(tmp_path / "r.html")
    est.n_iter_ = 0
    write_report(tmp_path / "r.html", est)


@pytest.mark.slow
def test_many_components_features_and_samples_stay_small(tmp_path):
    """What is embedded does not grow with the data: 200 components, 20,000 features."""
    rng = np.random.default_rng(0)
    F, K = 20_000, 200
    model = GaP(rng.gamma(0.01, 1.0, (F, K)) * rng.gamma(0.3, 1.0, K))
    history = {
        "seconds": np.arange(1.0, 4), "n_sweeps": np.arange(1, 4),
        "norms": np.tile(model.column_norms, (3, 1)), "log_likelihood": np.full(3, np.nan),
    }  # fmt: skip
    names = np.array([f"a feature with the number {f}" for f in range(F)])
    est = GammaPoissonMF(K)
    est._store(Fitted(model, K, 3, True, history, 1e4 * model.expected_counts(), 0, names))
    write_report(tmp_path / "r.html", est)
    assert (tmp_path / "r.html").stat().st_size < 2e6
    _, outline, words = read(tmp_path / "r.html")
    assert "Show 176 more components" in words
    assert len(outline.tags) < 20_000


def test_a_random_part_of_many_samples(monkeypatch):
    X = np.random.default_rng(0).poisson(2.0, (MAX_SAMPLES + 500, 2))
    est = GammaPoissonMF(1, random_state=0, tol=0.1).fit(X)
    content = collect(est, X, Wanted())
    chosen = content.data.samples.chosen
    assert chosen.size == MAX_SAMPLES == len(set(chosen.tolist()))
    assert content.data.n_samples == MAX_SAMPLES + 500
    assert content.data.samples.names[7] == str(chosen[7])
    ll = log_marginal_likelihood(X, est.model_.smoothed(est.feature_counts_, est.smoothing))
    assert content.data.log_likelihood.total == pytest.approx(ll.total, rel=1e-3)
