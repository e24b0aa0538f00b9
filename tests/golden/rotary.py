"""Rotary positions in float64, for references.

The originals compute sines and cosines in float32 when a model is made, whatever its type.
`make_exact` puts the same formulas in float64 in their place, and checks that the original's
own values are these but for rounding.
"""
import math

import torch
from timm.layers.pos_embed_sincos import RotaryEmbeddingCat, RotaryEmbeddingDinoV3, RotaryEmbeddingMixed


def make_exact(model):
    """For a model of transformers or timm in float64; nothing happens without rotary positions."""
    hf, timm = getattr(model, "rope_embeddings", None), getattr(model, "rope", None)
    if hf is not None:
        hf.forward = checked(hf.forward, lambda pixels: dinov3_hf(hf, pixels))
    if timm is not None:
        timm.get_embed = checked(timm.get_embed, lambda shape=None: of_timm(timm, shape or timm.feat_shape))


def checked(original, exact):
    def compute(*args, **kwargs):
        rounded, result = original(*args, **kwargs), exact(*args, **kwargs)
        for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (rounded, result))):
            assert a.shape == b.shape and b.dtype == torch.float64, (a.shape, b.shape, b.dtype)
            assert (a.double() - b).abs().max() < 1e-5, "not the original's angles"
        return result

    return compute


def arange(n):
    return torch.arange(n, dtype=torch.float64)


def laid_out(x, half):
    return torch.cat([x, x], -1) if half else x.repeat_interleave(2, -1)


def centres(height, width):
    y, x = 2 * (arange(height) + 0.5) / height - 1, 2 * (arange(width) + 0.5) / width - 1
    return torch.stack(torch.meshgrid(y, x, indexing="ij"), -1).reshape(-1, 2)


def dinov3_angles(coordinates, base, features):
    frequencies = base ** -(4 * arange(features // 4) / features)
    return (2 * math.pi * coordinates[:, :, None] * frequencies).flatten(1)


def dinov3_hf(rope, pixels):
    size = rope.config.patch_size
    patch = (size, size) if isinstance(size, int) else size
    grid = centres(pixels.shape[2] // patch[0], pixels.shape[3] // patch[1])
    features = rope.config.hidden_size // rope.config.num_attention_heads
    base = rope.config.rope_parameters["rope_theta"] if hasattr(rope, "rope_type") else rope.base  # EoMT
    angles = laid_out(dinov3_angles(grid, base, features), half=True)
    return angles.cos(), angles.sin()


def of_timm(rope, shape):
    height, width = shape
    if isinstance(rope, RotaryEmbeddingDinoV3):
        assert rope.grid_offset == 0 and rope.grid_indexing == "ij" and rope.normalize_coords == "separate"
        angles = laid_out(dinov3_angles(centres(height, width), rope.temperature, rope.dim), rope.rotate_half)
    else:
        indices = torch.stack(torch.meshgrid(arange(height), arange(width), indexing="ij"), -1).reshape(-1, 2)
        columns_first = rope.grid_indexing == "xy"
        if isinstance(rope, RotaryEmbeddingMixed):
            first, second = indices.flip(-1).unbind(-1) if columns_first else indices.unbind(-1)
            freqs = rope.freqs.double()
            angles = first[:, None] * freqs[0, :, :, None] + second[:, None] * freqs[1, :, :, None]
            angles = laid_out(angles, half=False)
        else:
            assert isinstance(rope, RotaryEmbeddingCat) and rope.grid_type == "index"
            indices = indices + rope.grid_offset
            if rope.ref_feat_shape is not None:
                indices = indices / torch.tensor([height, width]) * torch.tensor(rope.ref_feat_shape)
            indices = indices.flip(-1) if columns_first else indices
            bands = rope.temperature ** -(arange(rope.dim // 4) / (rope.dim // 4))
            angles = laid_out((indices[:, :, None] * bands).flatten(1), rope.rotate_half)
    return torch.cat([angles.sin(), angles.cos()], -1)
