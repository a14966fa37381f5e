"""Trees of arrays in files, and checkpoints of fits."""

from gapmf.storage.archive import check_parent_folder, read, read_header, write, write_atomically

__all__ = ["check_parent_folder", "read", "read_header", "write", "write_atomically"]
