"""Sphinx makes a site of the pages: scripts/docs. The pages are plain Markdown, to be read where they lie; what only the site needs is here."""

import pathlib

project = "ckpt"
copyright = author = "the developers of ckpt"
extensions = ["myst_parser"]
source_suffix = [".md"]
root_doc = "index"
exclude_patterns = ["examples", "monitoring", "pictures"]
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"description": "checkpoints for training jobs", "fixed_sidebar": True, "page_width": "1100px", "sidebar_width": "260px"}
html_sidebars = {"**": ["about.html", "searchbox.html", "navigation.html"]}
html_show_sphinx = html_show_sourcelink = html_copy_source = False

KINDS = {"tutorial": "Learn", "howto": "Do", "reference": "Look up", "explanation": "Understand"}


def add_contents(app, docname, source):
    """Every page stands in the sidebar, under its kind."""
    if docname != root_doc:
        return
    for kind, caption in KINDS.items():
        pages = sorted(path.stem for path in (pathlib.Path(app.srcdir) / kind).glob("*.md"))
        listed = "\n".join(f"{kind}/{page}" for page in pages)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"
    source[0] += "\n```{toctree}\n:hidden:\n:caption: Develop\n\ndevelopment\n```\n"


def setup(app):
    app.connect("source-read", add_contents)
