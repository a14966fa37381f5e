"""The errors that gapmf raises on purpose: what was expected, what came, what to do."""

from __future__ import annotations


class GapmfError(Exception):
    """The base of every error that gapmf raises on purpose."""


class InvalidInputError(GapmfError, ValueError):
    """An argument that cannot be used; the message names the first bad place."""


class TooCostlyError(InvalidInputError):
    """An exact computation that would take too long or too much memory."""


class StorageError(InvalidInputError):
    """A file that cannot be read as a gapmf file, or content that one cannot hold."""


class ReadError(InvalidInputError):
    """A file of counts that cannot be read; the message names the place."""
