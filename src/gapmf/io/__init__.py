"""Files of counts: `read` takes the usual formats to one kind of `Table`."""

from __future__ import annotations

from gapmf.io.reading import read
from gapmf.io.table import Table

__all__ = ["Table", "read"]
