"""`gapmf demo`, with few pictures: what it shows is what the library computes."""

from __future__ import annotations

import re

import pytest
from commands import gapmf

from gapmf.cli.demo import QUICK, fit_digits, load_data


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = gapmf("demo", "--quick", "-o", folder / "parts.png", "--seed", 2, COLUMNS="80")
    assert sorted(path.name for path in folder.iterdir()) == ["parts.html", "parts.png"]
    page = (folder / "parts.html").read_text(encoding="utf-8")
    assert "5 components of handwritten digits" in page
    assert "components are worth keeping" in page
    assert f"  {folder / 'parts.html'}\n" in done.stdout
    assert (folder / "parts.png").read_bytes().startswith(b"\x89PNG")
    assert "Traceback" not in done.stderr
    assert f"mcem-c, K = {QUICK.K} ━" in done.stderr  # the bar of the fit
    assert "rank report ━" in done.stderr
    return done.stdout


def test_it_fits_the_terminal(shown):
    assert max(map(len, shown.splitlines())) <= 80
    assert "\x1b" not in shown  # no colours where nobody can see them


def test_its_numbers_are_those_of_the_library(shown):
    train, test = load_data(2, QUICK)
    est = fit_digits(QUICK.K, train, QUICK, 2, 1)
    assert f"α = {est.alpha_[0]:.2f}" in " ".join(shown.split())
    largest = est.model_.shares.argmax()
    assert f"{largest}: {est.model_.shares[largest]:.1%}" in shown
    for K, fitted in ((1, fit_digits(1, train, QUICK, 2, 1)), (QUICK.K, est)):
        found = fitted.log_likelihood(test)
        error = f"± {found.std_error:.1f}" if K > 1 else "(exact)"
        row = re.search(rf"gapmf, {K} components? +(.*)", shown)[1]
        assert row.split("  ")[0] == f"{found.total:,.1f} {error}"
        assert f"{found.total / test.sum():.4f}" in row
    report = est.rank_report(train[: QUICK.n_report])
    assert f"{report.rank} of {QUICK.K} stay" in " ".join(shown.split())
    for k in range(QUICK.K):
        assert f"{report.cost[k]:.0f} ± {report.cost_error[k]:.1f}" in shown


def test_components_predict_better_than_one(shown):
    one, some, nmf = (
        float(re.search(rf"{name}.*?(\d+\.\d\d) *\n", shown)[1])
        for name in ("gapmf, 1 component ", f"gapmf, {QUICK.K} comp", f"NMF, {QUICK.K} comp")
    )
    assert some < one < 64
    assert nmf < one


@pytest.mark.parametrize(
    ("args", "match", "code"),
    [
        (["-o", "parts.xls"], "parts.xls: the name must end in .png, .pdf, .svg", 1),
        (["-o", "parts"], "parts: the name must end in .png", 1),
        (["-o", "no/such/parts.png"], "no/such does not exist", 1),
        (["--seed", -1], "--seed", 2),
        (["--fast"], "--fast", 2),
    ],
)
def test_what_it_refuses_at_once(args, match, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert match in gapmf("demo", *args, code=code).stderr
    assert list(tmp_path.iterdir()) == []
