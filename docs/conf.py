"""The documentation site: `make site` builds it with warnings as errors; it works opened from disk, search included."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from docs._ext import gallery, reference_pages, source_pages

from gradtape.config import VERSION

project, author, copyright = "gradtape", "The gradtape authors", "the gradtape authors, Apache-2.0"
version = release = VERSION
extensions = ["myst_parser", "sphinx_design", "sphinx_copybutton"]
exclude_patterns = ["_ext", "_static", "_templates", "benchmarks", "images"]
templates_path = ["_templates"]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]  # pages of the reference begin with a table of facts below the second level
highlight_language = "text"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries = False

html_theme = "pydata_sphinx_theme"
html_title = "gradtape"
html_static_path = ["_static"]
html_css_files = ["gradtape.css"]
html_js_files = ["versions.js"]
html_logo, html_favicon = "_static/logo.svg", "_static/logo.svg"
html_context = {"default_mode": "auto"}
html_show_sourcelink = html_copy_source = False
html_sidebars = {"index": [], "faq": [], "changelog": [], "benchmarks": [], "_source/**": []}
html_theme_options = {
    "logo": {"text": "gradtape"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_persistent": ["search-button"],
    "navbar_end": ["version-menu", "theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
    "navigation_with_keys": False,
    "pygments_light_style": "tango",
    "pygments_dark_style": "github-dark",
    "show_toc_level": 2,
    "back_to_top_button": False,
}


def setup(app: Any) -> None:
    """The reference is written before pages are read; files of the repository are added at the end."""
    reference_pages.write(Path(__file__).parent / "reference" / "api")
    gallery.write(Path(__file__).parent / "gallery" / "programs")
    app.connect("source-read", source_pages.on_source)
    app.connect("html-collect-pages", source_pages.collect)
