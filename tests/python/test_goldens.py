"""Every model of tests/golden through Python: outputs of a pass against the original's, in its two precisions."""

import json

import numpy as np
import pytest
from support import GOLDEN, assert_as_exact, expected, goldens_in, ids_of, outputs_of, with_numbered_tokenizer, words

import qkv

IMAGES = goldens_in(GOLDEN)
TEXTS = goldens_in(GOLDEN / "text")
CAPTIONS = goldens_in(GOLDEN / "caption")
KNOWN = goldens_in(GOLDEN / "known")
TOWERS = [name for name in IMAGES if ("clip" in name or "siglip" in name) and "input_ids" in expected(name)]
WRITERS = [name for name in TEXTS if "generated.greedy" in expected(f"text/{name}")]

# What Python does not give of a golden, and why.
NOT_GIVEN = {
    "image_embeds": "embed(normalize=True) gives it for images; the goldens have pixels. Compared in test_tasks.py",
    "text_embeds": "compared by `encode`, see below",
    "logits_per_image": "classify gives probabilities of them. Compared in test_tasks.py",
}
NOT_GIVEN_OF_CAPTIONS = ("logits", "tokens", "attention.", "cross_attention.")  # of the decoder: forward takes no pixels with ids
HIDDEN_BY_MASK = "the text cannot say that a token is hidden by the mask"


@pytest.fixture
def open_golden(tmp_path):
    return lambda name: qkv.load(with_numbered_tokenizer(name, tmp_path))


def test_there_are_goldens():
    assert (len(IMAGES), len(TEXTS), len(CAPTIONS), len(KNOWN)) >= (186, 17, 7, 8)
    assert len(TOWERS) >= 10 and len(WRITERS) >= 12


@pytest.mark.parametrize("name", IMAGES)
def test_images_are_those_of_the_original(name, open_golden):
    stored = expected(name)
    model = qkv.load(GOLDEN / name) if name not in TOWERS else open_golden(name)
    wanted = [output for output in outputs_of(stored) if output not in NOT_GIVEN]
    # A model without a classifier calls its vector "pooled".
    named = {} if model.info["classes"] or "detect" in model.abilities else {"logits": "pooled"}
    arrays = model.forward(stored["pixels"], outputs=[named.get(output, output) for output in wanted])
    for output in wanted:
        assert_as_exact(arrays[named.get(output, output)], stored, output)
    assert len(wanted) >= 5


@pytest.mark.parametrize("name", ["timm_distilled", "timm_distilled_features"])
def test_vectors_of_distilled_models_are_the_mean_of_two_tokens(name):
    """As timm's forward_head(…, pre_logits=True)."""
    model = qkv.load(GOLDEN / name)
    image = np.random.default_rng(0).integers(0, 256, (*model.info["image_size"], 3), dtype=np.uint8)
    tokens = model.forward(model.preprocess(image), outputs=["tokens"])["tokens"]
    np.testing.assert_allclose(model.embed(image), tokens[0, :2].mean(0), atol=1e-5)
    np.testing.assert_allclose(model.embed(image, pool="cls"), tokens[0, 0], atol=1e-5)


@pytest.mark.parametrize("name", KNOWN)
def test_published_models_are_as_on_their_cards(name):
    folder = GOLDEN / "known" / name
    settings = json.loads((folder / "settings.json").read_text())
    stored = expected(f"known/{name}")
    model = qkv.load(folder / "pytorch_model.bin", architecture=name, **settings)
    arrays = model.forward(stored["pixels"], outputs=["pooled", "tokens"])
    features = arrays["pooled"]
    if stored["features"].shape[1] > features.shape[1]:  # `forward` gives the class token, `embed` the mean too
        prefix = arrays["tokens"].shape[1] - (stored["pixels"].shape[-1] // model.info["patch_size"][0]) ** 2
        features = np.concatenate([features, arrays["tokens"][:, prefix:].mean(1)], axis=1)
    assert_as_exact(features, stored, "features")


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_those_of_the_original(name, open_golden):
    stored = expected(f"text/{name}")
    model = open_golden(f"text/{name}")
    given = {key: stored[key] for key in ("input_ids", "attention_mask", "token_type_ids", "decoder_input_ids") if key in stored}
    wanted = outputs_of(stored)
    arrays = model.forward(**given, outputs=wanted)
    for output in wanted:
        ours = arrays[output]
        of_source = "decoder_input_ids" not in stored or output.startswith("encoder_")
        if of_source and output != "pooled":  # padded tokens mean nothing, and are zero in the golden
            shown = stored["attention_mask"].astype(bool)
            ours = np.where(shown.reshape(len(shown), *[1] * (ours.ndim - 3), -1, 1), ours, 0)
        assert_as_exact(ours, stored, output)
    assert len(wanted) >= 3


@pytest.mark.parametrize("name", CAPTIONS)
def test_encoders_of_captions_are_those_of_the_original(name, open_golden):
    stored = expected(f"caption/{name}")
    model = open_golden(f"caption/{name}")
    wanted = [output for output in outputs_of(stored) if not output.startswith(NOT_GIVEN_OF_CAPTIONS)]
    assert len(wanted) == 3
    names = {output: output.removeprefix("encoder_") for output in wanted}
    arrays = model.forward(stored["pixels"], outputs=list(names.values()))
    for output in wanted:
        assert_as_exact(arrays[names[output]], stored, output)


@pytest.mark.parametrize("name", TOWERS)
def test_vectors_of_texts_are_those_of_the_original(name, open_golden):
    stored = expected(name)
    model = open_golden(name)
    shown = stored.get("attention_mask", np.ones_like(stored["input_ids"])).astype(bool)
    rows = [row for row in range(len(shown)) if shown[row].all()]
    assert rows, HIDDEN_BY_MASK
    ours = model.encode([words(stored["input_ids"][row]) for row in rows])
    part = {key: stored[key][rows] for key in ("text_embeds", "text_embeds.float64")}
    assert_as_exact(ours, part, "text_embeds")


SETTINGS = {
    "greedy": {"num_beams": 1},
    "beam": {"num_beams": 4, "length_penalty": 0.8},
    "options": {"num_beams": 3, "no_repeat_ngram_size": 2, "length_penalty": 1.3, "repetition_penalty": 1.2},
}


@pytest.mark.parametrize("how", SETTINGS)
@pytest.mark.parametrize("name", WRITERS)
def test_written_texts_are_those_of_the_original(name, how, open_golden):
    stored = expected(f"text/{name}")
    model = open_golden(f"text/{name}")
    settings = {"max_new_tokens": 12, **SETTINGS[how]}
    rewrites = "translate" in model.abilities
    if how == "options" and rewrites:  # of a decoder transformers counts the prompt
        settings["min_new_tokens"] = 5
    write = model.translate if rewrites else model.generate
    letters, silent = name == "qwen2", special_ids(name)
    for row, ids in enumerate(stored["input_ids"]):
        shown = ids[stored["attention_mask"][row].astype(bool)]
        ours = ids_of(write(words(shown, letters), **settings), letters)
        wanted = [i for i in stored[f"generated.{how}"][row] if i >= 0]
        assert [i for i in ours if i not in silent] == [i for i in wanted if i not in silent], row


def special_ids(name):
    """Ids that a text does not show: its end and padding."""
    config = json.loads((GOLDEN / "text" / name / "generation_config.json").read_text())
    return {config.get(key) for key in ("eos_token_id", "pad_token_id", "decoder_start_token_id")}
