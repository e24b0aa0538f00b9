"""Models whose calls take long, of zeros in files without blocks on disk."""

import json
import struct

import numpy as np
from support import numbered_tokenizer


def write_zeros(file, shapes):
    """A safetensors file of zeros."""
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + at)


def layer(name, rows, columns, bias):
    return {f"{name}.weight": (rows, columns), f"{name}.bias": (bias,)}


def norm(name, width):
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def write_gpt2(folder, width=512, depth=6, length=8192, vocabulary=60):
    """A GPT-2 that writes the same token as long as it may."""
    config = {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": vocabulary,
        "n_embd": width,
        "n_layer": depth,
        "n_head": 8,
        "n_positions": length,
        "bos_token_id": None,
        "eos_token_id": None,
    }
    shapes = {"transformer.wte.weight": (vocabulary, width), "transformer.wpe.weight": (length, width)}
    for i in range(depth):
        block = f"transformer.h.{i}"
        shapes |= norm(f"{block}.ln_1", width) | norm(f"{block}.ln_2", width)
        shapes |= layer(f"{block}.attn.c_attn", width, 3 * width, 3 * width)
        shapes |= layer(f"{block}.attn.c_proj", width, width, width)
        shapes |= layer(f"{block}.mlp.c_fc", width, 4 * width, 4 * width)
        shapes |= layer(f"{block}.mlp.c_proj", 4 * width, width, width)
    (folder / "config.json").write_text(json.dumps(config))
    write_zeros(folder / "model.safetensors", shapes | norm("transformer.ln_f", width))
    numbered_tokenizer(folder, vocabulary, letters=True)


def write_vit(folder, width=1024, depth=24):
    """A ViT-L whose packing takes long."""
    config = {
        "model_type": "vit",
        "architectures": ["ViTModel"],
        "hidden_size": width,
        "num_hidden_layers": depth,
        "num_attention_heads": 16,
        "intermediate_size": 4 * width,
        "image_size": 224,
        "patch_size": 16,
        "layer_norm_eps": 1e-12,
    }
    shapes = {
        "embeddings.cls_token": (1, 1, width),
        "embeddings.position_embeddings": (1, 197, width),
        "embeddings.patch_embeddings.projection.weight": (width, 3, 16, 16),
        "embeddings.patch_embeddings.projection.bias": (width,),
    }
    for i in range(depth):
        block = f"encoder.layer.{i}"
        shapes |= norm(f"{block}.layernorm_before", width) | norm(f"{block}.layernorm_after", width)
        for name in ("attention.attention.query", "attention.attention.key", "attention.attention.value"):
            shapes |= layer(f"{block}.{name}", width, width, width)
        shapes |= layer(f"{block}.attention.output.dense", width, width, width)
        shapes |= layer(f"{block}.intermediate.dense", 4 * width, width, 4 * width)
        shapes |= layer(f"{block}.output.dense", width, 4 * width, width)
    (folder / "config.json").write_text(json.dumps(config))
    write_zeros(folder / "model.safetensors", shapes | norm("layernorm", width))
