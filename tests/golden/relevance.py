"""Relevance of classes (Chefer, Gur and Wolf 2021, "Generic Attention-model Explainability", self-attention rule) by
the originals, run eagerly with autograd.

    python tests/golden/relevance.py     writes CASE/relevance.safetensors, and tests/explore/golden/digits.safetensors

For each class C of some, "class.C" [B, N] in float32 and, as NAME.float64, in float64: the class token's row of R, or
without one the mean of the patches' rows, where R starts as I and becomes R + mean over heads of (dA * A)+ times R,
block by block. For the built-in digit model also its pixels, logits and rollout. Needs the environment of
tools/reference_env.sh.
"""
import copy
from pathlib import Path

import numpy as np
import torch
from cases import CASES
from originals import load, nothing_in_float32, timm
from pack import pack, unpacked
from PIL import Image
from rollout import rollout
from safetensors.torch import load_file, save_file

ROOT = Path(__file__).resolve().parents[2]
FOLDER = unpacked("tests/golden")
# With and without a class token, with registers, two tokens, norms of queries, LayerScale, other sizes and kinds.
NAMES = [
    "timm_vit", "timm_reg4_cls", "timm_reg4_gap", "timm_qk_norm", "timm_deit3", "timm_distilled", "timm_map",
    "timm_non_square", "timm_dinov3", "timm_kind_shared", "timm_kind_merged", "timm_kind_symmetric", "hf_vit_labels",
    "hf_deit", "hf_dinov2", "hf_vit_non_square",
]


def attended_timm(model, pixels):
    """Logits, and each block's weights in the same graph."""
    weights = []
    handles = [block.attn.attn_drop.register_forward_hook(lambda _, args, out: weights.append(out)) for block in model.blocks]
    logits = model(pixels)
    for handle in handles:
        handle.remove()
    return logits, weights


def attended_hf(model, pixels):
    result = model(pixels, output_attentions=True)
    return result.logits, list(result.attentions)


def relevance(logits, weights, index, prefix, class_token):
    gradients = torch.autograd.grad(logits[:, index].sum(), weights, retain_graph=True)
    tokens = weights[0].shape[-1]
    result = torch.eye(tokens, dtype=logits.dtype).expand(len(logits), tokens, tokens)
    for attention, gradient in zip(weights, gradients):
        result = result + (gradient * attention).clamp(min=0).mean(1) @ result
    return result[:, 0] if class_token else result[:, prefix:].mean(1)


def classes_of(logits):
    count = logits.shape[1]
    return sorted({0, count // 2, count - 1})


def both_precisions(model, attended, pixels, prefix, class_token):
    out = {}
    for suffix, run in (("", model), (".float64", copy.deepcopy(model).double())):
        logits, weights = attended(run, pixels.to(next(run.parameters()).dtype))
        for index in classes_of(logits):
            out[f"class.{index}{suffix}"] = relevance(logits, weights, index, prefix, class_token).detach().contiguous()
        out[f"logits{suffix}"] = logits.detach()
        out[f"rollout{suffix}"] = rollout([w.detach() for w in weights], "mean", 0.0, 0, class_token).contiguous()
    return out


def check(name, tensors):
    for key, value in tensors.items():
        assert value.isfinite().all(), (name, key)
        if key.startswith("class.") and not key.endswith("64"):
            gap = (value - tensors[key + ".float64"]).abs().max()
            assert gap < 1e-4 and (value > 0).sum() > value.numel() / 2, (name, key, gap)


def digits():
    """Two of the drawn digits, prepared as here and not as qkv prepares them: the pixels are stored."""
    model = timm.create_model(
        "vit_base_patch16_224", num_classes=10, img_size=28, patch_size=4, in_chans=1, embed_dim=96, depth=4,
        num_heads=4, checkpoint_path=ROOT / "models/digits/model.safetensors").eval()  # fmt: skip
    images = [Image.open(ROOT / f"examples/digits/{digit}-white.png").convert("L").resize((28, 28)) for digit in (3, 8)]
    pixels = torch.from_numpy(np.stack([np.asarray(image, np.float32) for image in images]))[:, None] / 255
    pixels = (pixels - 0.13) / 0.31
    tensors = both_precisions(model, attended_timm, pixels, 1, True) | {"pixels": pixels}
    check("digits", tensors)
    (ROOT / "tests/explore/golden").mkdir(exist_ok=True)
    save_file(tensors, ROOT / "tests/explore/golden/digits.safetensors")


def main():
    torch.set_num_threads(1)
    for name in NAMES:
        case, folder = CASES[name], FOLDER / name
        model = load(case, folder)
        pixels = load_file(folder / "expected.safetensors")["pixels"]
        if case.library == "timm":
            attended, prefix, class_token = attended_timm, model.num_prefix_tokens, model.cls_token is not None
        else:
            attended, prefix, class_token = attended_hf, 1, True
        with nothing_in_float32():
            tensors = both_precisions(model, attended, pixels, prefix, class_token)
        kept = {key: value for key, value in tensors.items() if key.startswith("class.")}
        check(name, kept)
        save_file(kept, folder / "relevance.safetensors")
        print(f"{name:24} {(folder / 'relevance.safetensors').stat().st_size >> 10:4} KiB")
    pack()
    digits()


if __name__ == "__main__":
    main()
