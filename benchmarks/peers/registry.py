"""All peers, by name."""

from __future__ import annotations

from peers import (
    consensus,
    gapmf_fits,
    gensim_models,
    poisson_models,
    sklearn_models,
    tomotopy_models,
)
from peers.protocol import Peer

_MODULES = (
    gapmf_fits,
    tomotopy_models,
    sklearn_models,
    gensim_models,
    poisson_models,
    consensus,
)  # fmt: skip
PEERS: dict[str, Peer] = {peer.name: peer for module in _MODULES for peer in module.PEERS}
