"""The examples of the READMEs and of docstrings run, with small models and drawn digits in place of what they name."""

import doctest
import importlib.util
import pkgutil
import re
import shutil
from pathlib import Path

import numpy
import pytest
import support

import qkv

PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def place(tmp_path, monkeypatch, digit_photos):
    """A folder to work in with the photos and the hub's cache of the examples."""
    snapshots = tmp_path / "hub/models--google--vit-base-patch16-224/snapshots"
    shutil.copytree(support.GOLDEN / "hf_vit", snapshots / "one")
    (snapshots.parent / "refs").mkdir()
    (snapshots.parent / "refs/main").write_text("one")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for folder in ("photos", "examples/digits"):
        (tmp_path / folder).mkdir(parents=True)
        for photo in digit_photos:
            shutil.copy(photo, tmp_path / folder)
    for name in ("cat.jpg", "photo.jpg"):
        shutil.copy(digit_photos[0], tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("file", ["README.md", "python/README.md"])
def test_readme(file, place):
    draw = numpy.random.default_rng(0).standard_normal
    names = {name: draw((1, 2, 5, 4), numpy.float32) for name in "qkv"} | {"mask": numpy.ones((5, 5), bool)}
    blocks = PYTHON.findall((support.ROOT / file).read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, file, "exec"), names)


def modules_with_examples():
    found = [qkv, *pkgutil.walk_packages(qkv.__path__, "qkv.")]
    files = {}
    for module in found:
        spec = importlib.util.find_spec(getattr(module, "__name__", None) or module.name)
        if spec.origin.endswith(".py") and ">>>" in Path(spec.origin).read_text(encoding="utf-8"):
            files[spec.name] = spec.origin
    return sorted(files)


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstrings(name, place):
    try:
        if importlib.util.find_spec("torchvision_stub"):
            import torchvision_stub  # noqa: F401  (tools/: before torchvision, beside a torch for the CPU alone)
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "qkv").startswith("qkv"):
            raise
        pytest.skip(str(error))
    names = {"qkv": qkv, "numpy": numpy, "name": "google/vit-base-patch16-224"}
    if name == "qkv.torch":
        names |= {"model": module.torch.nn.TransformerEncoderLayer(8, 2), "pixels": module.torch.ones(3, 1, 8)}
    if name == "qkv.transformers":
        names["AutoModel"] = pytest.importorskip("transformers").AutoModel
        names["name"] = str(place / "hub/models--google--vit-base-patch16-224/snapshots/one")
    runner = doctest.DocTestRunner()
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs=names):
        runner.run(test, clear_globs=False)
    assert runner.tries and not runner.failures
