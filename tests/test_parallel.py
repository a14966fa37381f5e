"""Work on threads, and how it is interrupted."""

import pytest

from gapmf.parallel import for_each, map_reduce


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
