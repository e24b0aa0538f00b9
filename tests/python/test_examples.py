"""The examples of the READMEs, of docstrings and of the notebooks' cells that the site does not execute run, with small models
and drawn digits in place of what they name."""

import doctest
import importlib.util
import os
import pkgutil
import re
import shutil
from pathlib import Path

import numpy
import pytest
import support

import qkv

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"^```{code-cell}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKIPPED = ":tags: [skip-execution]\n"
HUB = {
    "google/vit-base-patch16-224": support.ROOT / "models/digits",
    "facebook/dinov2-small": support.GOLDEN / "hf_dinov2",
}


@pytest.fixture
def place(tmp_path, monkeypatch, digit_photos):
    """A folder to work in with the photos and the hub's cache of the examples."""
    for name in (*HUB, "openai/clip-vit-base-patch32"):
        repository = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (repository / "snapshots/one").mkdir(parents=True)
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text("one")
        if name in HUB:
            shutil.copytree(HUB[name], repository / "snapshots/one", dirs_exist_ok=True)
        else:
            support.with_numbered_tokenizer("hf_clip", repository / "snapshots/one")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for photo in digit_photos:
        for folder in ("examples/digits", f"photos/{Path(photo).name[0]}"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            shutil.copy(photo, tmp_path / folder)
    for name in ("cat.jpg", "photo.jpg"):
        shutil.copy(digit_photos[0], tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names_of_examples(photos):
    draw = numpy.random.default_rng(0).standard_normal
    arrays = {name: draw((1, 2, 5, 4), numpy.float32) for name in "qkv"}
    arrays["x"] = draw((5, 96), numpy.float32)
    return arrays | {"mask": numpy.ones((5, 5), bool), "paths": photos, "labels": [Path(p).name[0] for p in photos]}


@pytest.mark.parametrize("file", ["README.md", "python/README.md"])
def test_readme(file, place, digit_photos):
    names = names_of_examples(digit_photos)
    missing = []
    for block in PYTHON.findall((support.ROOT / file).read_text(encoding="utf-8")):
        try:
            exec(compile(block, file, "exec"), names)
        except ImportError as error:
            if "pip install" not in str(error):
                raise
            missing.append(str(error))
    assert "model" in names
    if missing:
        pytest.skip(f"all blocks ran but those that lack a package: {'; '.join(missing)}")


def modules_with_examples():
    found = [qkv.__name__, *(module.name for module in pkgutil.walk_packages(qkv.__path__, "qkv."))]
    files = {name: importlib.util.find_spec(name).origin for name in found}
    return [name for name, file in files.items() if file.endswith(".py") and ">>>" in Path(file).read_text("utf-8")]


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name, place, digit_photos):
    if name == "qkv.torch":
        torch = pytest.importorskip("torch")
        names = {"model": torch.nn.TransformerEncoderLayer(8, 2), "pixels": torch.ones(3, 1, 8)}
    elif name == "qkv.transformers":
        pytest.importorskip("torch")
        if importlib.util.find_spec("torchvision_stub"):
            import torchvision_stub  # noqa: F401  (tools/: before torchvision, beside a torch for the CPU alone)
        names = {"AutoModel": pytest.importorskip("transformers").AutoModel, "name": str(support.GOLDEN / "hf_vit")}
    elif name == "qkv.sklearn":
        names = {"HDBSCAN": pytest.importorskip("sklearn.cluster").HDBSCAN}
        names["make_pipeline"] = importlib.import_module("sklearn.pipeline").make_pipeline
    else:
        names = {}
    module = importlib.import_module(name)
    names |= {"qkv": qkv, "numpy": numpy} | names_of_examples(digit_photos)
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names):
        runner.run(test, clear_globs=False)
    assert runner.tries and not runner.failures


def test_cells_that_need_a_model(place):
    cells = CELL.findall((support.ROOT / "docs/notebooks/search-photos.md").read_text(encoding="utf-8"))
    names = {"np": numpy, "qkv": qkv}
    exec(next(cell for cell in cells if cell.startswith("def search")), names)
    names["show"] = lambda found: [os.stat(path) for path, _ in found]
    skipped = [cell.removeprefix(SKIPPED) for cell in cells if cell.startswith(SKIPPED)]
    assert skipped
    for cell in skipped:
        exec(cell, names)
