"""Reports in a real browser: nothing fails, nothing is loaded, tables work, all can be read."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from browser import open_in_browser
from sklearn.exceptions import ConvergenceWarning

from gapmf import GammaPoissonMF, write_report

pytestmark = pytest.mark.slow

SCRIPT = "<script>document.title = 'hacked'</script>"
IMAGE = "</script><img src=x onerror=\"document.title='hacked'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with everything, whose names are meant to break it."""
    rng = np.random.default_rng(0)
    N, F, K = 60, 12, 4
    W = rng.gamma(0.2, 60.0, (K, F))
    X = rng.poisson(rng.gamma(0.5, 1.0, (N, K)) @ W)
    X[0] += 1
    names = np.array([f"word {f}" for f in range(F)], dtype=object)
    names[[1, 2, 3]] = SCRIPT, IMAGE, "x" * 300
    with pytest.warns(ConvergenceWarning):  # which the page says, too
        est = GammaPoissonMF(K, random_state=0, max_iter=30, score_every=10).fit(X)
    est.feature_names_in_ = names
    samples = [SCRIPT, IMAGE, *(f"sample {n}" for n in range(2, N))]
    groups = [IMAGE if n % 3 else "plain & simple" for n in range(N)]
    ranks = est.rank_report(X[:20])
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(
        path, est, X, sample_names=samples, groups=groups, rank_report=ranks,
        group_colours={"plain & simple": "#3b6fb6"}, title=f"A title with {SCRIPT}",
        model_name="a model.gapmf", data_name="<data>.csv",
    )  # fmt: skip
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module", params=[(1280, False), (400, True)], ids=["1280", "400"])
def opened(request, page, tmp_path_factory):
    width, dark = request.param
    return *open_in_browser(page, tmp_path_factory.mktemp("browser"), width, dark=dark), request


def test_nothing_fails_and_nothing_is_loaded(opened):
    found, logged, _ = opened
    assert found["ready"] == "yes"
    assert found["seen"] == []
    assert logged == []
    assert found["loaded"] == []


def test_names_are_shown_and_never_run(opened):
    found, _, _ = opened
    assert found["title"] == f"A title with {SCRIPT}"
    assert found["scripts"] == 3 + len(found["tables"])  # the page's own, two of the test, data
    for name in (SCRIPT, IMAGE):
        assert name in found["text"]


def test_it_can_be_read(opened):
    """Wide and narrow, light and dark: WCAG's contrast of 4.5, and letters of 11 pixels or more."""
    found, _, request = opened
    width, dark = request.param
    assert found["width"] == width
    assert found["overflow"] <= 0
    assert (sum(found["back"][:3]) < 300) == dark  # as the system wants it
    for theme in ("light", "dark"):
        seen = found["themes"][theme]
        assert (sum(seen["back"][:3]) < 300) == (theme == "dark")
        assert seen["worst"] >= 4.5, seen["where"]
        assert seen["smallest"] >= 11


def test_it_can_be_used_without_eyes_or_mouse(opened):
    found, _, _ = opened
    assert found["unnamed"] == found["unlabelled"] == 0
    assert found["dangling"] == found["twice"] == []
    levels = found["headings"]
    assert levels[0] == 1
    assert all(b <= a + 1 for a, b in pairwise(levels))
    assert levels.count(1) == 1


def test_labels_of_the_map_cover_nothing(opened):
    found, _, request = opened
    assert found["labels"] >= 3
    if request.param[0] == 1280:
        assert found["covered"] == []


def _number(text):
    return float(re.search(r"[−-]?[\d,.]+", text)[0].replace(",", "").replace("−", "-"))


def test_tables_sort(opened):
    found, _, _ = opened
    assert set(found["tables"]) == {
        f"table-{name}" for name in ("components", "features", "samples", "check", "ranks")
    }
    for table in found["tables"].values():
        for done in table["sorted"]:
            assert done["others"]
            cells = done["cells"]
            if done["kind"] == "number":
                values = [_number(cell) for cell in cells]
                key = 1 if done["aria"] == "ascending" else -1
                assert values == sorted(values, key=lambda value, key=key: key * value)
        directions = [done["aria"] for done in table["sorted"]]
        assert directions.count("ascending") == directions.count("descending")
        text = next((d for d in table["sorted"] if d["kind"] == "text"), None)
        assert text is None or text["aria"] == "ascending"
    counts = [d for d in found["tables"]["table-samples"]["sorted"] if d["column"] == 1]
    assert counts[0]["aria"] == "descending"
    assert counts[0]["cells"] != counts[1]["cells"]


def test_tables_search_and_turn_pages(opened):
    found, _, _ = opened
    samples = found["tables"]["table-samples"]
    assert samples["status"] == samples["again"] == "1 to 25 of 60"
    assert samples["second"] == {"status": "26 to 50 of 60", "n": 25}
    for table in found["tables"].values():
        assert table["nothing"] == "Nothing found"
        wanted = table["search"]["word"].lower().split()
        assert table["search"]["rows"]
        for row in table["search"]["rows"]:
            assert all(word in " ".join(row).lower() for word in wanted)
    k = samples["chosen"]["k"]
    shares = [
        float(re.search(rf"(?:^|%){k} .*? (\d+) ±", row[3])[1]) for row in samples["chosen"]["rows"]
    ]
    assert shares
    assert shares == sorted(shares, reverse=True)


def test_a_page_that_breaks_the_rules_is_noticed(page, tmp_path):
    """A picture from the network, a script that is not the page's own, an error."""
    bad = page.replace(
        "<main>",
        '<main><img src="https://example.org/x.png" alt="">'
        "<script>document.title = 'hacked'</script><p style='color:#888'>pale</p>",
    )
    found, logged = open_in_browser(bad, tmp_path)
    assert found["title"] != "hacked"
    assert any("img-src" in text for text in found["seen"])
    assert any("script-src" in text for text in found["seen"])
    assert logged
    assert found["themes"]["light"]["worst"] < 4.5
