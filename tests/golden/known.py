"""Writes known.tar: published pathology models at shrunk sizes, with random weights, and what the code on their
cards gives for them.

    python tests/golden/known.py [NAME…]

Needs the environment of tools/reference_env.sh. Each folder has the weights as the hub has them, pytorch_model.bin and no
config.json, and expected.safetensors with pixels and features. The arguments are those of the cards; what shrinks them is
SHRUNK, which the test passes by --set. Those of OpenMidnight have the names of DINOv2's authors; that timm's own converter
takes them for its model is checked here.
"""
import json
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import torchvision_stub  # noqa: E402, F401  before timm

import timm  # noqa: E402
from pack import pack, unpacked  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from timm.layers import SwiGLUPacked  # noqa: E402

FOLDER = unpacked("tests/golden") / "known"
SHRUNK = {"embed_dim": 24, "depth": 1, "num_heads": 3}
SMALLER = {"gpfm", "openmidnight"}
SWIGLU = {"mlp_layer": SwiGLUPacked, "act_layer": torch.nn.SiLU}
UNI2 = {
    "init_values": 1e-5, "mlp_ratio": 2.66667 * 2, "num_classes": 0, "no_embed_class": True, "reg_tokens": 8,
    "dynamic_img_size": True, **SWIGLU,
}  # fmt: skip
VIRCHOW = {"init_values": 1e-5, "num_classes": 0, "mlp_ratio": 5.3375, "global_pool": "", "dynamic_img_size": True, **SWIGLU}


def first(output):
    return output


def class_token(output):
    return output[:, 0]


def class_and_mean(prefix):
    return lambda output: torch.cat([output[:, 0], output[:, prefix:].mean(1)], dim=-1)


# name: architecture, patch side, arguments of the card, what the card takes of the output
MODELS = {
    "uni": ("vit_large_patch16_224", 16, {"init_values": 1e-5, "num_classes": 0, "dynamic_img_size": True}, first),
    "uni2-h": ("vit_giant_patch14_224", 14, UNI2, first),
    "virchow": ("vit_huge_patch14_224", 14, VIRCHOW, class_and_mean(1)),
    "virchow2": ("vit_huge_patch14_224", 14, {**VIRCHOW, "reg_tokens": 4}, class_and_mean(5)),
    "h-optimus-0": ("vit_giant_patch14_reg4_dinov2", 14, {"init_values": 1e-5, "num_classes": 0}, first),
    "h0-mini": (
        "vit_base_patch14_reg4_dinov2", 14,
        {"init_values": 1e-5, "num_classes": 0, "mlp_ratio": 5.33334, "global_pool": "", **SWIGLU}, class_token,
    ),
    "gigapath": ("vit_giant_patch14_dinov2", 16, {"mlp_ratio": 5.33334, "num_classes": 0}, first),
    "gpfm": ("vit_large_patch14_dinov2", 14, {"init_values": 1e-5, "num_classes": 0, "dynamic_img_size": True}, first),
    "openmidnight": ("vit_giant_patch14_reg4_dinov2", 14, {"num_classes": 0}, first),
    "kaiko-vitl14": ("vit_large_patch14_reg4_dinov2", 14, {"num_classes": 0, "dynamic_img_size": True}, first),
}  # fmt: skip


def as_by_dinov2(state, model):
    """The state dict in the names of DINOv2's authors, whose class token lies apart from its position."""
    place = torch.randn_like(state["cls_token"])
    names = {".mlp.fc1.": ".mlp.w12.", ".mlp.fc2.": ".mlp.w3.", "reg_token": "register_tokens"}
    theirs = {"mask_token": torch.zeros_like(state["cls_token"][0])}
    for key, value in state.items():
        for ours, other in names.items():
            key = key.replace(ours, other)
        theirs[key] = value
    theirs["cls_token"] = state["cls_token"] - place
    theirs["pos_embed"] = torch.cat([place, state["pos_embed"]], dim=1)
    converted = timm.models.vision_transformer.checkpoint_filter_fn(dict(theirs), model)
    assert converted.keys() == state.keys()
    assert all(torch.allclose(converted[key], value, atol=1e-6) for key, value in state.items())
    return theirs


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MODELS:
        architecture, patch, arguments, take = MODELS[name]
        torch.manual_seed(len(name))
        side = (2 if name in SMALLER else 3) * patch
        shrunk = {**SHRUNK, "embed_dim": 12} if name in SMALLER else SHRUNK
        model = timm.create_model(architecture, img_size=side, patch_size=patch, **arguments, **shrunk).eval()
        with torch.no_grad():
            for key, value in model.named_parameters():
                # Far from the initialisation, which hides a norm, a bias or LayerScale that is forgotten.
                scale = 0.2 if value.dim() > 1 else 0.5
                value.copy_(torch.randn_like(value) * scale + (1 if "norm" in key and "weight" in key else 0))
            pixels = torch.randn(1, 3, side, side)
            features = take(model(pixels)).contiguous()
            double = take(model.double()(pixels.double())).contiguous()
        assert features.isfinite().all() and features.dim() == 2
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        state = {key: value.float() for key, value in model.state_dict().items()}
        torch.save(as_by_dinov2(state, model.float()) if name == "openmidnight" else state, folder / "pytorch_model.bin")
        save_file({"pixels": pixels, "features": features, "features.float64": double}, folder / "expected.safetensors")
        settings = {**shrunk, "img_size": side}
        (folder / "settings.json").write_text(json.dumps(settings) + "\n")
        print(name, list(features.shape), sum(f.stat().st_size for f in folder.iterdir()) >> 10, "KiB")
    pack()


if __name__ == "__main__":
    main()
