"""Bad input gives qkv.Error or TypeError with a message that says what to do, and never ends the interpreter."""

import inspect
import pickle
import re
import warnings

import numpy as np
import pytest
from support import GOLDEN, run_python

import qkv

GREY = np.zeros((28, 28), dtype=np.uint8)


@pytest.fixture
def broken(tmp_path):
    """A file with the name of an image that is none."""
    file = tmp_path / "broken.png"
    file.write_bytes(b"no image at all")
    return file


def test_error_is_a_value_error_of_the_package():
    assert issubclass(qkv.Error, ValueError)
    assert f"{qkv.Error.__module__}.{qkv.Error.__name__}" == "qkv.Error"
    assert pickle.loads(pickle.dumps(qkv.Error("x"))).args == ("x",)


LOADS = [
    ({"path": "/nonexistent/model"}, qkv.Error, "/nonexistent/model"),
    ({"path": "nobody/no-such-model"}, qkv.Error, "nobody/no-such-model"),
    ({"path": ""}, qkv.Error, None),
    ({"path": None}, TypeError, None),
    ({"path": 5}, TypeError, None),
    ({"path": b"/nonexistent"}, (qkv.Error, TypeError), None),
    ({"dtype": "fp13"}, qkv.Error, "expected fp32, bf16, int8 or auto, got fp13"),
    ({"dtype": np.float16}, qkv.Error, "expected fp32, bf16, int8 or auto"),
    ({"threads": 0}, qkv.Error, "threads: expected at least 1, got 0"),
    ({"threads": -4}, qkv.Error, "threads: expected at least 1, got -4"),
    ({"threads": "two"}, TypeError, None),
    ({"cache": "always"}, qkv.Error, "cache"),
    ({"pool": "median"}, qkv.Error, "median"),
    ({"size": 0}, qkv.Error, None),
    ({"size": (28,)}, TypeError, None),
    ({"size": "big"}, TypeError, None),
    ({"labels": "/nonexistent/labels.txt"}, (qkv.Error, OSError), "labels.txt"),
    ({"heads": "three"}, TypeError, "heads"),
    ({"heads": None}, TypeError, "heads"),
    ({"architecture": 5}, TypeError, "architecture"),
    ({"mean": "grey"}, TypeError, "mean"),
    ({"crop_pct": []}, TypeError, "crop_pct"),
    ({"nonsense": 3}, TypeError, "there is no nonsense="),
    ({"dtpye": "int8"}, TypeError, "there is no dtpye=; did you mean dtype=?"),
    ({"architectur": "x"}, TypeError, "did you mean architecture=?"),
    ({"img_sizes": 3}, TypeError, "did you mean img_size=?"),
    ({"img_size": object()}, TypeError, "img_size"),
    ({"img_size": 2**70}, TypeError, "img_size"),
    ({"hidden_size": 3}, qkv.Error, "hidden_size: expected one of img_size"),
    ({"device": "cuda"}, TypeError, "CPU"),
]


@pytest.mark.parametrize("given,error,message", LOADS, ids=lambda value: str(value)[:40])
def test_wrong_arguments_of_load(given, error, message):
    with pytest.raises(error) as raised:
        qkv.load(**{"path": GOLDEN / "timm_vit", **given})
    assert str(raised.value)
    if message:
        assert message in str(raised.value)


def damaged(name, file, change, folder):
    """A golden with one file changed."""
    for one in (GOLDEN / name).iterdir():
        if one.is_file():
            data = one.read_bytes()
            (folder / one.name).write_bytes(change(data) if one.name == file else data)
    return folder


@pytest.mark.parametrize(
    "file,change,message",
    [
        ("config.json", lambda data: data[: len(data) // 2], "config.json"),
        ("config.json", lambda data: b"[]", "config.json"),
        ("config.json", lambda data: b"\xff\xfe", "config.json"),
        ("config.json", lambda data: b'{"model_type": "swin"}', "swin"),
        ("config.json", lambda data: re.sub(rb'"hidden_size": \d+', b'"hidden_size": -1', data), "hidden_size"),
        ("model.safetensors", lambda data: data[:-10], "model.safetensors"),
        ("model.safetensors", lambda data: b"", "model.safetensors"),
        ("model.safetensors", lambda data: data.replace(b"cls_token", b"cls_tokem"), "cls_token"),
        ("preprocessor_config.json", lambda data: b"{", "preprocessor_config.json"),
    ],
)
def test_damaged_files_are_named(file, change, message, tmp_path):
    with pytest.raises(qkv.Error) as raised:
        qkv.load(damaged("hf_vit_labels" if file.startswith("pre") else "hf_vit", file, change, tmp_path))
    assert message in str(raised.value)


def test_unknown_settings_are_refused_by_strict(tmp_path):
    folder = damaged("hf_vit", "config.json", lambda data: data.replace(b"{", b'{"novelty": 1,', 1), tmp_path)
    assert qkv.load(folder)
    with pytest.raises(qkv.Error, match="novelty"):
        qkv.load(folder, strict=True)


IMAGES = [
    (None, TypeError, "NoneType"),
    (5, TypeError, "int"),
    ("/nonexistent.png", qkv.Error, "/nonexistent.png"),
    ("", qkv.Error, None),
    ("a\0b", (qkv.Error, TypeError), None),
    (b"", qkv.Error, "image 0"),
    (b"no image", qkv.Error, "image 0"),
    ([None], TypeError, "NoneType"),
    ([GREY, 5], TypeError, "int"),
    ([[GREY]], TypeError, "list"),
    (np.zeros((28, 28)), TypeError, "expected uint8"),
    (np.zeros((28, 28), dtype=bool), TypeError, "expected uint8"),
    (np.zeros((3, 28, 28), dtype=np.uint8), qkv.Error, "transpose"),
    (np.zeros((3, 28, 28), dtype=np.uint8), qkv.Error, "array[..., None]"),
    (np.zeros((6, 28, 28), dtype=np.uint8), qkv.Error, "try array[..., None]"),
    ([np.zeros((3, 28, 28), dtype=np.uint8)], qkv.Error, "item 0: an array [3, 28, 28]"),
    (np.zeros((28, 28, 5), dtype=np.uint8), qkv.Error, "channels"),
    (np.zeros((0, 28), dtype=np.uint8), qkv.Error, None),
    (np.zeros((28, 0, 3), dtype=np.uint8), qkv.Error, None),
    (np.zeros(28, dtype=np.uint8), qkv.Error, "axes"),
    (np.array("x"), TypeError, None),
    (object(), TypeError, "object"),
    (float, TypeError, None),
]


@pytest.mark.parametrize("images,error,message", IMAGES, ids=lambda value: re.sub(r"\s+", " ", str(value))[:30])
@pytest.mark.parametrize("method", ["classify", "embed", "preprocess", "attend", "iter_embed"])
def test_what_is_no_image(method, images, error, message, digits):
    with pytest.raises(error) as raised:
        answer = getattr(digits, method)(images)
        if method == "iter_embed":
            list(answer)
    assert str(raised.value)
    if message:
        assert message in str(raised.value)


CALLS = [
    ("digits", "classify", {"images": GREY, "top": "many"}, "top"),
    ("digits", "classify", {"images": GREY, "prompts": ["a"]}, None),
    ("digits", "classify", {"images": GREY, "batch_size": -1}, "batch"),
    ("digits", "classify", {"images": GREY, "on_error": "ignore"}, "on_error"),
    ("digits", "embed", {"images": []}, "no image"),
    ("digits", "embed", {"images": GREY, "pool": "median"}, "pool"),
    ("digits", "embed", {"images": GREY, "on_error": None}, "on_error"),
    ("digits", "detect", {"images": GREY}, "detect"),
    ("digits", "segment", {"images": GREY}, "segment"),
    ("digits", "caption", {"images": GREY}, "caption"),
    ("digits", "encode", {"sentences": "a"}, None),
    ("digits", "generate", {"prompt": "a"}, "generate"),
    ("digits", "translate", {"texts": "a"}, "translate"),
    ("digits", "tokenize", {"texts": "a"}, "tokenize"),
    ("digits", "attend", {"image_or_text": [GREY, GREY]}, "one image"),
    ("digits", "attend", {"image_or_text": GREY, "layers": 99}, "99"),
    ("digits", "attend", {"image_or_text": GREY, "layers": "first"}, "first"),
    ("digits", "attend", {"image_or_text": GREY, "heads": 99}, "99"),
    ("digits", "attend", {"image_or_text": GREY, "query": (99, 99)}, "99"),
    ("digits", "attend", {"image_or_text": GREY, "query": "nose"}, "nose"),
    ("digits", "attend", {"image_or_text": GREY, "rollout": True, "discard": 2.0}, "discard"),
    ("digits", "attend", {"image_or_text": GREY, "layers": []}, "layers: an empty list"),
    ("digits", "attend", {"image_or_text": GREY, "layers": np.array(0.5)}, "layers"),
    ("digits", "attend", {"image_or_text": GREY, "rollout": True, "discard": np.array([0.1, 0.2])}, "discard"),
    ("digits", "attend", {"image_or_text": GREY, "rollout": True, "discard": float("nan")}, "discard"),
    ("digits", "attend", {"image_or_text": GREY, "max_new_tokens": 3}, "max_new_tokens"),
    ("digits", "classify", {"images": GREY, "top": np.array([1, 2])}, "top: expected a whole number"),
    ("digits", "forward", {}, "give pixels"),
    ("digits", "forward", {"pixels": np.zeros((28, 28))}, None),
    ("digits", "forward", {"pixels": np.zeros((1, 3, 28, 28))}, "[images, 1, height, width]"),
    ("digits", "forward", {"pixels": np.zeros((0, 1, 28, 28))}, None),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 27, 28))}, "27"),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 0, 28))}, None),
    ("digits", "forward", {"pixels": "photo.png"}, None),
    *[("digits", method, {pixels: np.zeros((1, 1, 28, 28), kind)}, f"an array of {kind}, expected floats")
      for method, pixels, kind in [("forward", "pixels", "uint8"), ("forward", "pixels", "int64"), ("run", "inputs", "int64"),
                                   ("run", "inputs", "bool")]],
    ("digits", "run", {"inputs": {"pixels": np.zeros((1, 1, 28, 28), int)}}, "expected floats"),
    ("digits", "run", {"inputs": {"pixel_values": np.zeros((1, 1, 28, 28))}}, "there are pixels, input_ids"),
    ("digits", "run", {"inputs": GREY, "cache": True}, "expected names of activations"),
    ("digits", "run", {"inputs": GREY, "edits": {3: 0}}, "are texts, got 3"),
    ("digits", "classify", {"images": GREY, "templates": ["a {}"]}, "prompts="),
    ("digits", "attend", {"image_or_text": GREY, "heads": []}, "heads: an empty list"),
    ("digits", "attend", {"image_or_text": GREY, "layers": iter(())}, "layers: an empty list"),
    ("digits", "attend", {"image_or_text": GREY, "discard": 0.5}, "rollout"),
    ("tasks/marian", "run", {"inputs": ""}, "run: the text is empty"),
    ("tasks/bert", "run", {"inputs": []}, "run: no text"),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 28, 28)), "outputs": ["scores"]}, "there are"),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 28, 28)), "outputs": ["hidden.99"]}, "99"),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 28, 28)), "outputs": ["attention.-1"]}, None),
    ("digits", "forward", {"pixels": np.zeros((1, 1, 28, 28)), "outputs": [None]}, None),
    ("digits", "forward", {"input_ids": [[1, 2]]}, None),
    ("detector", "detect", {"images": GREY, "threshold": "half"}, "threshold"),
    ("segmenter", "segment", {"images": GREY, "task": "everything"}, "semantic, instance or panoptic"),
    ("segmenter", "segment", {"images": GREY, "task": "semantic", "threshold": 0.5}, "threshold"),
    ("segmenter", "segment", {"images": GREY, "stuff": ["zebra"]}, "zebra"),
    ("segmenter", "segment", {"images": GREY, "stuff": [99]}, "99"),
    ("tasks/bert", "encode", {"sentences": []}, "no text"),
    ("tasks/bert", "encode", {"sentences": None}, None),
    ("tasks/bert", "encode", {"sentences": [None]}, "NoneType"),
    ("tasks/bert", "encode", {"sentences": ["a", 5]}, "int"),
    ("tasks/bert", "encode", {"sentences": b"bytes"}, None),
    ("tasks/bert", "encode", {"sentences": "a", "prompt_name": "query"}, "no prompt 'query'"),
    ("tasks/bert", "encode", {"sentences": "a", "batch_size": -1}, "batch_size"),
    ("tasks/bert", "encode", {"sentences": "x" * 10_000_000}, "expected up to"),
    ("tasks/bert", "encode", {"sentences": "\ud800"}, None),
    ("tasks/bert", "generate", {"prompt": "a"}, "generate"),
    ("tasks/bert", "forward", {"input_ids": [[1, 999_999]]}, "999999"),
    ("tasks/bert", "forward", {"input_ids": [[1, -1]]}, "-1"),
    ("tasks/bert", "forward", {"input_ids": [1, 2]}, None),
    ("tasks/bert", "forward", {"input_ids": [[]]}, None),
    ("tasks/bert", "forward", {"input_ids": [[1, 2]], "attention_mask": [[1]]}, "attention_mask"),
    ("tasks/bert", "forward", {"input_ids": [[1, 2]], "attention_mask": [[0, 0]]}, None),
    ("tasks/bert", "forward", {"attention_mask": [[1, 1]]}, None),
    ("tasks/bert", "forward", {"input_ids": [["a"]]}, None),
    ("tasks/bert", "similarity", {"a": [], "b": []}, "width"),
    ("tasks/bert", "similarity", {"a": np.zeros((2, 3)), "b": np.zeros((2, 4))}, "width"),
    ("tasks/gpt2", "encode", {"sentences": "a"}, None),
    ("tasks/gpt2", "generate", {"prompt": None}, None),
    ("tasks/gpt2", "generate", {"prompt": "a", "temprature": 1.0}, "did you mean temperature=?"),
    ("tasks/gpt2", "generate", {"prompt": "a", "max_new_tokens": -1}, None),
    ("tasks/gpt2", "generate", {"prompt": "a", "max_new_tokens": "ten"}, "max_new_tokens"),
    ("tasks/gpt2", "generate", {"prompt": "a", "max_new_tokens": 2**70}, "max_new_tokens"),
    ("tasks/gpt2", "generate", {"prompt": "a", "temperature": "hot"}, "temperature"),
    ("tasks/gpt2", "generate", {"prompt": "a", "temperature": -1.0}, "temperature"),
    ("tasks/gpt2", "generate", {"prompt": "a", "temperature": float("nan")}, "temperature"),
    ("tasks/gpt2", "generate", {"prompt": "a", "temperature": 1.0, "do_sample": False}, "do_sample"),
    ("tasks/gpt2", "generate", {"prompt": "a", "top_p": 2.0}, "top-p"),
    ("tasks/gpt2", "generate", {"prompt": "a", "num_beams": 0}, None),
    ("tasks/gpt2", "generate", {"prompt": "a", "seed": -1}, "seed"),
    ("tasks/gpt2", "translate", {"texts": "a"}, "translate"),
    ("tasks/marian", "translate", {"texts": None}, None),
    ("tasks/marian", "translate", {"texts": [None]}, None),
    ("tasks/marian", "translate", {"texts": "a", "batch_size": -1}, "batch"),
    ("tasks/marian", "translate", {"texts": "a " * 3000}, "cut"),
    ("tasks/marian", "generate", {"prompt": "a"}, "generate"),
    ("tasks/marian", "summarize", {"texts": "a"}, "(by its configuration or card), or prefix=; its methods are translate"),
    ("tasks/vit_gpt2", "caption", {"images": GREY, "num_beams": "a"}, "num_beams"),
    ("towers/clip", "classify", {"images": GREY}, "prompts=["),
    ("towers/clip", "classify", {"images": GREY, "prompts": []}, "prompts"),
    ("towers/clip", "classify", {"images": GREY, "prompts": ["a"], "templates": ["no place"]}, "{}"),
    ("towers/clip", "classify", {"images": GREY, "prompts": "cat"}, "prompts"),
]


@pytest.mark.parametrize("name,method,given,message", CALLS, ids=lambda value: re.sub(r"\s+", " ", str(value))[:40])
def test_wrong_arguments_of_methods(name, method, given, message, open_model):
    model = open_model(name)
    with pytest.raises((ValueError, TypeError)) as raised:
        getattr(model, method)(**given)
    assert raised.type in (qkv.Error, TypeError)
    if message:
        assert message in str(raised.value)
    if not isinstance(raised.value, TypeError):
        assert "std::" not in str(raised.value)


def test_unknown_keywords_are_answered_with_the_nearest(digits):
    methods = [getattr(digits, name) for name in dir(qkv.Model) if not name.startswith("_")
               and inspect.isfunction(getattr(qkv.Model, name))]  # fmt: skip
    assert {"classify", "encode", "attend", "chat", "explore", "iter_embed"} <= {one.__name__ for one in methods}
    for method in [*methods, digits.attend(GREY).png]:
        for name, parameter in inspect.signature(method).parameters.items():
            known = "num_beams" if parameter.kind == parameter.VAR_KEYWORD else name
            with pytest.raises(TypeError) as raised:
                method(**{known + "x": 1})
            assert str(raised.value) == f"{method.__name__}: there is no {known}x=; did you mean {known}=?"
    with pytest.raises(TypeError, match="there is no layer=; did you mean layers=?"):
        digits.attend(GREY, layer=1)
    with pytest.raises(TypeError, match="there are images, top, "):
        digits.classify(GREY, zzzzz=1)


def test_pictures_of_attention_need_numbers_that_mean_something(digits):
    attention = digits.attend(GREY)
    for style in ({"opacity": 7}, {"opacity": -0.1}, {"opacity": float("nan")}, {"side": 0}, {"upsampling": "best"}):
        for draw in (attention.png, attention.image, lambda **style: attention.save("/nonexistent/x.png", **style)):
            with pytest.raises(qkv.Error, match=next(iter(style))):
                draw(**style)


def test_errors_of_python_name_the_class_that_people_know(digits):
    for method in (digits.classify, digits.encode, digits.attend):
        with pytest.raises(TypeError, match=rf"^Model\.{method.__name__}\(\) missing 1"):
            method()
        with pytest.raises(TypeError, match=rf"^Model\.{method.__name__}\(\) takes "):
            method(*range(9))


def test_a_model_that_cannot_do_it_says_which_can_and_what_it_does(digits, open_model):
    with pytest.raises(qkv.Error) as raised:
        digits.detect(GREY)
    assert str(raised.value) == (
        "detect: the built-in digit classifier is an image model, expected YOLOS; "
        "its methods are classify, embed, attend, forward, run"
    )
    with pytest.raises(qkv.Error, match="expected a decoder .*; its methods are translate, attend, forward, run"):
        open_model("tasks/marian").generate("a")


ABILITIES = {
    "digits": ["classify", "embed", "attend", "forward", "run"],
    "towers/clip": ["classify", "embed", "encode", "attend", "forward", "run"],
    "detector": ["embed", "detect", "attend", "forward", "run"],
    "tasks/vit_gpt2": ["embed", "caption", "attend", "forward", "run"],
    "tasks/bert": ["encode", "attend", "forward", "run"],
    "tasks/gpt2": ["generate", "attend", "forward", "run"],
    "tasks/marian": ["translate", "attend", "forward", "run"],
}


@pytest.mark.parametrize("name", ABILITIES)
def test_abilities_are_methods(name, open_model):
    model = open_model(name)
    assert model.abilities == ABILITIES[name]
    assert all(callable(getattr(model, method)) for method in model.abilities)


def test_the_engine_speaks_of_keywords():
    from qkv._wording import in_keywords

    for message, ours in [
        ("give --mean and --std (0.5 and 0.5), or --architecture", "give mean= and std= (0.5 and 0.5), or architecture="),
        ("checkpoint: --heads 99 contradicts it; leave it out", "checkpoint: heads=99 contradicts it; leave it out"),
        ("use the mean of the patches (--pool mean)", 'use the mean of the patches (pool="mean")'),
        ("--architecture NAME, such as x", 'architecture="NAME", such as x'),
        ("such as --set image_size=256 --set dim_head=64, or", "such as image_size=256, dim_head=64, or"),
        ("--set dtpye: expected one of a, b", "dtpye: expected one of a, b"),
        ("a dash--in a word, and --", "a dash--in a word, and --"),
        ("for boxes of objects try: qkv detect", "for boxes of objects try: model.detect"),
        ("3 tokens; --cut cuts it in pieces", "3 tokens; cut=True cuts it in pieces"),
        ("fetch it with: hf download a/b --revision c", "fetch it with: hf download a/b --revision c"),
        ("fewer by --layer or --head", "fewer by layers= or heads="),
        ("would take 3 GB; --max-memory sets another limit", "would take 3 GB; qkv.set_memory_limit sets another"),
    ]:
        assert in_keywords(message) == ours


def test_an_unreadable_image_raises_with_its_name(digits, digit_photos, broken):
    for call in (digits.classify, digits.embed, digits.preprocess, lambda images: list(digits.iter_embed(images))):
        with pytest.raises(qkv.Error, match="broken.png"):
            call([digit_photos[0], broken, digit_photos[1]])


def test_unreadable_images_are_left_out_on_request(digits, open_model, digit_photos, broken, caplog):
    images = [broken, digit_photos[0], str(broken), digit_photos[1], b"no image"]
    with caplog.at_level("INFO", "qkv"):
        answers = digits.classify(images, on_error="skip")
    assert [one.path for one in answers] == digit_photos[:2]
    assert caplog.text.count("broken.png") == 2 and "image 4" in caplog.text
    assert digits.embed(images, on_error="skip").shape == (2, digits.dimension)
    assert [path for path, _ in digits.iter_embed(images, on_error="skip")] == digit_photos[:2]
    for name, method in (("detector", "detect"), ("segmenter", "segment"), ("tasks/vit_gpt2", "caption")):
        answers = getattr(open_model(name), method)(images, on_error="skip")
        assert [one.path for one in answers] == digit_photos[:2]


def test_all_images_left_out(digits, broken):
    assert digits.classify([broken, broken], on_error="skip") == []
    assert digits.embed([broken], on_error="skip").shape == (0, digits.dimension)
    assert list(digits.iter_embed([broken], on_error="skip")) == []
    with pytest.raises(qkv.Error, match="left out"):
        digits.classify(broken, on_error="skip")
    with pytest.raises(qkv.Error, match="left out"):
        digits.embed(broken, on_error="skip")


def test_no_image_is_no_answer(digits, tmp_path):
    assert digits.classify([]) == []
    assert list(digits.iter_embed(iter([]))) == []
    with pytest.raises(qkv.Error):
        digits.classify(tmp_path)


def model_that_warns(folder):
    """A model whose configuration ties the head, with another one stored."""
    from support import with_numbered_tokenizer

    with_numbered_tokenizer("text/llama", folder)
    config = (folder / "config.json").read_text()
    (folder / "config.json").unlink()
    (folder / "config.json").write_text(config.replace('"tie_word_embeddings": false', '"tie_word_embeddings": true'))
    return folder


def test_a_contradiction_in_the_files_is_a_warning(tmp_path):
    folder = model_that_warns(tmp_path)
    with pytest.warns(qkv.ModelWarning, match="ties") as caught:
        qkv.load(folder)
    assert caught[0].filename == __file__


def test_warnings_as_errors_end_the_call(tmp_path):
    folder = model_that_warns(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(qkv.ModelWarning, match="ties"):
            qkv.load(folder)


def test_an_exception_of_the_progress_ends_the_call(digits, digit_photos, monkeypatch):
    import contextlib

    import qkv._progress

    class Enough(Exception):
        pass

    def stop(done):
        raise Enough

    @contextlib.contextmanager
    def bar(*_):
        yield stop

    monkeypatch.setattr(qkv._progress, "bar", bar)
    for call in (digits.classify, digits.embed, lambda images: list(digits.iter_embed(images))):
        with pytest.raises(Enough):
            call(digit_photos)
    monkeypatch.undo()
    assert len(digits.classify(digit_photos)) == len(digit_photos), "the next call works"


def test_progress_counts_every_image(digits, digit_photos, capsys):
    pytest.importorskip("tqdm")
    digits.classify(digit_photos, progress=True)
    assert f"{len(digit_photos)}/{len(digit_photos)}" in capsys.readouterr().err
    digits.classify(digit_photos, progress=False)
    digits.classify(digit_photos)
    assert capsys.readouterr().err == ""


FUZZ = """
import inspect, re, sys
from pathlib import Path
import numpy as np
import qkv

class Shaped:
    shape, dtype = (4, 4, 3), "uint8"

class Path2:
    def __fspath__(self):
        return b"/x"

VALUES = [None, True, -1, 0, 2**31, 2**63, 10**30, 0.5, float("nan"), float("inf"), 1j, "", "x", "a\\0b", "\\ud800",
          b"", b"x", bytearray(b"x"), memoryview(b"abc"), [], [None], [1], ["x"], [[]], (), (1, 2), (-1, -1), {},
          {"a": 1}, {1}, iter([]), object(), Shaped(), Path2(), int, len, Ellipsis, Exception("x"), np.zeros(0),
          np.zeros((0, 0, 3), np.uint8), np.zeros((3, 3, 5), np.uint8), np.zeros((3, 3), np.float32),
          np.zeros((2, 3, 3, 3), np.uint8), np.zeros((1, 2, 3, 3, 3), np.uint8), np.array("x"), np.array([None]),
          np.int64(3), np.float32(1), np.bool_(True), np.zeros(3, [("a", "i4")]), Path("/nonexistent")]
GENERATION = ["max_new_tokens", "temperature", "top_k", "top_p", "num_beams", "seed", "do_sample", "cut", "nonsense"]
PIXELS = np.zeros((8, 8), np.uint8)
NEEDED = {"ids": [1], "messages": [{"role": "user", "content": "a"}], "images": PIXELS, "image": PIXELS, "inputs": PIXELS,
          "image_or_text": PIXELS, "sentences": "a", "texts": "a", "prompt": "a", "a": [[1.0]], "b": [[1.0]]}
calls = wrong = 0
# Options of the program, its commands, and what nanobind says of arguments that do not fit.
FOREIGN = re.compile(r"(^|[ (])--?[a-z]|\\bqkv [a-z]+ -|incompatible function arguments|std::|bad_cast")

def attempt(work, label):
    global calls, wrong
    calls += 1
    try:
        answer = work()
        if hasattr(answer, "__next__"):
            list(answer)
    except (ValueError, TypeError, OverflowError) as error:
        if not str(error) or FOREIGN.search(str(error)):
            wrong += 1
            print(label, "empty" if not str(error) else error)
    except Exception as error:
        wrong += 1
        print(label, type(error).__name__, error)

for path in sys.argv[1:]:
    model = qkv.load(path)
    texts = "embed" not in model.abilities
    for name, method in inspect.getmembers(type(model), inspect.isfunction):
        if name.startswith("_"):
            continue
        method = getattr(model, name)
        parameters = inspect.signature(method).parameters.values()
        named = [p.name for p in parameters if p.kind != p.VAR_KEYWORD]
        required = [p.name for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
        free = GENERATION if len(named) < len(parameters) else []
        for key in named + free:
            for value in VALUES:
                given = {one: NEEDED[one] for one in required}
                if name in ("attend", "run") and texts:
                    given[required[0]] = "a"
                if free and (name != "attend" or texts):
                    given["max_new_tokens"] = 2
                given[key] = value
                attempt(lambda: method(**given), (path, name, key, repr(value)[:40]))
image = qkv.load("digits").attend(np.zeros((28, 28), np.uint8))
text = qkv.load(sys.argv[2]).attend("a")
q = np.zeros((1, 2, 3, 4), np.float32)
rows = np.zeros((1, 2, 3), np.float32)
FUNCTIONS = [(qkv.load, {"path": sys.argv[1]}), (qkv.find_images, {"folders": sys.argv[3]}), (image.png, {}),
             (image.image, {}), (image.save, {"file": "/nonexistent/x.png"}), (text.save, {"file": "/nonexistent/x.png"}),
             (qkv.attention, {"q": q, "k": q, "v": q}), (qkv.set_num_threads, {"threads": 0}),
             (qkv.attention_backward, {"q": q, "k": q, "v": q, "out": q, "lse": rows, "dout": q}),
             (qkv.set_memory_limit, {"limit": 0}), (qkv.pipeline, {"task": "image-classification", "model": "digits"})]
w = np.random.default_rng(0).standard_normal((6, 8)).astype(np.float32)
pair, files, none = {"w_q": w, "w_k": w, "heads": 2}, {"model": "digits"}, {"model": "/nonexistent", "out": "/nonexistent/x"}
FUNCTIONS += [(qkv.qk.merge, pair), (qkv.qk.split, {"m": qkv.qk.merge(**pair)}), (qkv.qk.regauge, pair),
              (qkv.qk.truncate, {**pair, "rank": 2}), (qkv.qk.directions, pair), (qkv.qk.spectra, pair),
              (qkv.qk.weights, {**files, "block": 0}), (qkv.qk.certificate, {**files, "rank": 2}),
              (qkv.qk.plan_model, files), (qkv.qk.merge_model, none), (qkv.qk.truncate_model, {**none, "rank": 2}),
              (qkv.edits.symmetry, {"t": 0}), (qkv.edits.rank, {"r": 2}), (qkv.edits.gauge, {}),
              (qkv.evaluate, {"model": "/nonexistent", "data": "/nonexistent"}),
              (qkv.train, {"data": "/nonexistent", "out": "/nonexistent/x"}),
              (qkv.ablate, {"data": "/nonexistent", "out": "/nonexistent/x"})]
for function, needed in FUNCTIONS:
    keys = [p.name for p in inspect.signature(function).parameters.values() if p.kind != p.VAR_KEYWORD]
    keys += {"load": ["heads", "architecture", "mean", "crop_pct", "x"], "pipeline": ["top_k", "device"]}.get(
        function.__name__, [])
    for key in keys:
        for value in VALUES:
            given = {**needed, key: value}
            if function is qkv.find_images:
                attempt(lambda: function(value), (function.__name__, key, repr(value)[:40]))
            elif function not in (qkv.set_num_threads, qkv.set_memory_limit) or not hasattr(value, "__index__"):
                attempt(lambda: function(**given), (function.__name__, key, repr(value)[:40]))
print(calls, wrong)
assert calls > 30_000 and wrong == 0
"""


def test_wrong_types_of_every_argument_never_end_the_interpreter():
    models = [GOLDEN / name for name in ("timm_vit", "tasks/gpt2", "towers/clip")]
    done = run_python(FUZZ, *models, "digits")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_memory_limit_is_an_error():
    done = run_python("""
import numpy as np, qkv
model = qkv.load("digits")
qkv.set_memory_limit(1 << 20)
try:
    model.forward(np.zeros((100_000, 1, 28, 28), dtype=np.float32), outputs=["tokens"])
except qkv.Error as error:
    print(error)
qkv.set_memory_limit(1 << 33)
model.classify(np.zeros((28, 28), dtype=np.uint8))
""")
    assert done.returncode == 0, done.stderr
    assert "memory" in done.stdout.lower()


@pytest.mark.parametrize("value", [0, -1, "two", None, 10**30])
def test_wrong_numbers_of_threads_are_refused(value):
    with pytest.raises((qkv.Error, TypeError)):
        qkv.set_num_threads(value)


def test_a_folder_without_images_is_named(tmp_path):
    with pytest.raises(qkv.Error, match=re.escape(str(tmp_path))):
        qkv.find_images(tmp_path)
