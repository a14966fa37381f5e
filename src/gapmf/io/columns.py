"""The names by which a table of three columns is known to hold triplets."""

from __future__ import annotations

import re
from collections.abc import Sequence

# In small letters, and without "id" or "name" at their end: doc_id, docID and "Doc name" are doc.
SAMPLE_NAMES = ("sample", "doc", "document", "cell", "barcode", "user", "obs", "row", "customer")
FEATURE_NAMES = (
    "feature", "word", "term", "token", "gene", "item", "var", "column", "col",
    "song", "track", "artist", "movie", "product",
)  # fmt: skip

_IDS = re.compile(
    r"sample|(doc|document|cell|user|obs|row|customer)?[ _.-]?(id|ids|index|idx)|barcodes?"
)


def says_ids(title: str) -> bool:
    """Whether a first column of this name has names of samples, even if they are numbers.

    >>> [says_ids(title) for title in ("id", "Doc ID", "sample", "cell_index", "cell", "acid")]
    [True, True, True, True, False, False]
    """
    return _IDS.fullmatch(title.strip().lower()) is not None


def find_triplets(names: Sequence[str]) -> tuple[int, int, int] | None:
    """Which columns have the samples, the features and the counts, if these names are of three.

    One for samples and one for features are enough: the third has the counts.

    >>> find_triplets(["count", "Doc ID", "word"])
    (1, 2, 0)
    >>> find_triplets(["user", "item", "plays"])
    (0, 1, 2)
    >>> find_triplets(["ape", "bee", "count"]) is None
    True
    """
    if len(names) != 3:
        return None
    plain = [re.sub(r"[ _.-]?(id|name)$", "", name.strip().lower()) for name in names]
    samples, features = (
        [place for place, name in enumerate(plain) if name in known]
        for known in (SAMPLE_NAMES, FEATURE_NAMES)
    )
    if len(samples) != 1 or len(features) != 1:
        return None
    sample, feature = samples[0], features[0]
    count = 3 - sample - feature
    return sample, feature, count
