"""The columns of a Parquet file, by pyarrow or by polars: whichever is installed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapmf.errors import ReadError

NUMBER, TEXT, OTHER = "number", "text", "other"


class Frame(ABC):
    """A Parquet file, of which nothing is read before it is asked for."""

    names: list[str]
    n_rows: int
    panics: tuple[type[BaseException], ...] = (Exception,)  # what the library raises

    def __init__(self, path: str) -> None:
        self.path = path

    @contextmanager
    def converted(self) -> Iterator[None]:
        """The library's errors as ours."""
        try:
            yield
        except self.panics as error:
            what = str(error).strip().partition("\n")[0]
            raise ReadError(
                f"{self.path} cannot be read as Parquet ({type(error).__name__}: {what[:200]}): "
                "is it whole?"
            ) from error

    @abstractmethod
    def kind(self, name: str) -> str:
        """NUMBER (whole, real or bool), TEXT or OTHER."""

    @abstractmethod
    def dtype(self, name: str) -> str:
        """What the library calls the type of a column."""

    @abstractmethod
    def load(self, names: list[str]) -> Any:
        """Some columns, in memory."""

    @abstractmethod
    def first_missing(self, loaded: Any, name: str) -> int | None:
        """The row of the first missing value in a column."""

    @abstractmethod
    def array(self, loaded: Any, name: str) -> NDArray[Any]:
        """A column of numbers of which none is missing."""

    @abstractmethod
    def texts(self, loaded: Any, name: str) -> list[str]:
        """A column as text, none of it missing."""


class PolarsFrame(Frame):
    """A Parquet file, by polars."""

    def __init__(self, polars: Any, path: str) -> None:
        super().__init__(path)
        self._polars = polars
        self.panics = (Exception, polars.exceptions.PanicException)  # which is no Exception
        with self.converted():
            lazy = polars.scan_parquet(path, glob=False, hive_partitioning=False)
            self._schema = lazy.collect_schema()
            self.names = list(self._schema.names())
            self.n_rows = int(lazy.select(polars.len()).collect().item())

    def kind(self, name: str) -> str:
        """NUMBER, TEXT or OTHER."""
        dtype = self._schema[name]
        if dtype.is_float() or dtype == self._polars.Boolean:
            return NUMBER
        if dtype.is_integer():
            return OTHER if str(dtype) in ("Int128", "UInt128") else NUMBER
        texts = (self._polars.String, self._polars.Categorical, self._polars.Enum)
        return TEXT if dtype in texts else OTHER

    def dtype(self, name: str) -> str:
        """What polars calls the type of a column."""
        return str(self._schema[name])

    def load(self, names: list[str]) -> Any:
        """Some columns, in memory."""
        with self.converted():
            return self._polars.read_parquet(
                self.path, columns=names, glob=False, hive_partitioning=False
            )

    def first_missing(self, loaded: Any, name: str) -> int | None:
        """The row of the first missing value in a column."""
        column = loaded[name]
        return int(column.is_null().arg_max()) if column.null_count() else None

    def array(self, loaded: Any, name: str) -> NDArray[Any]:
        """A column of numbers."""
        return np.asarray(loaded[name].to_numpy())

    def texts(self, loaded: Any, name: str) -> list[str]:
        """A column as text."""
        with self.converted():
            return [str(value) for value in loaded[name].to_list()]


class ArrowFrame(Frame):
    """A Parquet file, by pyarrow."""

    def __init__(self, arrow: Any, parquet: Any, path: str) -> None:
        super().__init__(path)
        self._arrow, self._parquet = arrow, parquet
        with self.converted(), parquet.ParquetFile(path) as file:
            self._schema = file.schema_arrow
            self.n_rows = int(file.metadata.num_rows)
            self.names = list(self._schema.names)
        if len(set(self.names)) < len(self.names):
            raise ReadError(f"{path} has columns of the same name: rename or drop them")

    def kind(self, name: str) -> str:
        """NUMBER, TEXT or OTHER."""
        types, dtype = self._arrow.types, self._schema.field(name).type
        if types.is_integer(dtype) or types.is_floating(dtype) or types.is_boolean(dtype):
            return NUMBER
        if types.is_dictionary(dtype):
            dtype = dtype.value_type
        is_text = types.is_string(dtype) or types.is_large_string(dtype)
        return TEXT if is_text else OTHER

    def dtype(self, name: str) -> str:
        """What pyarrow calls the type of a column."""
        return str(self._schema.field(name).type)

    def load(self, names: list[str]) -> Any:
        """Some columns, in memory."""
        with self.converted(), self._parquet.ParquetFile(self.path) as file:
            return file.read(columns=names)

    def first_missing(self, loaded: Any, name: str) -> int | None:
        """The row of the first missing value in a column."""
        column = loaded.column(name)
        return int(np.argmax(column.is_null().to_numpy())) if column.null_count else None

    def array(self, loaded: Any, name: str) -> NDArray[Any]:
        """A column of numbers."""
        return np.asarray(loaded.column(name).to_numpy())

    def texts(self, loaded: Any, name: str) -> list[str]:
        """A column as text."""
        with self.converted():  # what is not UTF-8 comes out only here
            return [str(value) for value in loaded.column(name).to_pylist()]


def open_frame(path: str) -> Frame:
    """A Parquet file, by the first of the libraries that is there."""
    with open(path, "rb"):  # if it may not be read, the system's error says so
        pass
    if find_spec("pyarrow") is not None:  # first: it holds out better against damaged files
        return ArrowFrame(import_module("pyarrow"), import_module("pyarrow.parquet"), path)
    if find_spec("polars") is not None:
        return PolarsFrame(import_module("polars"), path)
    raise ImportError(".parquet files need the package pyarrow or polars: pip install pyarrow")
