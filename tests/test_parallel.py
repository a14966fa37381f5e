"""Work on threads, how it is interrupted, and how far it is."""

import threading

import pytest

from gapmf.parallel import for_each, map_reduce, part_of


def hidden_ctrl_c(task, _=None):
    """What Numba does to a Ctrl-C that comes while it looks for a kernel."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as error:
        raise SystemError("returned a result with an exception set") from error


def test_ctrl_c_is_not_hidden_by_numba():
    with pytest.raises(KeyboardInterrupt):
        map_reduce(hidden_ctrl_c, [1], lambda: None, 1)


def test_other_system_errors_stay():
    def work(task):
        raise SystemError("of another kind")

    with pytest.raises(SystemError, match="of another kind"):
        for_each(work, [1], 1)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_progress_ends_at_one_and_is_told_in_the_main_thread(n_jobs):
    told, threads, workers = [], set(), set()
    first = threading.Event()

    def tell(done):
        told.append(done)
        first.set()
        threads.add(threading.current_thread())

    def work(task):
        workers.add(threading.current_thread())
        assert task < 10 or first.wait(60)  # something is told before all is done
        return task

    assert for_each(work, range(20), n_jobs, tell) == list(range(20))
    assert threads == {threading.main_thread()}
    assert (threading.main_thread() in workers) == (n_jobs == 1)
    assert told == sorted(told)
    assert 0.0 <= told[0] <= 0.5
    assert told[-1] == 1.0
    if n_jobs == 1:
        assert told == pytest.approx([(i + 1) / 20 for i in range(20)])


def test_a_part_of_the_progress():
    told = []
    step = part_of(part_of(told.append, 0.5, 1.0), 0.2, 0.4)
    for done in (0.0, 0.5, 1.0):
        step(done)
    assert told == pytest.approx([0.6, 0.65, 0.7])
    assert part_of(None, 0.0, 1.0) is None


def test_no_task_is_all_done():
    told = []
    assert for_each(lambda task: task, [], 2, told.append) == []
    assert set(told) <= {1.0}
