"""The pictures of the page: perplexity against CPU time."""

from __future__ import annotations

from pathlib import Path

from comparison_pages.results import Results, title

COLUMNS = 3  # panels side by side
FAR = 1.35  # times the best perplexity: the rest of a panel is left out


def curves(results: Results, path: Path) -> None:
    """Draw perplexity against CPU seconds, one panel per setting."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    shown = results.settings()
    columns = min(COLUMNS, len(shown))
    lines = -(-len(shown) // columns)
    size = (max(4.4 * columns, 9.0), 3.6 * lines + 1.2)
    figure, axes = plt.subplots(lines, columns, figsize=size, squeeze=False, layout="constrained")
    for axis in axes.flat[len(shown) :]:
        axis.set_axis_off()
    colours = plt.get_cmap("tab20").colors
    for axis, (data, K) in zip(axes.flat, shown, strict=False):
        best = min(results.values("perplexity", data=data, K=K))
        for colour, peer in zip(colours, results.peers, strict=False):
            for row in results.rows(data=data, K=K, peer=peer, seed=0):
                if "perplexity" not in row:
                    continue
                seen = [*row.get("looks", []), row]
                ours = peer.startswith("gapmf")
                axis.plot(
                    [x["cpu"] for x in seen],
                    [x["perplexity"] for x in seen],
                    marker="o",
                    markersize=4 if ours else 3,
                    linewidth=2.2 if ours else 1.0,
                    color=colour,
                    label=peer,
                )
        axis.set(
            xscale="log", xlabel="CPU seconds", title=title(data, K), ylim=(0.99 * best, FAR * best)
        )
        axis.grid(alpha=0.3)
    for axis in axes[:, 0]:
        axis.set_ylabel("perplexity of the hidden halves")
    handles: dict[str, object] = {}
    for axis in axes.flat:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
