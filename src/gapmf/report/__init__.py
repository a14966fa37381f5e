"""A report of a fit, as one HTML file that anybody can open."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gapmf import __version__
from gapmf.storage.output import check_output, write_text

if TYPE_CHECKING:
    from gapmf.estimator import GammaPoissonMF
    from gapmf.ranks.report import RankReport

__all__ = ["write_report"]


def write_report(
    path: str | os.PathLike[str],
    est: GammaPoissonMF,
    X: Any = None,
    *,
    sample_names: Any = None,
    groups: Any = None,
    group_colours: dict[str, str] | None = None,
    image: tuple[int, int] | str | None = None,
    exposure: Any = None,
    observed: Any = None,
    rank_report: RankReport | bool = False,
    title: str | None = None,
    model_name: str | None = None,
    data_name: str | None = None,
) -> None:
    """Write a report of a fitted model to one HTML file.

    It shows what was fitted, the components with their distinctive features, and which of them
    are alike. With `X`, it also shows how well the model fits, and the components of each sample
    with their uncertainty. The file loads nothing from the network.

    Parameters
    ----------
    path : str or path
        The file to write. Its name ends in .html.
    est : GammaPoissonMF
        The fitted estimator.
    X : array-like, sparse matrix, data frame or AnnData, default=None
        Counts, as a rule those of the fit. Without them, the report tells what the model alone
        can tell. If there are more than 2,000 samples, the report shows the components of 2,000,
        chosen at random.
    sample_names : sequence of str, default=None
        Names of the samples; by default the index of a data frame, the cells of an AnnData, or
        numbers.
    groups : sequence or str, default=None
        The group of each sample, for a comparison of groups. For an AnnData, it may be the name
        of a column of `obs`; then the groups have scanpy's colours.
    group_colours : dict, default=None
        Colours of groups, by their names, such as ``{"day 1": "#3b6fb6"}``.
    image : (int, int) or str, default=None
        Height and width, if the features are the pixels of an image, row by row. "square" takes
        the root of their number.
    exposure : float, array-like of shape (n_samples,) or "total", default=None
        Exposure of each sample, as in `GammaPoissonMF.fit`.
    observed : array-like or str, default=None
        Which entries of X were observed, as in `GammaPoissonMF.fit`.
    rank_report : RankReport or bool, default=False
        A report that was made by ``est.rank_report(X)``. True makes one, which may take longer
        than the fit.
    title : str, default=None
        Title of the report.
    model_name, data_name : str, default=None
        Names of the files of the model and of the counts, for the commands that the report
        suggests.

    See Also
    --------
    gapmf.plot : Single pictures, with Matplotlib.

    Examples
    --------
    >>> import os, tempfile
    >>> from gapmf import GammaPoissonMF, write_report
    >>> X = [[4, 1], [1, 0], [3, 1]]
    >>> est = GammaPoissonMF(1, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(os.path.join(folder, "report.html"), est, X)
    ...     os.listdir(folder)
    ['report.html']
    """
    from gapmf.report.content import Wanted, collect
    from gapmf.report.page import page

    file = Path(path)
    check_output(file, (".html", ".htm"))
    wanted = Wanted(
        sample_names, groups, group_colours, image, exposure, observed, rank_report, title,
        model_name, data_name,
    )  # fmt: skip
    write_text(page(collect(est, X, wanted), __version__), file)
