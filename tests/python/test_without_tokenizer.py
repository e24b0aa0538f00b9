"""Models whose folder has no tokenizer: images and passes are left, texts are refused with the reason."""

import numpy as np
import pytest
from support import GOLDEN, expected

import qkv


@pytest.fixture
def clip():
    with pytest.warns(qkv.ModelWarning, match="without its tokenizer"):
        return qkv.load(GOLDEN / "hf_clip")


def test_images_of_two_towers_are_read(clip):
    assert clip.embed(np.zeros((40, 40, 3), np.uint8)).ndim == 1


def test_texts_of_two_towers_are_refused(clip):
    with pytest.raises(qkv.Error, match="tokenizer"):
        clip.encode("a cat")
    with pytest.raises(qkv.Error, match="tokenizer"):
        clip.classify(np.zeros((40, 40, 3), np.uint8), prompts=["a", "b"])


def test_ids_go_through_a_text_model():
    with pytest.warns(qkv.ModelWarning, match="without its tokenizer"):
        model = qkv.load(GOLDEN / "text/bert")
    stored = expected("text/bert")
    ids = {name: stored[name] for name in ("input_ids", "attention_mask", "token_type_ids") if name in stored}
    tokens = model.forward(**ids)["tokens"]
    assert tokens.shape == stored["tokens"].shape
    with pytest.raises(qkv.Error, match="tokenizer"):
        model.encode("a text")
