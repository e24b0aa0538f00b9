"""Pipelines as objects; test_live_pipelines.py compares their answers with the originals'."""

import numpy as np
import pytest
from support import GOLDEN, expected_json

import qkv


def test_a_pipeline_says_what_it_is(digits):
    classify = qkv.pipeline("image-classification", digits, top_k=2, batch_size=4)
    assert isinstance(classify, qkv.Pipeline)
    assert repr(classify) == "<qkv.Pipeline image-classification: digits, top_k=2, batch_size=4>"
    assert classify.model is digits and classify.task == "image-classification"


def test_a_model_of_another_kind_is_refused_when_it_is_made(digits, open_model):
    with pytest.raises(qkv.Error, match="no model for object-detection; its tasks are image-classification, image-feature"):
        qkv.pipeline("object-detection", digits)
    with pytest.raises(qkv.Error, match="zero-shot"):
        qkv.pipeline("zero-shot-image-classification", digits)
    with pytest.raises(qkv.Error, match="its tasks are zero-shot-image-classification"):
        qkv.pipeline("image-classification", open_model("towers/clip"))
    with pytest.raises(qkv.Error, match="translation"):
        qkv.pipeline("text-generation", open_model("tasks/marian"))


def test_thresholds_are_those_that_are_given(digit_photos, open_model):
    segment = qkv.pipeline("image-segmentation", open_model("segmenter"))
    counts = set()
    for threshold in (0.0, 0.5, 0.99):
        labels = [one["label"] for one in segment(digit_photos[0], threshold=threshold)]
        assert labels == [one.label for one in segment.model.segment(digit_photos[0], threshold=threshold)]
        counts.add(len(labels))
    assert len(counts) > 1
    with pytest.raises(qkv.Error, match="threshold is for instances"):
        segment(digit_photos[0], subtask="semantic", threshold=0.5)


@pytest.mark.parametrize("device", [None, -1, "cpu"])
def test_the_cpu_is_the_device(device, digits):
    assert qkv.pipeline("image-classification", digits, device=device)
    assert qkv.pipeline("image-classification", "digits", device=device, dtype="fp32")


@pytest.mark.parametrize("device", [0, "cuda", "cuda:1", "mps"])
def test_other_devices_are_refused(device, digits):
    with pytest.raises(TypeError, match="CPU"):
        qkv.pipeline("image-classification", digits, device=device)


def test_inputs_of_every_form(digits, digit_photos, open_model):
    classify = qkv.pipeline("image-classification", digits, top_k=3)
    wanted = classify(digit_photos)
    assert len(wanted) == len(digit_photos) and len(wanted[0]) == 3
    assert classify(digit_photos[0]) == wanted[0] and classify([digit_photos[0]]) == [wanted[0]]
    assert len(classify(digit_photos[0], top_k=1)) == 1 and len(classify(digit_photos[0], top_k=None)) == 10
    assert len(classify(digit_photos[0], top_k=1000)) == 10
    assert len(classify(np.zeros((28, 28), np.uint8))) == 3
    given = 0

    def photos():
        nonlocal given
        for photo in digit_photos * 3:
            given += 1
            yield photo

    answers = classify(photos(), batch_size=4)
    assert next(answers) == wanted[0] and given == 4
    assert list(answers) == (wanted * 3)[1:]

    class Dataset:
        def __len__(self):
            return len(digit_photos)

        def __getitem__(self, index):
            return digit_photos[index]  # IndexError ends it

    assert list(classify(Dataset())) == wanted
    texts = expected_json("tasks/gpt2")["texts"][1:3]
    write = qkv.pipeline("text-generation", open_model("tasks/gpt2"), max_new_tokens=3)
    assert list(write(text for text in texts)) == write(texts)
    translate = qkv.pipeline("translation", open_model("tasks/marian"), max_new_tokens=3)
    assert list(translate(text for text in texts)) == translate(texts)
    for wrong in (5, None, {"a": 1}):
        with pytest.raises(TypeError):
            list(classify(wrong))


def test_unknown_options_are_named(digits):
    with pytest.raises(TypeError, match="did you mean top_k=?"):
        qkv.pipeline("image-classification", digits, topk=3)
    with pytest.raises(TypeError, match="did you mean top_k=?"):
        qkv.pipeline("image-classification", digits)(np.zeros((28, 28), np.uint8), topk=3)
    with pytest.raises(TypeError, match="did you mean dtype=?"):
        qkv.pipeline("image-classification", "digits", dtpye="int8")
    with pytest.raises(TypeError, match="tokenizer: qkv reads it from the model's files"):
        qkv.pipeline("text-generation", "digits", tokenizer="x")
    with pytest.raises(TypeError, match="candidate_labels"):
        qkv.pipeline("zero-shot-image-classification", str(GOLDEN / "towers/clip"))(np.zeros((8, 8), np.uint8))
