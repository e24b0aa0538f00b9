#!/usr/bin/env python3
"""Writes tests/nn/rotary_golden.h: scores of queries and keys that timm and transformers have turned.

    PYTHON tests/nn/generate_rotary_golden.py      (tools/reference_env.sh prints the Python)

One prefix token and a grid of 2 x 3 patches, heads of 8 features: query t has sin(1 + 8 t + e), key t cos(2 + 8 t + e).
Angles are computed in float32, as the models do, and scores in float64.
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import torchvision_stub  # noqa: F401  before timm

import timm
import torch
import transformers
from timm.layers import RotaryEmbeddingCat, apply_rot_embed_cat
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.pixtral import modeling_pixtral as pixtral

HEIGHT, WIDTH, E, PREFIX = 2, 3, 8, 1
TOKENS = PREFIX + HEIGHT * WIDTH


def operands():
    n = torch.arange(TOKENS * E, dtype=torch.float64).reshape(1, 1, TOKENS, E)
    return torch.sin(1 + n), torch.cos(2 + n)


def by_timm(**options):
    rope = RotaryEmbeddingCat(E, in_pixels=False, feat_shape=[HEIGHT, WIDTH], **options).get_embed()

    def turned(x):
        return torch.cat([x[:, :, :PREFIX], apply_rot_embed_cat(x[:, :, PREFIX:], rope.double())], dim=2)

    return [turned(x) for x in operands()]


def by_dinov3():
    config = transformers.DINOv3ViTConfig(hidden_size=E, num_attention_heads=1, patch_size=1)
    cos, sin = dinov3.DINOv3ViTRopePositionEmbedding(config).eval()(torch.zeros(1, 3, HEIGHT, WIDTH))
    return dinov3.apply_rotary_pos_emb(*operands(), cos.double(), sin.double())


def by_pixtral():
    config = transformers.PixtralVisionConfig(hidden_size=E, num_attention_heads=1, image_size=4, patch_size=1)
    places = torch.cartesian_prod(torch.arange(HEIGHT), torch.arange(WIDTH))
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(torch.zeros(1), places)
    patches = [x[:, :, PREFIX:] for x in operands()]
    turned = pixtral.apply_rotary_pos_emb(*patches, cos.double(), sin.double(), 0)
    return [torch.cat([x[:, :, :PREFIX], y], dim=2) for x, y in zip(operands(), turned)]


def main():
    cases = {
        "Eva": by_timm(ref_feat_shape=[4, 4]),
        "PerceptionEncoder": by_timm(temperature=100.0, grid_offset=1.0, grid_indexing="xy"),
        "Dinov3": by_dinov3(),
        "Pixtral": by_pixtral(),
    }
    lines = [
        f"// Written by tests/nn/generate_rotary_golden.py with timm {timm.__version__}, transformers",
        f"// {transformers.__version__} and torch {torch.__version__}: scores [{TOKENS}, {TOKENS}].",
        "#pragma once", "// clang-format off", "", "namespace qkv::nn::golden {", ""]  # fmt: skip
    for name, (q, k) in cases.items():
        scores = (q[0, 0] @ k[0, 0].T).flatten().tolist()
        lines.append(f"inline constexpr double k{name}[] = {{")
        lines += ["    " + ", ".join(f"{x!r}" for x in scores[i : i + 4]) + "," for i in range(0, len(scores), 4)]
        lines += ["};", ""]
    lines.append("}  // namespace qkv::nn::golden\n")
    (Path(__file__).parent / "rotary_golden.h").write_text("\n".join(lines))


if __name__ == "__main__":
    main()
