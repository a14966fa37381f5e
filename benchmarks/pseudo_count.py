"""Held-out perplexity with and without a prior on the directions of components.

Document completion: a tenth of the documents is held out, and half of the tokens of each of these
is predicted from the other half. All models are scored by the same function. For tomotopy's LDA,
whose α is optimised as it does by default, the topics φ and α make a GaP with columns of one norm,
which has the same law of the tokens given their number. Words that it has not seen get its η.

Each finished row is added to the file of results at once, and is not computed again:

    python benchmarks/pseudo_count.py --json pseudo_count.jsonl          # the whole table: hours
    python benchmarks/pseudo_count.py --json pseudo_count.jsonl --data short -k 20

NIPS is read from GAPMF_NIPS_DIR. tomotopy is left out if it is not installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import time
from pathlib import Path

import numpy as np

import gapmf
from gapmf import GammaPoissonMF, GaP, document_completion
from gapmf.likelihood.predictive import split_tokens
from simulated import short_documents

FITS = {
    "alpha = 1": {},
    "alpha learned": {"learn_alpha": True},
    "alpha learned, auto": {"learn_alpha": True, "pseudo_count": "auto"},
    "alpha = 1, auto": {"pseudo_count": "auto"},
    "posterior, auto": {"learn_alpha": True, "pseudo_count": "auto", "schedule": "posterior"},
}
LDA = {"tomotopy, eta 0.01": 0.01, "tomotopy, eta 0.1": 0.1}
SWEEPS = 500  # of tomotopy


def load(name, folder=None):
    """Training counts, and the two halves of the test documents."""
    if name == "nips":
        folder = Path(folder or os.environ["GAPMF_NIPS_DIR"])
        counts = gapmf.read(folder / "docword.nips.txt.gz").counts
    else:
        counts = short_documents(N=20_000, F=20_000, tokens=100)
    rng = np.random.default_rng(0)
    order = rng.permutation(counts.shape[0])
    n_test = counts.shape[0] // 10
    return counts[order[n_test:]], *split_tokens(counts[order[:n_test]], 0.5, rng)


def lda(train, K, eta, seed):
    """tomotopy's collapsed Gibbs sampler, before its first sweep."""
    import tomotopy

    model = tomotopy.LDAModel(k=K, eta=eta, seed=seed)
    for n in range(train.shape[0]):
        row = slice(train.indptr[n], train.indptr[n + 1])
        words = np.repeat(train.indices[row], train.data[row])
        if words.size:
            model.add_doc([str(f) for f in words])
    return model


def topics(model, F):
    """Topics and α of tomotopy's model."""
    words = np.array([int(word) for word in model.used_vocabs])
    W = np.full((F, model.k), model.eta)
    for k in range(model.k):
        W[words, k] = model.get_topic_word_dist(k, normalize=False)
    return GaP(W / W.sum(axis=0), np.array(model.alpha, dtype=float))


def measure(name, K, what, seed, data):
    """One row of the table."""
    train, shown, hidden = data
    begin = time.process_time()
    row = {"data": name, "K": K, "model": what, "seed": seed}
    if what in LDA:
        sampler = lda(train, K, LDA[what], seed)
        sampler.train(SWEEPS, workers=1)
        model = topics(sampler, train.shape[1])
        row["eta"] = LDA[what]
    else:
        model = GammaPoissonMF(K, random_state=seed, **FITS[what]).fit(train)
        row |= {"eta": model.pseudo_count_, "n_iter": model.n_iter_}
    row["cpu_seconds"] = round(time.process_time() - begin, 1)
    alpha = model.alpha if isinstance(model, GaP) else model.alpha_
    row["mean_alpha"] = float(np.mean(alpha))
    row["perplexity"] = document_completion(shown, hidden, model, random_state=0).perplexity
    return row


def main():
    """Compute what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", nargs="+", default=["nips", "short"])
    parser.add_argument("-k", nargs="+", type=int, default=[20, 50, 100])
    parser.add_argument("--models", nargs="+", default=[*FITS, *LDA])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", required=True, type=Path)
    args = parser.parse_args()
    rows = []
    if args.json.exists():
        rows = [json.loads(line) for line in args.json.read_text().splitlines()]
    has_tomotopy = importlib.util.find_spec("tomotopy") is not None
    loaded = {}
    for K in args.k:
        for what in args.models:
            for name in args.data:
                key = {"data": name, "K": K, "model": what, "seed": args.seed}
                if any(key.items() <= row.items() for row in rows):
                    continue
                if what in LDA and not has_tomotopy:
                    continue
                if name not in loaded:
                    loaded[name] = load(name)
                rows.append(measure(name, K, what, args.seed, loaded[name]))
                with args.json.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    for row in sorted(rows, key=lambda r: (r["data"], r["K"], r["perplexity"])):
        print(
            f"{row['data']:6} K = {row['K']:<4} {row['model']:22} {row['perplexity']:8.1f}  "
            f"eta {row['eta']:.3f}  mean alpha {row['mean_alpha']:.3f}  {row['cpu_seconds']:.0f} s"
        )


if __name__ == "__main__":
    main()
