"""What the command leaves in a folder."""

import csv
import json

import numpy as np

NEED_DATA = ("fig4", "race", "overfit")


class Made:
    """A folder of figures."""

    def __init__(self, folder):
        self.folder = folder

    def findings(self, name):
        return json.loads((self.folder / f"{name}.json").read_text())["findings"]

    def table(self, name):
        with (self.folder / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        columns = {key: np.array([row[key] for row in rows]) for key in rows[0]}
        return {key: _as_numbers(column) for key, column in columns.items()}


def _as_numbers(column):
    try:
        return np.where(column == "", "nan", column).astype(float)  # nan is an empty cell
    except ValueError:
        return column
