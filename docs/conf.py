"""Sphinx builds the site from the Markdown of this folder, the docstrings and the gallery."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_ext")]

from sphinx.ext import autosummary  # noqa: E402

import gapmf  # noqa: E402 - the source of this checkout, also without an installation

project = "gapmf"
author = "The gapmf developers"
copyright = author  # noqa: A001 - Sphinx's name
version = release = gapmf.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "source_links",  # docs/_ext: from equations to code and tests
]
exclude_patterns = ["_build", "_templates", "gallery", "README.md"]
templates_path = ["_templates"]
nitpicky = True
smartquotes = False  # --option and "quotes" stay as they are typed
default_role = "code"  # a single backtick in a docstring is code, as in Markdown

# Markdown: pages are plain enough for GitHub. Headings get GitHub's anchors.
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "deflist"]

# Reference: types stand in the docstrings, not in signatures.
autosummary_generate = True
autosummary.WELL_KNOWN_ABBREVIATIONS += ("Eq.", "Eqs.")  # a summary does not end there
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

# Nothing is loaded from the network.
html_theme = "furo"
html_title = f"gapmf {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def setup(app):
    """Leave out the fields of named tuples, which are listed as attributes already."""
    app.connect(
        "autodoc-skip-member",
        lambda app, what, name, member, skip, options: (
            True if type(member).__name__ == "_tuplegetter" else None
        ),
    )


sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "_gallery",
    "filename_pattern": r".*\.py",
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "show_signature": False,
    "min_reported_time": 3600,  # times of the machine that built the site say little
    "ignore_repr_types": r"matplotlib\.",
    "remove_config_comments": True,
    "plot_gallery": os.environ.get("GAPMF_GALLERY", "1") == "1",
}
