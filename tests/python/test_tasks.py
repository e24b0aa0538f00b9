"""What models do with photos and texts, against the originals' answers in tests/golden."""

import numpy as np
import pytest
from support import GOLDEN, ROOT, expected, expected_json, read_safetensors

import qkv

# Scores and boxes of float32 models of three blocks: some ten roundings of 6e-8, amplified by the layers.
SCORE = 2e-5


def photos_of(name):
    return [str(GOLDEN / name / "photos" / one["photo"]) for one in expected_json(name)["photos"]]


def test_detected_objects_are_those_of_transformers(open_model):
    model, wanted = open_model("detector"), expected_json("detector")
    answers = model.detect(photos_of("detector"), threshold=wanted["threshold"])
    assert sum(len(found) for found in answers) > 5
    for found, photo in zip(answers, wanted["photos"], strict=True):
        objects = sorted(photo["objects"], key=lambda one: -one[0])
        assert [o.index for o in found] == [index for _, index, _ in objects]
        assert [o.label for o in found] == [model.labels[index] for _, index, _ in objects]
        side = max(photo["height"], photo["width"])
        for ours, (score, _, corners) in zip(found, objects):
            left, top, width, height = ours.box
            assert ours.score == pytest.approx(score, abs=SCORE)
            assert (left, top, left + width, top + height) == pytest.approx(corners, abs=SCORE * side)


def decoded(counts, height, width):
    """pycocotools' compressed counts as a mask."""
    numbers, at = [], 0
    while at < len(counts):
        value = shift = 0
        group = 0x20
        while group & 0x20:
            group = ord(counts[at]) - 48
            value |= (group & 0x1F) << shift
            at, shift = at + 1, shift + 5
        if group & 0x10:
            value -= 1 << shift
        numbers.append(value + (numbers[-2] if len(numbers) > 2 else 0))
    runs = [np.full(number, i % 2, dtype=bool) for i, number in enumerate(numbers)]
    return np.concatenate(runs).reshape(width, height).T


def assert_segments(found, wanted, doubts, size):
    """doubts: pixels that rounding decides."""
    assert [s.index for s in found] == [s["index"] for s in wanted]
    for ours, theirs in zip(found, wanted):
        allowed = theirs.get("doubts", doubts)
        mask = found.mask(ours)
        assert np.count_nonzero(mask != decoded(theirs["counts"], *size)) <= allowed
        assert mask.sum() == ours.area
        assert abs(ours.area - theirs["area"]) <= allowed
        rows, columns = np.nonzero(mask)
        assert ours.box == (columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1)
        if "score" in theirs:
            assert ours.score == pytest.approx(theirs["score"], abs=SCORE)


@pytest.mark.parametrize("task", ["panoptic", "instance"])
def test_segments_are_those_of_transformers(task, open_model):
    model, count = open_model("segmenter"), 0
    for photo, file in zip(expected_json("segmenter")["photos"], photos_of("segmenter")):
        size = photo["height"], photo["width"]
        for setting in photo[task]:
            options = {"threshold": setting["threshold"]}
            if task == "panoptic":
                options |= {key: setting[key] for key in ("mask_threshold", "overlap", "stuff")}
            found = model.segment(file, task=task, **options)
            assert (found.task, found.ids.shape) == (task, size)
            assert_segments(found, setting["segments"], setting.get("doubts", 0), size)
            if task == "panoptic":
                assert set(np.unique(found.ids)) - {0} == {s.id for s in found}
                for segment in found:
                    assert np.array_equal(found.ids == segment.id, found.mask(segment))
            count += len(found)
    assert count > 20


def test_semantic_regions_are_those_of_transformers(open_model):
    model = open_model("segmenter_semantic")
    for photo, file in zip(expected_json("segmenter_semantic")["photos"], photos_of("segmenter_semantic")):
        found = model.segment(file)
        assert found.task == "semantic"
        assert all(segment.score is None for segment in found)
        assert_segments(found, photo["segments"], photo["doubts"], (photo["height"], photo["width"]))


@pytest.mark.parametrize("how", ["greedy", "beam"])
@pytest.mark.parametrize("name", ["vit_gpt2", "trocr"])
def test_captions_are_those_of_transformers(name, how, open_model):
    wanted = expected_json(f"tasks/{name}")
    photos = [str(GOLDEN / "detector/photos" / photo) for photo in wanted["photos"]]
    settings = {"num_beams": 3 if how == "beam" else 1}
    answers = open_model(f"tasks/{name}").caption(photos, **settings)
    assert [one.text for one in answers] == wanted[how]
    assert [one.path for one in answers] == photos


@pytest.mark.parametrize("name", ["vit_gpt2", "trocr"])
def test_pixels_of_captions_are_those_of_the_processor(name, open_model):
    photos = [str(GOLDEN / "detector/photos" / photo) for photo in expected_json(f"tasks/{name}")["photos"]]
    pixels = open_model(f"tasks/{name}").preprocess(photos)
    assert np.abs(pixels - expected(f"tasks/{name}")["pixels"]).max() <= 2e-7


def test_vectors_of_sentences_are_those_of_transformers(open_model):
    model, wanted = open_model("tasks/bert"), expected_json("tasks/bert")
    with pytest.warns(qkv.ModelWarning, match="more than the model's 12 tokens and are cut"):
        vectors = model.encode(wanted["texts"])
    assert vectors.dtype == np.float32
    assert np.abs(vectors - wanted["vectors"]).max() <= 2e-6
    alone = model.encode(wanted["texts"][0])
    assert alone.shape == (model.dimension,)
    assert np.abs(alone - vectors[0]).max() <= 1e-6


@pytest.mark.parametrize("how", ["greedy", "beam"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_continuations_are_those_of_transformers(name, how, open_model):
    model, wanted = open_model(f"tasks/{name}"), expected_json(f"tasks/{name}")
    settings = {"max_new_tokens": 10, "num_beams": 3 if how == "beam" else 1}
    for prompt, answer in zip(wanted["texts"], wanted[how]):
        text = model.generate(prompt, **settings)
        if name == "llama" and "\N{REPLACEMENT CHARACTER}" in answer:
            continue  # bytes that are no UTF-8 are shown before that is known (tests/app/texts/language_test.cc)
        assert text in (answer, " " + answer)  # alone, without the prompt, Llama's first token loses its space
        assert isinstance(text, str) and text.tokens == 10 and not text.ended
        streamed = list(model.generate(prompt, stream=True, **settings))
        assert "".join(streamed) == text
        if how == "greedy":
            assert len(streamed) > 1


@pytest.mark.parametrize("how", ["greedy", "beam"])
@pytest.mark.parametrize("name", ["t5", "marian"])
def test_translations_are_those_of_transformers(name, how, open_model):
    model, wanted = open_model(f"tasks/{name}"), expected_json(f"tasks/{name}")
    settings = {"max_new_tokens": 10, "num_beams": 3 if how == "beam" else 1}
    assert model.translate(wanted["texts"], batch_size=3, **settings) == wanted[how]
    assert model.translate(wanted["texts"][0], **settings) == wanted[how][0]


TOWERS = ["clip", "siglip", "open_clip_siglip", "open_clip_simple"]


@pytest.mark.parametrize("name", TOWERS)
def test_vectors_of_texts_are_those_of_the_original(name, open_model):
    wanted = expected_json(f"towers/{name}")
    model = open_model(f"towers/{name}")
    texts = wanted["texts"]
    if "ids" in wanted:
        assert model.tokenize(texts) == [row[: len(ids)] for ids, row in zip(model.tokenize(texts), wanted["ids"])]
    fits = [i for i, text in enumerate(texts) if len(text) < 20]
    vectors = model.encode([texts[i] for i in fits])
    assert np.abs(vectors - [wanted["text_embeds"][i] for i in fits]).max() <= 1e-5


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_photos_are_classified_by_words_as_by_the_original(name, open_model):
    wanted, model = expected_json(f"towers/{name}"), open_model(f"towers/{name}")
    photos = [str(ROOT / "examples/digits" / photo) for photo in wanted["photos"]]
    vectors = model.embed(photos, normalize=True)
    assert np.abs(vectors - wanted["image_embeds"]).max() <= 1e-5
    for key, templates in (("probabilities", []), ("template_probabilities", wanted["templates"])):
        answers = model.classify(photos, prompts=wanted["texts"], templates=templates, top=4, logits=True)
        for one, probabilities in zip(answers, np.array(wanted[key])):
            order = [p.index for p in one]
            assert order == list(np.argsort(-probabilities, kind="stable"))
            assert [p.score for p in one] == pytest.approx(probabilities[order], abs=1e-5)
            assert [p.label for p in one] == [wanted["texts"][index] for index in order]
        if not templates:
            assert np.abs([one.logits for one in answers] - np.array(wanted["logits"])).max() <= 1e-4


@pytest.mark.parametrize("name", ["hf_vit_labels", "timm_vit_labels"])
def test_classes_are_those_of_the_logits(name):
    model = qkv.load(GOLDEN / name)
    pixels = np.random.default_rng(0).integers(0, 256, (5, 50, 70, 3), dtype=np.uint8)
    logits = model.forward(model.preprocess(pixels))["logits"]
    answers = model.classify(pixels, top=3, logits=True)
    scores = np.exp(logits - logits.max(1, keepdims=True))
    scores /= scores.sum(1, keepdims=True)
    for row, one in enumerate(answers):
        assert np.abs(one.logits - logits[row]).max() <= 1e-6 * np.abs(logits).max()
        best = np.argsort(-scores[row])[:3]
        assert [p.index for p in one] == list(best)
        assert [p.label for p in one] == [model.labels[i] for i in best]
        assert [p.score for p in one] == pytest.approx(scores[row][best], abs=1e-6)


def test_pools_are_of_the_tokens():
    model = qkv.load(GOLDEN / "timm_reg4_cls")
    images = np.random.default_rng(1).integers(0, 256, (3, 40, 40, 3), dtype=np.uint8)
    arrays = model.forward(model.preprocess(images), outputs=["tokens"])
    tokens, prefix = arrays["tokens"], 5  # class token and four registers
    for pool, exact in (
        ("cls", tokens[:, 0]),
        ("mean", tokens[:, prefix:].mean(1)),
        ("cls+mean", np.concatenate([tokens[:, 0], tokens[:, prefix:].mean(1)], axis=1)),
        ("tokens", tokens),
    ):
        ours = model.embed(images, pool=pool)
        assert ours.shape == exact.shape, pool
        assert np.abs(ours - exact).max() <= 1e-5, pool
        unit = model.embed(images, pool=pool, normalize=True)
        assert np.linalg.norm(unit, axis=-1) == pytest.approx(np.ones(unit.shape[:-1]), abs=1e-6)


def test_embeddings_one_by_one_are_those_of_all_at_once(digits, digit_photos):
    together = digits.embed(digit_photos)
    one_by_one = list(digits.iter_embed(digit_photos))
    assert [path for path, _ in one_by_one] == digit_photos
    assert np.array_equal(together, [row for _, row in one_by_one])


def test_more_images_than_a_call_takes_keep_their_order(digits):
    images = np.random.default_rng(2).integers(0, 256, (600, 28, 28), dtype=np.uint8)
    together = digits.embed(list(images))
    for i in (0, 255, 256, 511, 512, 599):
        assert np.abs(digits.embed(images[i]) - together[i]).max() <= 1e-5
    assert [one.path for one in digits.classify(list(images))] == [f"image {i}" for i in range(600)]


@pytest.mark.parametrize("name", ["hf_vit_labels", "timm_reg4_gap", "hf_dinov2", "timm_differential"])
def test_attention_of_an_image_is_that_of_the_pass(name):
    model = qkv.load(GOLDEN / name)
    image = np.random.default_rng(3).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    pixels = model.preprocess(image)
    depth = model.info["depth"]
    stored = model.forward(pixels, outputs=[f"attention.{i}" for i in range(depth)])
    attention = model.attend(image, layers="all", heads="all", query="all")
    exact = np.stack([stored[f"attention.{i}"][0] for i in range(depth)])
    assert attention.weights.shape == exact.shape
    assert np.abs(attention.weights - exact).max() <= 1e-6
    rows, columns = attention.grid
    assert attention.maps.shape == (*exact.shape[:3], rows, columns)
    mean = model.attend(image, layers=0, query="mean")
    patches = exact[0, :, -rows * columns :]
    assert np.abs(mean.weights[0, 0, 0] - patches.mean((0, 1))).max() <= 1e-6
    token = model.attend(image, layers=[0, depth - 1], heads=[0, 2], query=(1, 2))
    assert np.abs(token.weights[:, :, 0] - exact[[0, -1]][:, [0, 2], columns + 2 - rows * columns]).max() <= 1e-6


PARTS = [("bert", "encoder"), ("gpt2", "decoder")]
PARTS += [(name, part) for name in ("t5", "marian") for part in ("encoder", "decoder", "cross")]


@pytest.mark.parametrize("name,part", PARTS)
def test_attention_of_a_text_is_that_of_the_original(name, part, open_model):
    exact = read_safetensors(GOLDEN / "tasks" / name / "attentions.safetensors")[part]
    model, text = open_model(f"tasks/{name}"), expected_json(f"tasks/{name}")["texts"][0]
    settings = {} if name == "bert" else {"max_new_tokens": 10, "num_beams": 1}
    attention = model.attend(text, part=part, layers="all", heads="all", **settings)
    assert attention.weights.shape == exact.shape
    assert np.abs(attention.weights - exact).max() <= 2e-6
    assert (len(attention.rows), len(attention.columns)) == exact.shape[-2:]
