"""Columns of tables that are no features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gapmf import read
from gapmf.errors import ReadError
from gapmf.io.dataframes import read_column

ROWS = {
    "last": "doc,a,b,hours\nx,1,2,0.5\ny,0,3,2\n",
    "first": "hours,a,b\n0.5,1,2\n2,0,3\n",
    "as R has it": "a,hours,b\nx,1,0.5,2\ny,0,2,3\n",
}


@pytest.mark.parametrize("name", ROWS)
def test_a_column_is_left_out_wherever_it_is(name, tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(ROWS[name])
    table = read(path, leave_out="hours")
    np.testing.assert_array_equal(table.counts.toarray(), [[1, 2], [0, 3]])
    assert table.feature_names.tolist() == ["a", "b"]
    assert (table.sample_names is None) == (name == "first")
    numbers = read_column(str(path), "hours", parquet=False)
    np.testing.assert_array_equal(numbers, [0.5, 2.0])
    assert read_column(str(path), "days", parquet=False) is None
    with pytest.raises(ReadError, match="no column 'days'; its columns are"):
        read(path, leave_out="days")
    with pytest.raises(ReadError, match="hours"):
        read(path)


def test_frames():
    frame = pd.DataFrame({"a": [1, 0], "hours": [0.5, 2.0], "b": [2, 3]})
    table = read(frame, leave_out="hours")
    np.testing.assert_array_equal(table.counts.toarray(), [[1, 2], [0, 3]])
    with pytest.raises(ReadError, match="no column 'days'"):
        read(frame, leave_out="days")


def test_what_is_no_number_is_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,hours\n1,2\n3,many\n")
    with pytest.raises(ReadError, match=r"line 3: column 2 \('hours'\) is not a number"):
        read_column(str(path), "hours", parquet=False)
    path.write_text("")
    assert read_column(str(path), "hours", parquet=False) is None
