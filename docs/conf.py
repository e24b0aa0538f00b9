"""The site of `make docs` (tools/docs.sh): the guides where they lie in the repository, the reference of the package qkv, and
the notebooks, which are executed."""

import inspect
import re
from pathlib import Path

from sphinx.errors import SphinxError

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
html_domain_indices = False
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
html_show_sourcelink = False

nb_execution_mode = "cache"
nb_execution_cache_path = str(ROOT / "build/docs/executed")
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True

default_role = "py:obj"
smartquotes_action = "D"  # what is quoted is mostly code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
autodoc_mock_imports = ["chromadb", "langchain_core", "llama_index", "pyarrow", "ray", "torch", "transformers"]
python_maximum_signature_line_length = 100
python_use_unqualified_type_names = True


def _fields(described):
    """What "name: " stands for in a docstring: fields of reStructuredText by name."""
    try:
        parameters = inspect.signature(described).parameters
    except (TypeError, ValueError):
        parameters = ()
    return dict.fromkeys(getattr(described, "__annotations__", ()), "ivar") | dict.fromkeys(parameters, "param")


def _docstring(app, what, name, described, options, lines):
    """A docstring of qkv as reStructuredText: "name: " or "name, other: " at the beginning of a line or sentence begins a
    field, and indented paragraphs outside of these are code."""
    fields = _fields(described) if what in ("class", "function", "method", "exception") else {}

    def field(head):
        kinds = {fields.get(one) for one in head[1].split(", ")}
        return head[0] if None in kinds else f"\n:{kinds.pop()} {head[1].replace(', ', ',')}: "

    written = []
    for paragraph in "\n".join(lines).split("\n\n"):
        if paragraph.startswith("    "):
            if not written[-1].startswith("    "):
                written.append("::")
            written.append(paragraph)
            continue
        text = paragraph if paragraph.startswith(">>>") else paragraph.replace("|", "\\|")
        before, *rest = re.sub(r"(?:^|(?<=\n)|(?<=[.;] ))(\w+(?:, \w+)*): (?=\S)", field, text).split("\n:")
        if rest:
            before += "\n\n" + "\n".join(":" + re.sub(r"\s*\n\s*", " ", one) for one in rest)
        written.append(before)
    lines[:] = "\n\n".join(written).split("\n")


def _all_is_described(app, exception):
    """Every public name has its place in the reference."""
    if exception is None:
        described = app.env.domaindata["py"]["objects"]
        public = [f"{module.__name__}.{name}" for module in (qkv, qkv.qk) for name in module.__all__]
        missing = [name for name in public if name not in described]
        if missing:
            raise SphinxError(f"the reference (docs/python*.md) lacks {', '.join(missing)}")


def setup(app):
    app.connect("autodoc-process-docstring", _docstring)
    app.connect("build-finished", _all_is_described)
