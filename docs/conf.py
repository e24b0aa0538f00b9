"""The site of `make docs` (tools/docs.sh): the guides where they lie in the repository, the reference of the package qkv, and
the notebooks, which are executed."""

import inspect
import os
import re
from pathlib import Path

import qkv

ROOT = Path(__file__).resolve().parent.parent

project = "qkv"
author = "the qkv contributors"
version = release = qkv.__version__
root_doc = "docs/index"
extensions = ["myst_nb", "sphinx.ext.autodoc"]
# Links between guides are those of the repository.
include_patterns = ["*.md", "docs/**.md", "python/*.md", "qkv/*/design.md", "data/results/*.md", "models/*/README.md"]
exclude_patterns = [".*", "build", "dist", "node_modules", "tests", "web"]
# Designs, results and models are linked from other pages, as tools/check_site.py sees.
suppress_warnings = ["toc.not_included"]

myst_enable_extensions = ["html_image"]
myst_heading_anchors = 4
# Local: the site loads nothing from elsewhere.
html_theme = "furo"
html_title = f"qkv {version}"
html_additional_pages = {"index": "redirect.html"}
templates_path = ["templates"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False

nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build/docs/executed")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True
os.environ["QKV_ROOT"] = str(ROOT)

default_role = "py:obj"
smartquotes_action = "D"  # what is quoted is mostly code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["torch", "transformers"]
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True


def _parameters_as_fields(app, what, name, described, options, lines):
    """"name: " or "name, other: " at the beginning of a line or sentence of a docstring begins the field of a parameter."""
    try:
        parameters = set(inspect.signature(described).parameters)
    except (TypeError, ValueError):
        return

    def field(head):
        return f"\n:param {head[1]}: " if parameters.issuperset(head[1].split(", ")) else head[0]

    paragraphs = "\n".join(lines).split("\n\n")
    for i, paragraph in enumerate(paragraphs):
        text = re.sub(r"(?:^|(?<=\n)|(?<=[.;] ))(\w+(?:, \w+)*): (?=\S)", field, paragraph)
        if text != paragraph:
            before, *fields = text.split("\n:param ")
            fields = [":param " + re.sub(r"\s*\n\s*", " ", one) for one in fields]
            paragraphs[i] = "\n".join([before, "", *fields])
    lines[:] = "\n\n".join(paragraphs).split("\n")


def _all_is_described(app, exception):
    """Every public name has its place in the reference."""
    if exception is None:
        described = app.env.domaindata["py"]["objects"]
        missing = [name for name in qkv.__all__ if f"qkv.{name}" not in described]
        if missing:
            raise RuntimeError(f"docs/python.md lacks {', '.join(missing)} of qkv.__all__")


def setup(app):
    app.connect("autodoc-process-docstring", _parameters_as_fields)
    app.connect("build-finished", _all_is_described)
