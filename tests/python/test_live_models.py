"""Live models of timm and transformers, taken over: answers as the original's, and what is refused."""

import glob
import pickle

import numpy as np
import pytest
from live import timm, torch, transformers
from support import numbered_tokenizer

import qkv

pytest.importorskip("vit_pytorch")
from cases import CASES  # noqa: E402
from originals import build, has_texts, randomize, trained_size  # noqa: E402

OWN_KINDS = [name for name, case in CASES.items() if "qkv_attention" in case.extra]  # of attention: no models of timm
TIMM = [name for name, case in CASES.items() if case.library == "timm" and name not in OWN_KINDS]
HF = [name for name, case in CASES.items() if case.library == "transformers" and name != "hf_beit_pretraining"]
# In eval mode ViT-MAE shuffles patches by noise that it draws itself; both are compared in test_goldens.py.
SHUFFLES = ("ViTMAE",)


def close(ours, theirs):
    """Within float32's error of models of two to four blocks."""
    exact = theirs.detach().double().numpy()
    assert ours.shape == exact.shape
    assert np.abs(ours - exact).max() <= 2e-5 * np.abs(exact).max()


def pixels_of(case):
    channels = case.args.get("in_chans", case.args.get("num_channels", case.args.get("vision_config", {}).get("num_channels", 3)))
    return torch.randn((2, channels, *trained_size(case)), generator=torch.Generator().manual_seed(1))


def arguments_of(case):
    given = {key: value for key, value in case.args.items() if value is not None}  # as timm.create_model does
    return {**given, **{key: value.__name__ for key, value in case.unsaved.items()}}


@pytest.mark.parametrize("name", TIMM)
def test_models_of_timm_are_taken_over(name):
    case = CASES[name]
    model = build(case)
    taken = qkv.from_timm(model, model_args=arguments_of(case))
    pixels = pixels_of(case)
    with torch.inference_mode():
        theirs, tokens = model(pixels), model.forward_features(pixels)
    arrays = taken.forward(pixels, outputs=["logits" if "classify" in taken.abilities else "pooled", "tokens"])
    ours, our_tokens = arrays.values()
    if isinstance(theirs, torch.Tensor) and theirs.shape == ours.shape:
        close(ours, theirs)
    close(our_tokens, tokens)


@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_little_patch16_reg4_gap_256", "eva02_tiny_patch14_224"])
def test_models_of_the_registry_need_no_arguments(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = timm.create_model(name, num_classes=5).eval()
    taken = qkv.from_timm(model)
    pixels = torch.randn((1, taken.info["channels"], *taken.info["image_size"]))
    with torch.inference_mode():
        close(taken.forward(pixels)["logits"], model(pixels))
    assert name in taken.path
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(taken)
    assert len(taken.classify(np.zeros((50, 50, 3), dtype=np.uint8))) == 5
    image = np.random.default_rng(0).integers(0, 256, (*taken.info["image_size"], 3), dtype=np.uint8)
    with torch.inference_mode():
        close(taken.embed(image)[None], model.forward_head(model.forward_features(torch.tensor(taken.preprocess(image))), pre_logits=True))
    for work in (taken.run, taken.explore):
        with pytest.raises(qkv.Error, match=f"timm {name} has no files any more: save it to a folder"):
            work(image)
    with pytest.raises(qkv.Error, match=f"^detect: timm {name} is an image model"):
        taken.detect(image)


def tokenizer_of(vocabulary, folder):
    numbered_tokenizer(folder, vocabulary, letters=True)
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"))


@pytest.mark.parametrize("name", HF)
def test_vision_models_of_transformers_are_taken_over(name, tmp_path):
    case = CASES[name]
    model = build(case)
    tokenizer = tokenizer_of(case.args["text_config"]["vocab_size"], tmp_path) if has_texts(case) else None
    taken = qkv.from_transformers(model, tokenizer, verify=not case.kind.startswith(SHUFFLES))
    pixels = pixels_of(case)
    arrays = taken.forward(pixels)
    if case.kind.startswith(SHUFFLES):
        assert np.isfinite(arrays["tokens"]).all()
        return
    with torch.inference_mode():
        theirs = (model.vision_model if has_texts(case) else model)(pixel_values=pixels)
    compared = 0
    for key, ours in (("logits", "logits"), ("pred_boxes", "pred_boxes"), ("last_hidden_state", "tokens"),
                      ("pooler_output", "" if has_texts(case) else "pooled"), ("class_queries_logits", "class_queries_logits"), ("masks_queries_logits", "masks_queries_logits")):  # fmt: skip
        if key == "last_hidden_state" and case.kind.startswith(("Yolos", "Eomt")):
            continue  # in another order
        if getattr(theirs, key, None) is not None and ours in arrays:
            close(arrays[ours], getattr(theirs, key))
            compared += 1
    assert compared


BERT = dict(vocab_size=60, hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, max_position_embeddings=40)
LLAMA = dict(vocab_size=60, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
T5 = dict(vocab_size=60, d_model=24, d_kv=8, d_ff=40, num_layers=2, num_heads=3, decoder_start_token_id=0)
MARIAN = dict(vocab_size=60, d_model=24, encoder_layers=2, decoder_layers=2, encoder_attention_heads=3, decoder_attention_heads=3,
              encoder_ffn_dim=40, decoder_ffn_dim=40, pad_token_id=59, decoder_start_token_id=59, eos_token_id=0,
              forced_eos_token_id=0, max_position_embeddings=64)  # fmt: skip
TEXTS = {
    "BertModel": BERT,
    "RobertaModel": BERT,
    "XLMRobertaModel": BERT,
    "DistilBertModel": dict(vocab_size=60, dim=24, n_layers=2, n_heads=3, hidden_dim=40, max_position_embeddings=40),
    "GPT2LMHeadModel": dict(vocab_size=60, n_embd=24, n_layer=2, n_head=3, n_positions=40, bos_token_id=0, eos_token_id=0),
    "LlamaForCausalLM": LLAMA,
    "Qwen2ForCausalLM": LLAMA,
    "Qwen3ForCausalLM": {**LLAMA, "head_dim": 6},
    "T5ForConditionalGeneration": T5,
    "T5EncoderModel": T5,
    "MarianMTModel": MARIAN,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_text_models_of_transformers_are_taken_over(kind, tmp_path):
    cls = getattr(transformers, kind)
    torch.manual_seed(0)
    model = cls(cls.config_class(**TEXTS[kind])).eval()
    taken = qkv.from_transformers(model, tokenizer_of(60, tmp_path))
    ids = torch.randint(3, 58, (2, 9), generator=torch.Generator().manual_seed(1))
    given = {"input_ids": ids}
    if model.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids[:, :4]
    with torch.inference_mode():
        theirs = model(**given)
    arrays = taken.forward(**given)
    close(arrays["logits" if "logits" in theirs else "tokens"], theirs[0])


def test_a_model_with_nothing_to_compare_is_taken_as_it_is_on_request():
    model = build(CASES["hf_beit_pretraining"])  # logits of patches, which qkv does not read
    with pytest.raises(qkv.Error, match="verify=False"):
        qkv.from_transformers(model)
    assert "embed" in qkv.from_transformers(model, verify=False).abilities


def test_training_needs_files(tmp_path):
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1)
    taken = qkv.from_timm(model, verify=False)
    images = np.zeros((4, 32, 32, 3), np.uint8), [0, 1, 0, 1]
    with pytest.raises(qkv.Error, match="save it first .*save_for_hf"):
        qkv.train(images, model=taken, out=tmp_path / "run")
    timm.models.save_for_hf(model, tmp_path / "model", safe_serialization=True)
    qkv.train(images, model=tmp_path / "model", out=tmp_path / "run", steps=1, batch=2, progress=False)


def test_two_towers_compare_as_the_original_does(tmp_path):
    case = CASES["hf_clip"]
    model = build(case)
    taken = qkv.from_transformers(model, tokenizer_of(40, tmp_path))
    assert {"classify", "encode"} <= set(taken.abilities)


def test_another_number_of_heads_is_found():
    model = timm.create_model("vit_tiny_patch16_224", num_heads=6).eval()
    randomize(model, torch.Generator().manual_seed(0), torch.float32)  # else all attention is uniform
    assert qkv.from_timm(model).info["heads"] == 6, "timm keeps what it was given"
    for block in model.blocks:
        block.attn.num_heads, block.attn.head_dim, block.attn.scale = 3, 64, 64**-0.5
    with pytest.raises(qkv.Error, match="model_args=") as raised:
        qkv.from_timm(model)
    assert "differs from timm's" in str(raised.value)
    assert qkv.from_timm(model, model_args={"num_heads": 3}).info["heads"] == 3
    with pytest.raises(qkv.Error, match="contradicts"):
        qkv.from_timm(model, heads=3)
    assert qkv.from_timm(model, verify=False).info["heads"] == 6


def test_a_model_that_was_changed_is_found():
    model = timm.create_model("vit_tiny_patch16_224").eval()
    model.blocks[3].attn.scale *= 3
    with pytest.raises(qkv.Error, match="changed after it was made"):
        qkv.from_timm(model)
    config = transformers.ViTConfig(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40, image_size=32)
    changed = transformers.ViTModel(config).eval()
    changed.layernorm = torch.nn.Identity()
    with pytest.raises(qkv.Error):
        qkv.from_transformers(changed)


def test_other_families_are_refused_by_name():
    with pytest.raises(qkv.Error, match="resnet18"):
        qkv.from_timm(timm.create_model("resnet18"))
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1])
    with pytest.raises(qkv.Error, match="resnet"):
        qkv.from_transformers(transformers.ResNetModel(config))
    for wrong in (None, 5, torch.nn.Linear(2, 2)):
        with pytest.raises((qkv.Error, TypeError)) as raised:
            qkv.from_transformers(wrong)
        assert str(raised.value)
        with pytest.raises((qkv.Error, TypeError)):
            qkv.from_timm(wrong)


def test_a_text_model_without_a_tokenizer_says_what_is_missing():
    model = transformers.BertModel(transformers.BertConfig(**BERT))
    with pytest.warns(qkv.ModelWarning, match="tokenizer"):
        taken = qkv.from_transformers(model)
    with pytest.raises(qkv.Error, match="tokenizer"):
        taken.encode("a text")


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "int8", "auto"])
def test_all_precisions_pass_the_check(dtype):
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5).eval()
    assert qkv.from_timm(model, dtype=dtype).abilities


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_models_in_other_precisions_are_taken_over(dtype):
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5).to(dtype)
    taken = qkv.from_timm(model)
    pixels = torch.randn((1, 3, 224, 224), generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        theirs = model.float().eval()(pixels)
    close(taken.forward(pixels)["logits"], theirs)


def test_the_model_is_left_as_it_was():
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5).train()
    model.blocks[0].eval()
    before = {key: value.clone() for key, value in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    state, files = torch.get_rng_state(), glob.glob("/dev/shm/qkv-*")
    qkv.from_timm(model)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert glob.glob("/dev/shm/qkv-*") == files
    assert torch.is_grad_enabled() and all(p.grad is None for p in model.parameters())


def test_weights_are_a_copy_as_they_are_now():
    model = timm.create_model("vit_tiny_patch16_224", num_classes=5).eval()
    pixels = torch.randn((1, 3, 224, 224))
    first = qkv.from_timm(model)
    before = first.forward(pixels)["logits"]
    with torch.no_grad():
        model.head.bias += 1
    assert np.array_equal(first.forward(pixels)["logits"], before)
    assert np.allclose(qkv.from_timm(model).forward(pixels)["logits"], before + 1, atol=1e-5)


def test_tensors_go_in_as_arrays_do():
    model = qkv.from_timm(timm.create_model("vit_tiny_patch16_224", num_classes=5).eval())
    pixels = torch.randn((2, 3, 224, 224))
    exact = model.forward(pixels.numpy())["logits"]
    for same in (pixels, pixels.clone().requires_grad_(), pixels.double(), pixels.to(memory_format=torch.channels_last), torch.nn.Parameter(pixels)):
        assert np.array_equal(model.forward(same)["logits"], exact)
    image = torch.randint(0, 256, (40, 50, 3), dtype=torch.uint8)
    assert model.classify(image) == model.classify(image.numpy())
    assert np.array_equal(torch.from_numpy(exact).numpy(), exact)


def test_tensors_elsewhere_say_what_to_do():
    model = qkv.load("digits")
    with pytest.raises((TypeError, qkv.Error), match="cpu|CPU"):
        model.forward(torch.zeros((1, 1, 28, 28), device="meta"))
