"""Images as people hold them, without the originals (test_live_images.py compares them)."""

from pathlib import Path

import numpy as np
import pytest

import qkv


def test_lists_of_paths_in_any_form(digits, digit_photos):
    photos = digit_photos[:3]
    wanted = digits.embed(photos)
    for given in (
        np.array(photos),
        np.array(photos, dtype=object),
        np.array(photos, dtype=np.dtypes.StringDType()),
        tuple(Path(photo) for photo in photos),
        (photo for photo in photos),
        map(Path, photos),
    ):
        assert np.array_equal(digits.embed(given), wanted)


def test_texts_in_any_form(open_model):
    model, texts = open_model("tasks/bert"), ["a dog", "a cat"]
    wanted = model.encode(texts)
    for given in (np.array(texts), np.array(texts, dtype=np.dtypes.StringDType()), tuple(texts), (text for text in texts)):
        assert np.array_equal(model.encode(given), wanted)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_tables(library, digits, digit_photos, open_model):
    module = pytest.importorskip(library)
    photos, texts = digit_photos[:3], ["a dog", "a cat"]
    column = {"pandas": "Series", "polars": "Series", "pyarrow": "array"}[library]
    assert np.array_equal(digits.embed(getattr(module, column)(photos)), digits.embed(photos))
    assert np.array_equal(open_model("tasks/bert").encode(getattr(module, column)(texts)), open_model("tasks/bert").encode(texts))
    frame = module.table({"path": photos}) if library == "pyarrow" else module.DataFrame({"path": photos})
    assert [one.path for one in digits.classify(frame["path"])] == photos
    with pytest.raises(TypeError, match="one of its columns"):
        digits.classify(frame)
    with pytest.raises(TypeError, match="one of its columns"):
        open_model("tasks/bert").encode(frame)
    with pytest.raises(TypeError, match="item 1"):
        open_model("tasks/bert").encode(getattr(module, column)(["a", None]))


def test_what_has_no_order_is_refused(digits, digit_photos, open_model):
    for given in ({digit_photos[0]}, {digit_photos[0]: 1}):
        with pytest.raises(TypeError, match="no order"):
            digits.classify(given)
        with pytest.raises(TypeError, match="no order"):
            open_model("tasks/bert").encode(given)
    with pytest.raises(TypeError, match=r'dataset\["image"\]'):
        digits.classify([{"image": 1}])


def test_a_generator_is_read_as_it_comes(digits):
    made = 0

    def images():
        nonlocal made
        for _ in range(600):
            made += 1
            yield np.zeros((28, 28), np.uint8)

    rows = digits.iter_embed(images())
    assert next(rows)[0] == "image 0" and made < 300
    assert [name for name, _ in rows][-1] == "image 599"
    assert len(digits.classify(images())) == 600


def test_file_objects_are_refused(digits, digit_photos):
    with open(digit_photos[0], "rb") as file, pytest.raises(TypeError, match="read"):
        digits.classify(file)


def test_results_show_themselves(digits, digit_photos, open_model):
    attention = digits.attend(digit_photos[0], query=(2, 3), layers=0)
    picture = attention.image(opacity=0.0, side=256)
    assert max(picture.size) == 256
    framed = np.asarray(picture).reshape(-1, 3).tolist()
    plain = np.asarray(digits.attend(digit_photos[0], layers=0, query="mean").image(opacity=0.0, side=256))
    where = np.argwhere((np.asarray(picture) != plain).any(-1))
    rows, columns = attention.grid
    height, width = plain.shape[0] / rows, plain.shape[1] / columns
    assert where.min(0) == pytest.approx([2 * height, 3 * width], abs=3)
    assert where.max(0) == pytest.approx([3 * height, 4 * width], abs=3)
    assert [255, 255, 255] in framed
    every = digits.attend(digit_photos[0], query=(2, 3), layers=0, page=True, heads="mean")
    assert every.image(opacity=0.0, side=256).tobytes() == picture.tobytes()
    assert open_model("tasks/bert").attend("a cat").image().width > 10
    found = open_model("segmenter").segment(digit_photos[0], task="panoptic", threshold=0.1)
    assert all("counts" not in repr(one) and one.label in repr(one) for one in found)
    with pytest.raises(qkv.Error, match="draw=True"):
        found.image()
    for one in found:
        assert found.mask(one).dtype == bool and found.mask(one).sum() == one.area


def test_folders_that_are_not_there(digit_photos, tmp_path):
    assert qkv.find_images(*digit_photos[:2]) == sorted(digit_photos[:2])
    with pytest.raises(TypeError, match="expected a folder"):
        qkv.find_images()
    for missing in ("/nonexistent", "", tmp_path / "nothing", "a\0b"):
        with pytest.raises(qkv.Error, match="no such folder"):
            qkv.find_images(tmp_path, missing)
    with pytest.raises(qkv.Error, match="no images"):
        qkv.find_images(tmp_path)
