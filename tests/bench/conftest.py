"""The comparison measures processes in the manner of Unix."""

import sys

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]
