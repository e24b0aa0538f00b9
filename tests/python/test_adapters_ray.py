"""qkv.ray on a local Ray of several processes: vectors, resumption, what cannot be read, weights that actors share."""

import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from support import GOLDEN, ROOT, environment

import qkv

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
ray = pytest.importorskip("ray")
pytest.importorskip("ray.data")
pyarrow = pytest.importorskip("pyarrow")
import pyarrow.parquet  # noqa: E402

from qkv.ray import _Images, _Worker, embed_images, embed_texts  # noqa: E402

BERT = str(GOLDEN / "tasks/bert")


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory):
    variables = {"PYTHONPATH": environment()["PYTHONPATH"], "QKV_CACHE": str(tmp_path_factory.mktemp("cache"))}
    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100_000_000, runtime_env={"env_vars": variables})
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield variables["QKV_CACHE"]
    ray.shutdown()


@pytest.fixture
def photos(tmp_path, digit_photos):
    """Twenty photos, and two files that cannot be read."""
    folder = tmp_path / "photos"
    folder.mkdir()
    for photo in digit_photos:
        shutil.copy(photo, folder)
    (folder / "bad.png").write_bytes(b"no image")
    (folder / "cut.png").write_bytes(Path(digit_photos[0]).read_bytes()[:100])
    return folder


def by_key(dataset, key="path"):
    return {row[key]: row for row in dataset.iter_rows()}


def parts(folder):
    return sorted(folder.glob("*.parquet"))


def written(folder, key="path"):
    """The rows in a folder, as any reader of Parquet sees them."""
    rows = [row for file in parts(folder) for row in pyarrow.parquet.read_table(file).to_pylist()]
    assert len({row[key] for row in rows}) == len(rows)
    return {row[key]: row for row in rows}


def test_photos_are_embedded_once_and_what_cannot_be_read_is_told(photos, digits, tmp_path):
    output = tmp_path / "vectors"
    rows = by_key(embed_images(photos, "digits", output, batch_size=6))
    assert sorted(rows) == qkv.find_images(photos)
    good = [path for path in rows if rows[path]["error"] is None]
    assert len(good) == 20 and {Path(path).name for path in set(rows) - set(good)} == {"bad.png", "cut.png"}
    for path in set(rows) - set(good):
        assert path in rows[path]["error"] and np.isnan(rows[path]["embedding"]).all()
    assert np.array_equal([rows[path]["embedding"] for path in good], digits.embed(good))
    assert sorted(written(output)) == sorted(rows)
    assert pyarrow.parquet.read_schema(parts(output)[0]).field("embedding").type == pyarrow.list_(pyarrow.float32(), 96)

    # A stopped run: one file was not finished. A photo that could not be read is whole now, and tried again on request.
    before = {file: file.stat().st_mtime_ns for file in parts(output)}
    lost = next(file for file in parts(output) if file.name.startswith("part-"))
    lost.rename(f"{lost}.1.tmp")
    kept = written(output)
    bad = str(photos / "bad.png")
    shutil.copy(good[0], bad)
    embed_images(photos, "digits", output, batch_size=6, workers=1)
    assert sorted(written(output)) == sorted(rows) and written(output)[bad]["error"] and len(kept) < 22
    assert all(file.stat().st_mtime_ns == changed for file, changed in before.items() if file != lost)
    embed_images(photos, "digits", output, retry=True, workers=1)
    mended = written(output)
    assert mended[bad]["error"] is None and mended[bad]["embedding"] == mended[good[0]]["embedding"]
    assert len(mended) == 22 and mended[str(photos / "cut.png")]["error"]


def test_a_folder_of_other_vectors_is_refused(digit_photos, tmp_path):
    output = tmp_path / "vectors"
    embed_images(digit_photos[:2], "digits", output)
    assert json.loads((output / "settings.json").read_text())["model"] == "digits"
    others = [{"model": model} for model in (str(ROOT / "models/digits-shared"), qkv.load("digits", dtype="bf16"))]
    for options in (*others, {"pool": "mean"}, {"normalize": True}):
        with pytest.raises(qkv.Error, match="other settings"):
            embed_images(digit_photos, **{"model": "digits", "output": output, **options})
    (output / "settings.json").unlink()
    with pytest.raises(qkv.Error, match="without settings"):
        embed_images(digit_photos, "digits", output)


def test_data_sets_keep_their_columns(photos, digits, tmp_path):
    paths = qkv.find_images(photos)
    labelled = ray.data.from_items([{"path": path, "label": i} for i, path in enumerate(paths)])
    lazily = by_key(embed_images(labelled, digits, workers=1))
    assert [lazily[path]["label"] for path in paths] == list(range(22))
    encoded = ray.data.read_binary_files(str(photos), include_paths=True)
    output = tmp_path / "vectors"
    embed_images(encoded, digits, output, column="bytes", key="path", workers=1)
    rows = written(output)
    assert "bytes" not in rows[paths[0]]
    for path in paths:
        assert np.array_equal(rows[path]["embedding"], lazily[path]["embedding"], equal_nan=True)
    embed_images(encoded, digits, output, column="bytes", key="path", workers=1)
    assert len(written(output)) == 22
    with pytest.raises(qkv.Error, match="expected texts"):
        embed_images(encoded, digits, tmp_path / "others", column="bytes")
    arrays = ray.data.from_numpy(np.zeros((3, 28, 28, 3), dtype=np.uint8))
    (row, *_) = embed_images(arrays, digits, column="data", workers=1).take(3)
    assert np.array_equal(row["embedding"], digits.embed(np.zeros((28, 28, 3), dtype=np.uint8)))


def test_texts(open_model, tmp_path):
    model = open_model("tasks/bert")
    texts = ["attention", "a dog", "the house", "a dog", ""]
    embed_texts(texts, BERT, tmp_path / "vectors", prompt="the ", normalize=True, batch_size=2, workers=1)
    rows = written(tmp_path / "vectors", "text")
    assert sorted(rows) == sorted(set(texts))
    for text in rows:
        expected = model.encode(text, prompt="the ", normalize_embeddings=True)
        assert np.allclose(rows[text]["embedding"], expected, atol=1e-6)
    with_none = ray.data.from_arrow(pyarrow.table({"id": ["1", "2"], "text": ["a dog", None]}))
    embed_texts(with_none, BERT, tmp_path / "others", key="id", workers=1)
    rows = written(tmp_path / "others", "id")
    assert rows["1"]["error"] is None and "expected a text" in rows["2"]["error"]


def test_actors_share_one_copy_of_the_weights(cluster, digit_photos):
    source = (str(ROOT / "models/cifar10"), {})
    actors = [ray.remote(_Worker).remote(_Images, source, {}, "path", 1, None) for _ in range(3)]
    table = pyarrow.table({"path": digit_photos})
    tables = ray.get([actor.__call__.remote(table) for actor in actors])
    assert all(found.equals(tables[0]) for found in tables)
    mapped = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            maps = (process / "smaps").read_text()
        except OSError:
            continue
        for area in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", maps):
            if cluster in area.split("\n", 1)[0]:
                mapped.append({name: int(value) for name, value in re.findall(r"(\w+): +(\d+) kB", area)})
    rss, pss = (sum(area[name] for area in mapped) for name in ("Rss", "Pss"))
    print(f"weights of three actors: {rss} kB resident in each together, {pss} kB of memory")
    assert len(mapped) == 3 and 0.3 * rss < pss < 0.4 * rss and sum(area["Private_Dirty"] for area in mapped) == 0


def test_wrong_arguments(digits, digit_photos):
    for arguments, error, words in (
        ((digit_photos, BERT), qkv.Error, "embeds no images"),
        (([b"bytes"], digits), TypeError, "paths or a Dataset"),
    ):
        with pytest.raises(error, match=words):
            embed_images(*arguments)
    with pytest.raises(qkv.Error, match="batch_size"):
        embed_images(digit_photos, digits, batch_size=0)
    with pytest.raises(TypeError, match="one text"):
        embed_texts("attention", BERT)
    with pytest.raises(TypeError, match="got a int"):
        embed_texts([1], BERT)
    with pytest.raises(qkv.Error, match="embeds no texts"):
        embed_texts(["a"], digits)
    with pytest.raises(qkv.Error, match="no column 'file' in the data; there are path"):
        embed_images(ray.data.from_items([{"path": "a"}]), digits, column="file")
