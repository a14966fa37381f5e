"""The engine of a Dask cluster: chains live beside their data, on the workers.

In every iteration the weights that the kernels make of W go out, to all workers, and sums of the
size of W come back, added in a tree. The client never holds the counts. A worker's sums are whole
numbers in units of the whole data, so W has the same bits as from any other engine.

A worker that dies takes its chains with it. Its parts are read again by the others; their chains
start from the present W, with a few sweeps that are discarded, and the iteration is repeated.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from itertools import pairwise
from typing import Any, TypeVar

import dask.config
import numpy as np
import scipy.sparse as sp
from dask.delayed import delayed
from distributed import Client, KilledWorker, wait
from distributed.comm.core import CommClosedError
from numpy.typing import NDArray

from gapmf.engines import cluster_worker as remote
from gapmf.engines.base import State
from gapmf.engines.parts import EStepInputs
from gapmf.engines.streamed import PartedEngine, check_state_rows, check_summary
from gapmf.errors import InvalidInputError
from gapmf.io.count_blocks import row_blocks
from gapmf.io.shards import Shards
from gapmf.kernels.gibbs_layout import Sums
from gapmf.parallel import check_n_jobs

POLL = 0.5  # seconds between looks at which workers are alive
TRANSFER = 60.0  # seconds for a result that is there, before workers are looked at again
WAIT = 60.0  # seconds for a worker, when there is none
MAX_LOSSES = 10  # in one call, before it is given up

T = TypeVar("T")
Place = dict[str, list[int]]  # the parts that each worker has


class WorkersLostError(Exception):
    """Workers have died during a call, which can be repeated when their parts are held again."""


def find_client(engine: Any) -> Any:
    """Return the client that was given, or the current one."""
    if not isinstance(engine, str):
        return engine
    try:
        return Client.current()
    except ValueError:
        raise InvalidInputError(
            "engine='dask' found no cluster: make a client first, for example by "
            "`from distributed import Client; client = Client()`, or pass one as engine=client"
        ) from None


class DaskEngine(PartedEngine):
    """Chains on the workers of a Dask cluster.

    Parameters
    ----------
    X : Dask array, Dask data frame or Shards
        The counts. Shards are read by the workers, from the same path.
    client : distributed.Client
        The cluster. Every worker draws with as many threads as it has.
    n_jobs : int, optional
        Threads of this process, for what is computed of W.
    """

    def __init__(self, X: Any, client: Any, n_jobs: int | None = None) -> None:
        super().__init__()
        self._client, self._fit = client, secrets.token_hex(8)
        self._n_threads = check_n_jobs(n_jobs)
        self._shards = X if isinstance(X, Shards) else None
        self._blocks = [] if self._shards is not None else row_blocks(X)
        self._n_features = int(X.shape[1])
        self._n_parts = len(self._blocks) if self._shards is None else self._shards.n_blocks
        self._leases: dict[str, Any] = {}
        self._where: dict[int, str] = {}  # the worker of each part
        self._first: dict[int, int] = {}  # the first sample of each part
        try:
            sizes = self._hold(range(self._n_parts))
            starts = np.cumsum([0, *(sizes[i] for i in range(self._n_parts))])
            self._first = {i: int(starts[i]) for i in range(self._n_parts) if sizes[i]}
            self.summary = self._retry(self._number)
            if self._shards is not None:
                check_summary(self.summary, self._shards)
        except BaseException:
            self.close()
            raise

    # Which worker has what.

    def _alive(self) -> dict[str, int]:
        """Return the threads of each worker that is alive; there is at least one."""
        end = time.monotonic() + WAIT
        while not (alive := self._client.nthreads()):
            if time.monotonic() > end:
                raise InvalidInputError(
                    f"the Dask cluster has had no worker for {WAIT:.0f} s: add workers, and fit "
                    "again or resume"
                )
            time.sleep(POLL)
        return dict(alive)

    def _hold(self, numbers: Any) -> dict[int, int]:
        """Let workers take parts, wherever their blocks are computed; return the parts' sizes."""
        left, sizes = list(numbers), dict[int, int]()
        for _ in range(MAX_LOSSES):
            workers = sorted(self._alive())
            self._lease(workers)
            tasks = self._hold_tasks(left, workers)
            try:
                receipts = self._wait(tasks, workers)
            except WorkersLostError:
                self._client.cancel(tasks)
                continue
            for worker, i, n_samples in receipts:
                sizes[i], self._where[i] = n_samples, worker
            return sizes
        raise InvalidInputError(f"workers died {MAX_LOSSES} times while they took their parts")

    def _lease(self, workers: list[str]) -> None:
        """Prepare workers that are not."""
        path = None if self._shards is None else str(self._shards.path.absolute())
        new = {
            worker: self._client.submit(
                remote.lease, self._fit, self._n_features, path, workers=[worker], pure=False
            )
            for worker in workers
            if worker not in self._leases
        }
        if new:
            self._wait(list(new.values()), list(new), keep=True)
            self._leases |= new

    def _hold_tasks(self, numbers: list[int], workers: list[str]) -> list[Any]:
        if self._shards is None:
            hold = delayed(remote.hold_block, pure=False)
            tasks = [hold(self._fit, i, self._blocks[i]) for i in numbers]
            return list(self._client.compute(tasks, workers=workers))
        return [
            self._client.submit(
                remote.hold_shard, self._fit, i, workers=[workers[j % len(workers)]], pure=False
            )
            for j, i in enumerate(numbers)
        ]

    def _place(self) -> Place:
        """Return the parts of each worker; those without samples are of no use."""
        place: Place = {}
        for i in self._first:
            place.setdefault(self._where[i], []).append(i)
        return place

    def _replace_lost(self) -> None:
        """Let other workers take the parts of those that have died."""
        alive = self._alive()
        self._leases = {worker: own for worker, own in self._leases.items() if worker in alive}
        lost = [i for i in self._first if self._where[i] not in self._leases]
        if lost:
            self._hold(lost)
            self._number(lost)

    def _number(self, numbers: Any = None) -> Any:
        """Tell parts their first samples; return the summary of them."""
        wanted = set(self._first if numbers is None else numbers)
        place = {
            worker: ({i: self._first[i] for i in own if i in wanted},)
            for worker, own in self._place().items()
            if wanted & set(own)
        }
        found = self._on_workers(remote.number_samples, place)
        return sum(found[1:], start=found[0])

    # Calls of workers.

    def _wait(self, futures: list[Any], workers: list[str], *, keep: bool = False) -> list[Any]:
        """Return the results of tasks of these workers, unless one of them dies."""
        try:
            return [self._result(future, workers) for future in futures]
        finally:
            if not keep:
                for future in futures:
                    future.release()

    def _result(self, future: Any, workers: list[str]) -> Any:
        while True:
            try:
                wait([future], timeout=POLL)  # `Future.result(timeout)` may fail at its limit
                return self._client.sync(self._gather, future)
            except TimeoutError:
                if not set(workers) <= set(self._client.nthreads()):
                    raise WorkersLostError from None
            except remote.ChainsLostError as error:
                self._leases.pop(error.args[0], None)  # it was started again, at the same address
                raise WorkersLostError from error
            except (CancelledError, KilledWorker, CommClosedError) as error:
                raise WorkersLostError from error

    async def _gather(self, future: Any) -> Any:
        """Fetch a result that is there, unless its worker dies meanwhile."""
        [found] = await asyncio.wait_for(self._client.gather([future], asynchronous=True), TRANSFER)
        return found

    def _on_workers(
        self, function: Callable[..., T], arguments: dict[str, tuple[Any, ...]]
    ) -> list[T]:
        """Call a function once on each worker, and return the results."""
        futures = [self._submit(function, worker, *own) for worker, own in arguments.items()]
        return self._wait(futures, list(arguments))

    def _submit(self, function: Callable[..., Any], worker: str, *arguments: Any) -> Any:
        return self._client.submit(
            function, self._fit, *arguments, workers=[worker], allow_other_workers=False, pure=False
        )

    def _retry(self, call: Callable[[], T]) -> T:
        """Call, and call again after workers have died and their parts are held by others."""
        for _ in range(MAX_LOSSES):
            try:
                if set(self._where.values()) - self._leases.keys():
                    self._replace_lost()
                return call()
            except WorkersLostError:
                alive = self._alive()
                self._leases = {w: own for w, own in self._leases.items() if w in alive}
        raise InvalidInputError(
            f"workers died {MAX_LOSSES} times during one iteration: see their logs, for example "
            "for a lack of memory"
        )

    # The engine.

    def _restart(self) -> None:
        def call() -> None:
            self._on_workers(remote.restart, {w: (own,) for w, own in self._place().items()})

        self._retry(call)

    def _collect(self, inputs: EStepInputs) -> Sums:
        def call() -> Sums:
            place = self._place()
            sent = self._send(inputs)
            level = [self._submit(remote.advance, w, own, sent) for w, own in place.items()]
            futures = [sent, *level]
            while len(level) > 1:
                pairs = zip(level[::2], level[1::2], strict=False)
                added = [self._client.submit(remote.add_pair, a, b, pure=False) for a, b in pairs]
                futures += added
                level = added + level[len(level) - len(level) % 2 :]
            try:
                sums: Sums = self._result(level[0], list(place))
                return sums
            finally:
                for future in futures:
                    future.release()

        return self._retry(call)

    def _send(self, inputs: EStepInputs) -> Any:
        """Send what an E-step is told to some worker, from which the others get it.

        It is a task, which is repeated elsewhere if the worker dies; `Client.scatter` would wait.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1 TB"}):
            return self._client.submit(remote.receive, remote.Parcel(inputs), pure=False)

    @property
    def state(self) -> State:
        """The state of the chains, gathered: 4 bytes per sample and component."""
        if self._iteration == 0:
            return State(np.full((self.n_samples, 1), -1, dtype=np.int64), 0)

        def call() -> NDArray[Any]:
            arguments = {w: (own, self._iteration) for w, own in self._place().items()}
            found = [part for own in self._on_workers(remote.get_states, arguments) for part in own]
            widths = {L.shape[1] for _, L in found if L is not None}
            dtype = np.result_type(*(L.dtype for _, L in found if L is not None))
            whole = np.full((self.n_samples, widths.pop()), -1, dtype)
            for first, L in found:
                if L is not None:  # of a worker that died since the last iteration
                    whole[first : first + L.shape[0]] = L
            return whole

        return State(self._retry(call), self._iteration)

    @state.setter
    def state(self, state: State) -> None:
        check_state_rows(state.L, self.n_samples)
        ends = sorted([*self._first.values(), self.n_samples])
        after = dict(pairwise(ends))

        def call() -> None:
            parts = {i: np.asarray(state.L[n : after[n]]) for i, n in self._first.items()}
            arguments = {w: ({i: parts[i] for i in own},) for w, own in self._place().items()}
            self._on_workers(remote.put_states, arguments)

        self._retry(call)
        self._iteration = state.iteration

    def map_counts(self, function: Callable[[sp.csr_array], T]) -> list[T]:
        """Apply a function to the counts of every part, on their workers."""

        def call() -> list[T]:
            arguments = {w: (own, function) for w, own in self._place().items()}
            return [x for own in self._on_workers(remote.map_counts, arguments) for x in own]

        return self._retry(call)

    def close(self) -> None:
        """Free what the workers hold."""
        for own in self._leases.values():
            own.release()
        self._leases, self._where, self._blocks = {}, {}, []
