"""Generate docs/comparison.md from docs/comparison/results.json.

    python docs/generate_comparison.py [--results FILE] [--page FILE] [--pictures]

`make bench` writes the results and then runs this. Every number on the page is from that file; a
test fails when the two differ.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from comparison_pages import cost, quality, readings
from comparison_pages.plots import curves
from comparison_pages.results import FILE, Results
from reproduction_pages.words import listed, table, wrapped

PAGE = Path(__file__).parent / "comparison.md"


def method(results: Results) -> list[str]:
    """Return how all methods are judged."""
    versions = listed([f"{name} {x}" for name, x in results.content["versions"].items()])
    return [
        "## How they are compared",
        f"The command `make bench` makes an environment of its own with pinned versions ({versions}), runs each fit in a process of its own, "
        "and writes this page. It goes on where it stopped. `make bench-quick` does the same with tiny data.",
        "**Data.** NIPS: 1,500 papers, 12,419 words. Digits: 1,797 images of 64 pixels. Small and large counts: drawn from GaP "
        "itself, 50 and 2,000 tokens per sample, with K* = 10. Cells: a simulated cell matrix with eight types and two activities, "
        "log-normal depths. Bursty words: each document has its own version of each topic, so that a rare word that occurs once "
        "tends to occur again. Real text does this, and no method here has it in its model. A tenth of the samples is held out. For "
        "NIPS the split is not the one by which details of our recommended settings were chosen, but the papers are the same.",
        "**Document completion.** Each token of a held-out sample is shown or hidden with probability ½. A method infers proportions θ "
        "over its own components φ from the shown half, by its own inference. The probability of a hidden token is "
        "(1 − ε) Σ_k θ_k φ_kf + ε b_f, where b is the frequency of words in training, plus ½ per word. ε = 0.001 is the same for all: "
        "without it, one unseen word would make the perplexity of a factorisation infinite. "
        + quality.epsilon(results),
        "gapmf is told that a shown half has half of the tokens of a sample: its W is halved for inference. hpfrec and poismf, whose "
        "factors have a scale too, are not told. LDA has no such scale, and KL-NMF no prior on activations.",
        "**Settings: what is a default, and what we chose.** The table of settings below says it for each method. In short: for gapmf we "
        "take what its README recommends for prediction, its default, and the paper's protocol. Of tomotopy η = 0.01 is the default, "
        "and η = 0.1 is a second form of our choice; α is optimised by default; the 500 sweeps are our choice. Of "
        "scikit-learn the priors are defaults, the 50 passes are our choice (default 10), and so are up to 1,000 updates (default 200) "
        "for NMF, which begins with NNDSVDa by default. For gensim all are those of its tutorial on NIPS papers. For hpfrec all are defaults, but for 100 iterations when "
        "it infers (default 10); its rule `train-llk`, which is not the default, would stop it after 50 to 60 of its 100 iterations on small counts and bursty words, "
        "so there is a look after 60. For poismf an L2 penalty of 1,000 is the default, and 1 is our choice. For cNMF all are defaults.",
        "**Limits.** A fit that has used its CPU time (NIPS: 40, 60, 100 and 150 s for K = 10, 20, 50 and 200; 20 s elsewhere) is "
        "stopped and marked with *. hpfrec and poismf cannot be stopped: they begin a longer fit if it is expected to take at most "
        "20 % more than the limit. cNMF cannot be stopped at all. HDP has a number of components of its own: it is in the tables, but not "
        "among the packages that are compared at equal K. Sentences that compare are about cases with at least two other packages, in which every planned method was run with seed 0.",
        "**Seeds.** Three for gapmf and tomotopy with η = 0.1, one for the others (KL-NMF begins with NNDSVDa, which leaves next to "
        "nothing to the seed); on NIPS at K = 50, three for gapmf for prediction and "
        "tomotopy only, and at K = 200 one. Methods that are slow, or far from the best, are left out at K = 50 and 200. cNMF cannot "
        "be stopped, and is run for the cells only. The paper's protocol is run for NIPS with K = 10: one of its iterations has 250 sweeps.",
        cost.plan_cost(results),
        "**Clock.** CPU seconds of the fit, without imports, compilation, conversion of the data and judging. Before the clock "
        "starts, each method fits a few samples, and the data get the form that it reads; memory is counted from there too. Models are looked at after ¼, ½, 1, 2, … CPU "
        "seconds, with the clock stopped, which gives quality at equal time. hpfrec and poismf cannot be looked at: they fit again "
        "with more iterations, and each fit has its own clock.",
        "**Other measures.** NPMI, the normalised pointwise mutual information: coherence of the ten largest features of a "
        "component, by the samples in which two occur together. Cosine to the truth: of true components and those found, matched one to one. Stability: the same between seeds.",
    ]


def quality_sections(results: Results) -> list[str]:
    """Return the sections on quality."""
    parts = [
        "## Document completion",
        "Perplexity of the hidden halves; lower is better. Mean over seeds (smallest – largest). "
        "A star: some fit was stopped by its limit of CPU time.",
        quality.perplexities(results),
        "**The same inference for all.** Who has the better components, and who the better inference? Here the proportions of all "
        "methods come from one rule, a hundred steps of EM for the mode under a Dirichlet with parameter 1.1.",
        quality.perplexities(results, "perplexity_common"),
        readings.common(results),
        "## At equal time",
        "![Perplexity against CPU seconds, one curve per method](comparison/curves.png)",
        "Perplexity after so many CPU seconds, one thread, seed 0. Between two looks it is interpolated, linearly in log "
        "time; there is none before the first look.",
    ]
    parts += [quality.equal_time(results, data, K) for data, K in results.settings()]
    parts += [
        quality.worse_again(results),
        "How long until the quality of the best other package is reached, within 0.5 %: by the fastest other package, and by "
        "gapmf. The goal is the best package's own final value, so that package needs nearly its whole fit by construction. Looks are "
        "at doubling times, so a ratio is known to a factor of two only.",
        quality.race_table(results),
        readings.why_not_faster(results),
        "## Coherence, recovery, stability",
        *readings.higher(results),
        quality.other_measures(results),
    ]
    if quality.rank_counts(results):
        parts += [
            "## How many components?",
            "Simulated data of 500 samples and 100 features, with 200 tokens per sample (few counts: 40): how often a recipe names the true number K*, and the smallest and "
            "largest number that it named. Recipes that need a grid have 8 or 9 ranks around K*. HDP begins with its default of two "
            "topics; we count its live topics. gapmf learns α; its rank report begins with 2 K* components.",
            quality.rank_table(results),
            readings.ranks(results),
        ]
    return parts


def cost_sections(results: Results) -> list[str]:
    """Return the sections on cost."""
    parts = [
        "## Cost",
        "One thread. A pass is a Gibbs sweep, an EM or multiplicative update, or a pass of variational Bayes over all samples (for "
        "cNMF, one of its runs). Memory is the peak of the fit above the process with its data; what the fit takes from memory that "
        "the process has free already is not seen, so small values are rough.",
    ]
    parts += [
        cost.costs(results, data, K)
        for data, K in results.settings()
        if data != "nips" or K in (20, 200)
    ]
    if cost.equal_quality(results):
        parts += [
            "New samples at equal quality. The better form of tomotopy, with its 100 sweeps, is the goal. "
            "gapmf infers with `precision` 0.05 (its default), 0.1 and 0.3; the cheapest that is at least as good as tomotopy "
            "counts. *Ratio*: tomotopy's time divided by that of gapmf. Means over seeds.",
            cost.inference(results),
        ]
    if any(data == "nips" for data, _ in results.settings()):
        parts += [
            readings.cost(results),
            "Growth with K, and with N (the first quarter of the NIPS papers):",
            cost.growth(results),
        ]
    if results.rows(threads=2):
        parts += ["Two threads, alone on the machine:", cost.threads(results)]
    return parts


def page(results: Results) -> str:
    """Return the page."""
    settings = [[name, text] for name, text in results.content["peers"].items()]
    parts = [
        "# gapmf beside other packages",
        "What do scikit-learn, tomotopy, gensim, hpfrec, poismf and cNMF do better or worse? One definition of quality for all, "
        "with each package's own components and inference. This page is generated by `docs/generate_comparison.py` from "
        "`docs/comparison/results.json`: do not edit it.",
        "**Words.** A *method* is a model of a package, or gapmf, with its settings. A *case* is a data set and "
        "a number of components K. A *run* is a cell of the plan: one method, case, seed and number of threads. *gapmf for "
        "prediction* is gapmf with the settings that the README recommends for prediction. *Ratio*: the time of the fastest other "
        "package, divided by that of gapmf for prediction.",
        cost.not_run(results),
        "## In short",
        *(f"- {part}" for part in [*quality.reading(results), *readings.speed(results)]),
        *method(results),
        *quality_sections(results),
        *cost_sections(results),
        "## Settings of the methods",
        table(["method", "settings"], settings),
        "## What has no result",
        cost.failures(results),
        "## What was not run",
        cost.missing(results),
    ]
    return "\n\n".join(wrapped(part) for part in parts if part) + "\n"


def main() -> None:
    """Write the page, and its picture if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--pictures", action="store_true")
    args = parser.parse_args()
    results = Results.read(args.results)
    args.page.write_text(page(results), encoding="utf-8")
    if args.pictures:
        curves(results, args.page.parent / "comparison" / "curves.png")


if __name__ == "__main__":
    main()
