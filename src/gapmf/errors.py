"""Exceptions. Their messages say what was expected, what came and what to do."""

from __future__ import annotations


class GapmfError(Exception):
    """Base class of all errors that gapmf raises on purpose."""


class InvalidInputError(GapmfError, ValueError):
    """An argument is invalid; the message names the first bad value."""


class TooCostlyError(InvalidInputError):
    """A computation would take too much time or memory."""


class StorageError(InvalidInputError):
    """A file is not a valid gapmf file, or an object cannot be stored in one."""


class ReadError(InvalidInputError):
    """A file of counts cannot be read; the message names the place."""
