# SPDX-License-Identifier: Apache-2.0
"""Configures Sphinx for the site; build_site.py calls it."""
import os
import pathlib
import re

abi = (pathlib.Path(__file__).resolve().parents[2] / "sdk/include/tenon/abi.h").read_text()
project = "Tenon"
author = "the authors of Tenon"
version = release = "ABI " + re.search(r'TENON_ABI_STRING "([^"]+)"', abi).group(1)

extensions = ["breathe", "myst_parser"]
root_doc = "docs/index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"
html_theme = os.environ["TENON_SITE_THEME"]
html_title = f"Tenon, {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False

# Anchors as in the pages' links: of headings, as GitHub names them.
myst_heading_anchors = 4

breathe_projects = {"tenon": os.environ["TENON_SITE_XML"]}
breathe_default_project = "tenon"
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}
breathe_show_include = False
breathe_show_define_initializer = True
breathe_show_enumvalue_initializer = True

# Quotes in comments belong to code and JSON.
smartquotes = False
