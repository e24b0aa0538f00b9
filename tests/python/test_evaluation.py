"""qkv.evaluate: the numbers of `qkv evaluate`."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import environment

import qkv


@pytest.fixture(scope="module")
def labelled(digit_photos, tmp_path_factory):
    """Photos of digits by class."""
    folder = tmp_path_factory.mktemp("labelled")
    for photo in digit_photos:
        (folder / Path(photo).name[0]).mkdir(exist_ok=True)
        shutil.copy(photo, folder / Path(photo).name[0])
    return folder


def test_images_as_the_program(digits, labelled, tmp_path):
    evaluated = qkv.evaluate(digits, labelled)
    done = subprocess.run(
        [sys.executable, "-m", "qkv", "evaluate", labelled, "--json"], env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)
    assert {name: evaluated.numbers[name] for name in expected} == expected
    assert evaluated.accuracy == expected["top1"] and f"top1 {expected['top1']:.4g}" in repr(evaluated)
    answers = digits.classify(labelled, top=1)
    assert evaluated.accuracy == np.mean([one[0].label == Path(one.path).parent.name for one in answers])
    assert evaluated.confusion.sum() == len(answers) and evaluated.classes[0]["name"] == "0"
    evaluated.save(tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "data:image/svg+xml" in evaluated._repr_html_()


def test_a_run_on_a_task(tmp_path):
    run = qkv.train("task:copy", out=tmp_path / "run", steps=60, batch=16, threads=1)
    evaluated = qkv.evaluate(tmp_path / "run", "task:copy")
    assert evaluated.accuracy > 0.9 and evaluated.numbers["sequences"] > 0 and "qkv.Evaluated" in repr(evaluated)
    for wanted in (lambda: evaluated.confusion, lambda: evaluated.save(tmp_path / "page.html")):
        with pytest.raises(qkv.Error, match="only an evaluation of images"):
            wanted()
    assert "<img" not in evaluated._repr_html_() and run.path in evaluated.model


def test_pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"eins {i} zwei\tone {i} two\n" for i in range(60)))
    run = qkv.train(
        tmp_path / "pairs.tsv", out=tmp_path / "run", steps=2, width=16, depth=1, heads=2, batch=256, vocabulary=300, threads=1
    )
    evaluated = qkv.evaluate(run.model(), tmp_path / "pairs.tsv", split="val", num_beams=1)
    assert 0 <= evaluated.accuracy <= 1
    assert evaluated.numbers["lines"] == 6 and 0 <= evaluated.numbers["bleu"] <= 100


def test_errors_say_what_to_do(digits, labelled, open_model):
    with pytest.raises(qkv.Error, match="nowhere"):
        qkv.evaluate(digits, "/nowhere")
    with pytest.raises(qkv.Error, match="split|there is no"):
        qkv.evaluate(digits, labelled, split="test")
    with pytest.raises(qkv.Error, match="evaluate"):
        qkv.evaluate(open_model("tasks/bert"), labelled)
