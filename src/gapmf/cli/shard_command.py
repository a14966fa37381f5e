"""`gapmf shard`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from gapmf.cli.files import echo_warnings
from gapmf.cli.options import echo
from gapmf.io.shards import open_shards
from gapmf.io.streams import write_shards


def run(
    data: Path, output: Path, shard_tokens: int, reading: dict[str, Any], *, quiet: bool
) -> None:
    """Write the shards, and say what they hold."""
    start = time.perf_counter()
    with echo_warnings(quiet=quiet):
        write_shards(data, output, shard_tokens=shard_tokens, **reading)
    if not quiet:
        shards = open_shards(output)
        N, F = shards.shape
        echo(
            f"{output}: {N:,} samples × {F:,} features, {shards.nnz:,} entries above 0, "
            f"{shards.sum():,} counts in {shards.n_blocks:,} "
            f"shard{'s' if shards.n_blocks > 1 else ''}, written in "
            f"{time.perf_counter() - start:.1f} s"
        )
