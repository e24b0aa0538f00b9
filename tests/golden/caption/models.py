"""Writes caption.tar: small models by transformers' VisionEncoderDecoderModel with random weights, an encoder
of images and a decoder that writes about them, and what they answer.

    python tests/golden/caption/models.py [CASE...]     all of them, or the named ones

Needs the environment of tools/reference_env.sh. Each folder has the model as transformers saves it and
expected.safetensors, whose names are those of `qkv run`:

    pixels [B,C,H,W]   decoder_input_ids [B,T]   encoder_tokens [B,N,D]   tokens [B,T,D]   logits [B,T,V]
    encoder_attention.0.. [B,H,N,N]   attention.0.. [B,H,T,T]   cross_attention.0.. [B,H,T,N]

Each output stands there twice, `name` in float32 and `name.float64`. Then what `generate` gives, one row an image, ended
rows padded with -1:

    generated.greedy   generated.beam   generated.options, see tests/golden/text/generate.py
    generated.default, by the settings of the folder's own files

tasks.py writes models with tokenizers, photos and captions.
"""
import json
import shutil
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "text"), str(HERE.parent)]
from generate import OPTIONS, check, in_double, nothing_in_float32, randomize
from pack import pack, unpacked
import torch
import transformers
from safetensors.torch import load_file, save_file

FOLDER = unpacked("tests/golden/caption")
LIMIT = 160_000  # bytes a folder

# encoder: class and arguments of its configuration; decoder likewise
VIT = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=24, patch_size=8)
GPT2 = dict(vocab_size=60, n_embd=16, n_layer=2, n_head=2, n_positions=32, n_inner=24, bos_token_id=0, eos_token_id=0)
TROCR = dict(vocab_size=60, d_model=16, decoder_layers=2, decoder_attention_heads=2, decoder_ffn_dim=24,
             max_position_embeddings=32, pad_token_id=1, bos_token_id=0, eos_token_id=2)
TOKENS = {"GPT2": dict(decoder_start_token_id=0, eos_token_id=0, pad_token_id=0),
          "TrOCR": dict(decoder_start_token_id=2, eos_token_id=2, pad_token_id=1)}


@dataclass
class Case:
    name: str
    encoder: tuple
    decoder: tuple
    settings: dict = None  # of generation_config.json
    binary: bool = False  # pytorch_model.bin instead of model.safetensors
    old: bool = False  # settings in both parts of config.json, without generation_config.json


CASES = {
    case.name: case
    for case in (
        Case("vit_gpt2", ("ViT", VIT), ("GPT2", GPT2), dict(max_length=9, num_beams=3)),
        Case("vit_gpt2_projected", ("ViT", {**VIT, "hidden_size": 12, "hidden_act": "gelu_new"}), ("GPT2", GPT2),
             dict(max_new_tokens=7), binary=True),
        Case("vit_gpt2_old", ("ViT", {**VIT, "qkv_bias": False}), ("GPT2", GPT2), dict(max_length=8, num_beams=2, early_stopping=True),
             old=True),
        Case("deit_trocr", ("DeiT", VIT),
             ("TrOCR", {**TROCR, "d_model": 20, "cross_attention_hidden_size": 16, "scale_embedding": True, "activation_function": "relu"}),
             dict(max_length=10, num_beams=4, length_penalty=2.0, no_repeat_ngram_size=3, early_stopping=True)),
        Case("vit_trocr_sinusoidal", ("ViT", {**VIT, "qkv_bias": False}),
             ("TrOCR", {**TROCR, "use_learned_position_embeddings": False, "layernorm_embedding": False,
                        "tie_word_embeddings": False}), dict(max_length=10, suppress_tokens=[1])),  # padding has no position
        Case("beit_trocr", ("Beit", {**VIT, "use_relative_position_bias": True, "use_mean_pooling": True}),
             ("TrOCR", {**TROCR, "d_model": 12, "activation_function": "relu"}), dict(max_length=10), binary=True),
        Case("dinov2_gpt2", ("Dinov2", {**VIT, "mlp_ratio": 2}), ("GPT2", {**GPT2, "tie_word_embeddings": False}),
             dict(max_length=10)),
    )
}


def seed_of(name):
    return zlib.crc32(name.encode())


def build(case):
    configs = [getattr(transformers, f"{kind}Config")(**args) for kind, args in (case.encoder, case.decoder)]
    config = transformers.VisionEncoderDecoderConfig.from_encoder_decoder_configs(*configs)
    for key, value in TOKENS[case.decoder[0]].items():
        setattr(config, key, value)
    torch.manual_seed(seed_of(case.name))
    model = transformers.VisionEncoderDecoderModel(config)
    model.set_attn_implementation("eager")
    randomize(model, torch.Generator().manual_seed(seed_of(case.name)))
    model.generation_config = transformers.GenerationConfig(**TOKENS[case.decoder[0]], **(case.settings or {}))
    return model.eval()


def save(case, model, folder):
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    processor = {"ViT": "ViT", "DeiT": "DeiT", "Beit": "Beit", "Dinov2": "Bit"}[case.encoder[0]]
    side = {"height": 24, "width": 24}
    (folder / "preprocessor_config.json").write_text(json.dumps(
        {"image_processor_type": f"{processor}ImageProcessor", "do_resize": True, "size": side, "do_center_crop": False,
         "resample": 2, "do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, indent=1))
    if case.binary:
        # Tied heads are stored, as version 4 did.
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
        (folder / "model.safetensors").unlink()
    if case.old:
        (folder / "generation_config.json").unlink()
        config = json.loads((folder / "config.json").read_text())
        config |= {key: value for key, value in TOKENS[case.decoder[0]].items() if key != "eos_token_id"}
        config.pop("eos_token_id", None)
        config["decoder"] |= {"eos_token_id": 0, "max_length": 5, **case.settings}
        (folder / "config.json").write_text(json.dumps(config, indent=1))


def inputs(case, model):
    generator = torch.Generator().manual_seed(seed_of(case.name) + 1)
    return {"pixels": torch.randn(2, 3, 24, 24, generator=generator),
            "decoder_input_ids": torch.randint(3, 59, (2, 5), generator=generator)}


@torch.no_grad()
def run(model, given):
    out = model(pixel_values=given["pixels"].to(model.dtype), decoder_input_ids=given["decoder_input_ids"],
                output_attentions=True, output_hidden_states=True, return_dict=True)
    answers = {"encoder_tokens": out.encoder_last_hidden_state, "tokens": out.decoder_hidden_states[-1],
               "logits": out.logits}
    for kind, weights in (("encoder_attention", out.encoder_attentions), ("attention", out.decoder_attentions),
                          ("cross_attention", out.cross_attentions)):
        for layer, w in enumerate(weights):
            answers[f"{kind}.{layer}"] = w
    return {name: value.contiguous() for name, value in answers.items()}


def rows_of(texts, drop):
    rows = [row[drop:] for row in texts]
    width = max(len(row) for row in rows)
    table = torch.full((len(rows), width), -1, dtype=torch.int64)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


@torch.no_grad()
def generate(model, default, given):
    """What `generate` writes for each image alone, with the token that begins it."""
    results = {}
    settings = {"greedy": {}, "beam": dict(num_beams=4, length_penalty=0.8), "options": OPTIONS, "default": None}
    for name, options in settings.items():
        rows = []
        for row in range(len(given["pixels"])):
            pixels = given["pixels"][row : row + 1]
            if options is None:
                rows.append(default.generate(pixels)[0])
            else:
                model.generation_config = transformers.GenerationConfig(**{
                    key: getattr(default.generation_config, key) for key in ("decoder_start_token_id", "eos_token_id", "pad_token_id", "suppress_tokens")})
                rows.append(model.generate(pixels, do_sample=False, max_new_tokens=12, **{"num_beams": 1, **options})[0])
        results[f"generated.{name}"] = rows_of(rows, 0)
    return results


def make(case):
    folder = FOLDER / case.name
    model = build(case)
    save(case, model, folder)
    given = inputs(case, model)
    tensors = dict(given)
    single = run(model, given)
    with nothing_in_float32():
        double = run(in_double(model), given)
    for name, value in single.items():
        tensors[name] = value
        tensors[f"{name}.float64"] = double[name]
    default = transformers.VisionEncoderDecoderModel.from_pretrained(folder, attn_implementation="eager").eval()
    if hasattr(positions := getattr(getattr(default.decoder, "model", None), "decoder", None), "embed_positions"):
        if hasattr(positions.embed_positions, "weights"):  # which from_pretrained of version 5.23 leaves without values
            positions.embed_positions.weights = model.decoder.model.decoder.embed_positions.weights
    for name, value in run(default, given).items():
        assert torch.equal(value, tensors[name]), f"{case.name}: {name} is not what the folder gives"
    tensors.update(generate(model, default, given))
    check(case, tensors)
    save_file(tensors, folder / "expected.safetensors")
    size = sum(f.stat().st_size for f in folder.iterdir())
    assert size <= LIMIT, f"{case.name}: {size} bytes"
    print(f"{case.name:22} {size >> 10:5} KiB", tensors["generated.default"].tolist(), flush=True)


def main():
    torch.set_num_threads(1)
    unknown = set(sys.argv[1:]) - CASES.keys()
    if unknown:
        sys.exit(f"unknown: {', '.join(sorted(unknown))}\nknown: {', '.join(CASES)}")
    for name in sys.argv[1:] or CASES:
        make(CASES[name])
    pack()


if __name__ == "__main__":
    main()
