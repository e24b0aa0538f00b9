"""Writes qkv/model/families/timm_registry.inc: what timm builds for an architecture's name alone.

    python tools/timm_registry.py [OUTPUT]

For each of timm's model names that ends in VisionTransformer (or its distilled form), Eva or Beit, the
arguments its entry point passes where they differ from the class's defaults, and how images
are prepared for its default weights and for other weights where that differs. Names whose
blocks, norms or embeddings qkv does not have are listed with the reason. Nothing is built:
the call is caught before the constructor.
"""
import functools
import inspect
import json
import sys
from pathlib import Path

import torchvision_stub  # noqa: F401  before timm

import timm
import timm.layers
from timm.models import get_arch_pretrained_cfgs, get_deprecated_models, get_pretrained_cfg
from timm.models import beit, deit, eva, vision_transformer, vision_transformer_hybrid, vision_transformer_relpos, vitamin
from timm.models._registry import _model_entrypoints, _model_to_module

OUTPUT = Path(__file__).resolve().parents[1] / "qkv/model/families/timm_registry.inc"
MODULES = [vision_transformer, deit, eva, beit, vision_transformer_hybrid, vision_transformer_relpos, vitamin]
CLASSES = {"VisionTransformer", "VisionTransformerDistilled", "Eva", "Beit"}


def defaults_of(cls):
    parameters = inspect.signature(cls).parameters.items()
    return {name: p.default for name, p in parameters if name not in ("device", "dtype")}


DEFAULTS = defaults_of(vision_transformer.VisionTransformer)
EVA_DEFAULTS = defaults_of(eva.Eva)
BEIT_DEFAULTS = defaults_of(beit.Beit)
# Arguments of the builder and of training, which do not change what is computed.
IGNORED = {
    "pretrained_filter_fn", "pretrained_strict", "feature_cfg", "pretrained_cfg", "pretrained_cfg_overlay",
    "weight_init", "fix_init", "drop_rate", "pos_drop_rate", "patch_drop_rate", "proj_drop_rate",
    "attn_drop_rate", "drop_path_rate",
    "rope_shift_coords", "rope_jitter_coords", "rope_rescale_coords", "head_init_scale",
}  # fmt: skip
RESAMPLING = ("interpolation", "antialias", "align_corners")
CFG_KEYS = ["input_size", "fixed_input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std", "num_classes"]
# The preprocessing that most names share: an entry's "cfg" holds what differs from it.
COMMON_CFG = {
    "input_size": [3, 224, 224],
    "fixed_input_size": True,
    "interpolation": "bicubic",
    "crop_pct": 0.9,
    "crop_mode": "center",
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "num_classes": 1000,
}
LOOKALIKES = ("vit", "deit", "beit", "eva", "samvit", "naflexvit")
ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu"}


class Caught(Exception):
    """Carries what an entry point would have built."""

    def __init__(self, cls, kwargs):
        self.cls, self.kwargs = cls, kwargs


def catch(model_cls, variant, pretrained, **kwargs):
    raise Caught(model_cls, kwargs)


def capture(name):
    try:
        _model_entrypoints[name]()
    except Caught as caught:
        return caught.cls, caught.kwargs
    raise AssertionError(f"{name} was built")


class Unsupported(Exception):
    pass


def describe(cls, kwargs):
    """The arguments in the vocabulary of config.json's model_args. Raises Unsupported."""
    if cls.__name__ not in CLASSES:
        raise Unsupported(f"class {cls.__name__}")
    if cls is eva.Eva:
        return describe_eva(kwargs)
    if cls is beit.Beit:
        return describe_beit(kwargs)
    args = {"distilled": True} if cls.__name__ == "VisionTransformerDistilled" else {}
    # How a checkpoint's position embeddings are brought to another size, where not bicubic with antialias.
    resample = getattr(kwargs.get("pretrained_filter_fn"), "keywords", {})
    args |= {f"pos_embed_{key}": value for key, value in resample.items() if key in RESAMPLING and value is not None}
    for key, value in kwargs.items():
        if key in IGNORED:
            continue
        if key not in DEFAULTS:
            raise Unsupported(f"argument {key}")
        if key == "norm_layer":
            args |= norm(value)
        elif key == "act_layer":
            args |= activation(value)
        elif key == "mlp_layer":
            args["mlp_layer"] = mlp(value)
        elif key == "block_fn":
            args |= blocks(value, kwargs)
        elif key == "attn_layer":
            args |= attention(value)
        elif key == "embed_layer" and value is not DEFAULTS[key]:
            raise Unsupported(f"{plain(value)} patch embedding")
        elif key == "embed_norm_layer":
            if value is not None and norm(value) != norm(kwargs.get("norm_layer")):
                raise Unsupported("a norm of the patch embedding unlike the others")
            args |= {key: norm(value).get("norm_layer", "layernorm")} if value is not None else {}
        elif key == "global_pool" and value == "prr":
            raise Unsupported("patch representation refinement pooling")
        elif value != DEFAULTS[key]:
            args[key] = value
    return args


# Arguments of Eva that change the blocks in a way that qkv does not have.
EVA_UNSUPPORTED = {
    "num_kv_heads": "keys and values shared by heads",
    "attn_only_layer_scale": "LayerScale of attention alone",
}  # fmt: skip


def describe_eva(kwargs):
    args = {}
    for key, value in kwargs.items():
        if key in IGNORED or key in ("dynamic_img_size", "out_indices") or value == EVA_DEFAULTS.get(key, None):
            continue
        if key not in EVA_DEFAULTS:
            raise Unsupported(f"argument {key}")
        if key in EVA_UNSUPPORTED:
            raise Unsupported(EVA_UNSUPPORTED[key])
        if key == "rope_type" and value == "mrope":
            raise Unsupported("rotary positions of three interleaved axes")
        args |= norm(value) if key == "norm_layer" else {key: listed(value)}
    return args


def describe_beit(kwargs):
    args = {}
    for key, value in kwargs.items():
        if key in IGNORED or key == "out_indices" or value == BEIT_DEFAULTS.get(key, None):
            continue
        if key not in BEIT_DEFAULTS:
            raise Unsupported(f"argument {key}")
        args |= norm(value) if key == "norm_layer" else {key: listed(value)}
    return args


def plain(value):
    value = value.func if isinstance(value, functools.partial) else value
    return getattr(value, "__name__", str(value))


def norm(value):
    if value is None:
        return {}
    keywords = value.keywords if isinstance(value, functools.partial) else {}
    name = plain(value).lower().replace("_", "")
    if name not in ("layernorm", "layernormfp32", "rmsnorm"):
        raise Unsupported(f"{plain(value)} instead of LayerNorm")
    eps = keywords.get("eps", 1e-6 if value is not vision_transformer.nn.LayerNorm else 1e-5)
    return ({"norm_layer": name} if name == "rmsnorm" else {}) | ({"norm_eps": eps} if eps != 1e-6 else {})


# Classes of blocks that qkv has beside the default, and why not others.
PARALLEL_BLOCKS = {vision_transformer.ParallelScalingBlock, vision_transformer.DiffParallelScalingBlock}
BLOCKS = {vision_transformer.ResPostBlock} | PARALLEL_BLOCKS
SIDE_BY_SIDE = "blocks of two attention layers and two MLPs side by side (ParallelThingsBlock)"


def blocks(value, kwargs):
    if value is DEFAULTS["block_fn"]:
        return {}
    if value not in BLOCKS:
        things = value is vision_transformer.ParallelThingsBlock
        raise Unsupported(SIDE_BY_SIDE if things else f"{plain(value)} blocks")
    if value in PARALLEL_BLOCKS and kwargs.get("mlp_ratio", 4) not in (4, 5):
        raise Unsupported("parallel blocks whose MLP is not four or five times as wide")
    return {"block_fn": plain(value)}


def attention(value):
    if value in (DEFAULTS["attn_layer"], "", "attn"):
        return {}
    if value not in ("diff", timm.layers.DiffAttention):
        raise Unsupported(f"{value if isinstance(value, str) else plain(value)} attention")
    return {"attn_layer": "diff"}


def activation(value):
    if value is None:
        return {}
    name = value if isinstance(value, str) else ACTIVATIONS.get(value.__name__)
    if name not in ACTIVATIONS.values():
        raise Unsupported(f"activation {value}")
    return {"act_layer": name} if name != "gelu" else {}


def mlp(value):
    if value is timm.layers.SwiGLUPacked:
        return "SwiGLUPacked"
    if plain(value) in ("Mlp", "SwiGLU", "GluMlp"):
        return plain(value)
    raise Unsupported(f"{plain(value)} MLP")


def preprocessing(cfg):
    cfg = cfg.to_dict()
    return {key: listed(cfg[key]) for key in CFG_KEYS if key in cfg}


def listed(value):
    return list(value) if isinstance(value, tuple) else value


def differing(cfg, base):
    return {key: value for key, value in cfg.items() if value != base[key]}


def entry(name, cls, args):
    default = preprocessing(get_pretrained_cfg(name))
    result = {"class": cls.__name__} if cls in (eva.Eva, beit.Beit) else {}
    result |= {"args": args, "cfg": differing(default, COMMON_CFG)}
    tags = {}
    for tagged, cfg in get_arch_pretrained_cfgs(name).items():
        difference = differing(preprocessing(cfg), default)
        if difference:
            tags[tagged.partition(".")[2]] = difference
    if tags:
        result["tags"] = tags
    return result


def raw(value):
    return 'R"j(' + json.dumps(value, separators=(",", ":")) + ')j"'


def main():
    names, renamed = [], {}
    for module in MODULES:
        module.build_model_with_cfg = catch
        short = module.__name__.rpartition(".")[2]
        renamed |= get_deprecated_models(short)
        names += [n for n, m in _model_to_module.items() if m == short]
    known, refused = {}, {}
    for name in sorted(set(names) - renamed.keys()):
        try:
            cls, kwargs = capture(name)
            known[name] = entry(name, cls, describe(cls, kwargs))
        except Unsupported as reason:
            refused[name] = str(reason)
    for name, module in _model_to_module.items():  # those that a user may well take for a plain ViT
        if name.startswith(LOOKALIKES) and name not in known | refused | renamed:
            refused[name] = f"timm's {module}.py, not a VisionTransformer"
    refused = dict(sorted(refused.items()))
    renamed = {old: new for old, new in sorted(renamed.items()) if new.partition(".")[0] in known}

    lines = [
        f"// Written by tools/timm_registry.py from timm {timm.__version__}; do not edit.",
        "// Four lists of brace initialisers, each sorted by name: define one of the macros, then include.",
        "",
        "// The preprocessing that most names share: one string.",
        "#ifdef QKV_TIMM_COMMON_CFG",
        raw(COMMON_CFG),
        "#endif",
        "",
        '// {name, JSON}. "class": "Eva" or "Beit", or VisionTransformer. "args": what the entry point passes where it',
        "// differs from the class's defaults, in the words of config.json's model_args, and \"norm_eps\" (otherwise",
        '// 1e-6), "distilled", and "pos_embed_interpolation", "_antialias", "_align_corners" (otherwise',
        '// bicubic, true, false). "cfg": the preprocessing of its default weights where it differs from',
        '// the common one; "tags": that of its other weights where it differs from its default weights\'.',
        "// What counts: the file's model_args, then \"args\", then num_classes, in_chans and (if",
        "// fixed_input_size) img_size of the pretrained_cfg, then the class's defaults.",
        "#ifdef QKV_TIMM_KNOWN",
        *(f'{{"{name}", {raw(value)}}},' for name, value in known.items()),
        "#endif",
        "",
        "// {old name, name.tag}: names that timm still takes for others.",
        "#ifdef QKV_TIMM_RENAMED",
        *(f'{{"{old}", "{new}"}},' for old, new in renamed.items()),
        "#endif",
        "",
        "// {name, reason}: names that timm has and qkv refuses.",
        "#ifdef QKV_TIMM_REFUSED",
        *(f'{{"{name}", "{reason}"}},' for name, reason in refused.items()),
        "#endif",
    ]
    output = Path(sys.argv[1]) if len(sys.argv) > 1 else OUTPUT
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text("\n".join(lines) + "\n")
    print(f"{output}: {len(known)} known, {len(renamed)} renamed, {len(refused)} refused, {output.stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
