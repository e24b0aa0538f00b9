"""examples/python/photo_map.py, on drawn digits of which two are there twice."""

import os
import random
import subprocess
import sys

import numpy as np
import pytest
from support import ROOT, environment

for package in ("sklearn", "umap", "matplotlib"):
    pytest.importorskip(package)
import PIL.Image  # noqa: E402

sys.path.insert(0, str(ROOT / "tools"))
from draw_digits import draw  # noqa: E402


def test_duplicates_clusters_and_a_map(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in [f"{digit}-{number:02}" for digit in range(10) for number in range(12)]:
        ink = np.array(draw(int(name[0]), random.Random(name)))
        paper, pen = ((255, 0), (0, 255))[int(name[2:]) % 2]
        PIL.Image.fromarray(np.uint8(np.round(paper + (pen - paper) * ink))).save(folder / f"{name}.png")
    for name in ("3-01", "7-10"):
        with PIL.Image.open(folder / f"{name}.png") as digit:
            digit.resize((digit.width * 3 // 4,) * 2).save(folder / f"{name}-small.jpg", quality=80)
    (folder / "broken.png").write_bytes(b"no image")
    script = ROOT / "examples/python/photo_map.py"
    command = [sys.executable, script, "digits", "photos", "-o", "map.png", "--similarity", "0.9995", "--cluster", "6"]
    variables = environment(NUMBA_CACHE_DIR=os.fspath(tmp_path))
    done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "122 photos, vectors of 96 numbers; 1 files could not be read"
    duplicates = [line.split() for line in lines if line.startswith("   ")]
    for name in ("3-01", "7-10"):
        both = {f"photos/{name}.png", f"photos/{name}-small.jpg"}
        assert any(both <= set(group) for group in duplicates), done.stdout
    assert 9 <= sum(line.startswith("cluster ") for line in lines) <= 12
    with PIL.Image.open(tmp_path / "map.png") as picture:
        assert picture.size == (800, 800) and len(picture.convert("RGB").getcolors(10**6)) > 100
