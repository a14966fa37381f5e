"""Trees of arrays in files, checkpoints of fits, and tables of results."""

from gapmf.storage.archive import check_parent_folder, read, read_header, write, write_atomically

__all__ = ["check_parent_folder", "read", "read_header", "write", "write_atomically"]
