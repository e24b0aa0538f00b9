"""Models by the libraries that qkv reproduces, with random weights, and what they answer.

A `Case` names one configuration. `build` makes the original with weights from the case's own
seed, `save` writes it as the library (or its hub) lays it out on disk, `answers` runs it in
float32 and in float64 and returns the tensors that `qkv run` gives under the same names:

    pixels [B,C,H,W]   logits [B,C]   tokens [B,N,D]   hidden.0..L [B,N,D]   attention.0..L-1 [B,H,N,N]

of a detector

    logits [B,T,C+1]   pred_boxes [B,T,4]

of a model of masks

    class_queries_logits [B,Q,C+1]   masks_queries_logits [B,Q,h,w]

and of a model with two towers, whose logits are the images' vectors before they are normalised,

    input_ids [T,N]   attention_mask [T,N], if any   image_embeds [B,E]   text_embeds [T,E]   logits_per_image [B,T]

Used by generate.py (small goldens in the repository) and tools/verify.py (larger ones, not kept).
"""
import contextlib
import copy
import importlib.util
import json
import sys
import zlib
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import torchvision_stub  # noqa: F401  before timm

import kinds
import rotary
import timm
import timm.layers
import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import load_file, save_file
from timm.layers import DiffAttention
from timm.models import Beit, save_for_hf
from timm.models.vision_transformer import DiffParallelScalingBlock
from vit_pytorch.simple_vit import SimpleViT
from vit_pytorch.vit import ViT

timm.layers.set_fused_attn(False)  # the composed softmax(q kᵀ) v, so that its weights can be seen
transformers.utils.logging.disable_progress_bar()



def old_vit(**args):
    """ViT of vit-pytorch 1.11, which reference_env.sh puts beside the current release."""
    path = Path(sys.prefix) / "vit-pytorch-1.11/vit_pytorch/vit.py"
    spec = importlib.util.spec_from_file_location("vit_pytorch_1_11", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ViT(**args)


VIT_PYTORCH = {"ViT": ViT, "SimpleViT": SimpleViT, "ViT 1.11": old_vit}


@dataclass
class Case:
    """One configuration. `kind` is a timm architecture, a transformers class, or a vit-pytorch class."""

    name: str
    library: str  # "timm" | "transformers" | "vit-pytorch" | "open_clip"
    kind: str
    args: dict  # constructor arguments (timm: model_args)
    size: tuple | None = None  # (H, W) of the pixels, where it is not the trained size
    dtype: torch.dtype = torch.float32  # of the stored weights
    new_names: bool = False  # transformers: the names of version 5's memory instead of the disk's
    shard: str | None = None  # transformers: greatest size of a shard
    extra: dict = field(default_factory=dict)  # timm: further config.json entries
    unsaved: dict = field(default_factory=dict)  # timm: arguments that are classes, which JSON cannot hold
    batch: int = 2


# ------------------------------------------------------------------------------------------------
# Build


def create_timm(case, kind, **args):
    model = timm.create_model(kind, **args, **case.unsaved)
    attention = case.extra.get("qkv_attention")
    return kinds.exchange(model, attention, case.extra.get("qkv_attention_rank")) if attention else model


def build_open_clip(case):
    """CLIP, or CustomTextCLIP where the case says so. timm_args, which open_clip does not know, shrink timm's model."""
    import open_clip  # only here: few cases need it
    from open_clip import timm_model

    args = copy.deepcopy(case.args)
    custom, timm_args = args.pop("custom_text", False), case.unsaved.get("timm_args", {})
    create = timm.create_model
    timm_model.timm.create_model = lambda name, **options: create(name, **{**options, **timm_args})
    try:
        model = (open_clip.model.CustomTextCLIP if custom else open_clip.model.CLIP)(**args, output_dict=True)
    finally:
        timm_model.timm.create_model = create
    return model


def seed_of(name):
    return zlib.crc32(name.encode())


def build(case):
    """The original with random weights, in evaluation mode, every weight representable in case.dtype."""
    torch.manual_seed(seed_of(case.name))
    if case.library == "timm":
        model = create_timm(case, case.kind, **case.args)
    elif case.library == "transformers":
        cls = getattr(transformers, case.kind)
        args = dict(case.args)
        model_args = {k: args.pop(k) for k in ("add_pooling_layer",) if k in args}
        for key in ("text_mask", "text_padding"):
            args.pop(key, None)
        config = cls.config_class(**args)
        config._attn_implementation = "eager"  # data2vec-vision reads it when it is made
        model = cls(config, **model_args)
        if not case.kind.startswith("Data2Vec"):
            model.set_attn_implementation("eager")
    elif case.library == "open_clip":
        model = build_open_clip(case)
    else:
        model = VIT_PYTORCH[case.kind](**case.args)
    randomize(model, torch.Generator().manual_seed(seed_of(case.name)), case.dtype)
    if case.kind.startswith("Eomt"):
        model.attn_mask_probs.zero_()  # as at the end of training
    return model.eval()


@torch.no_grad()
def randomize(model, generator, dtype):
    """Weights that let no mistake hide: nothing is zero or one, and attention is far from uniform."""
    norms = {
        f"{prefix}.weight"
        for prefix, module in model.named_modules()
        if isinstance(module, (torch.nn.LayerNorm, timm.layers.RmsNorm))
    }
    for name, p in sorted(model.named_parameters()):
        noise = torch.randn(p.shape, generator=generator)
        if name in norms:
            value = 1 + 0.25 * noise
        elif name.endswith(("gamma", "lambda1", "gamma_1", "gamma_2", "lambda_1", "lambda_2")):  # LayerScale
            value = 0.7 + 0.25 * noise
        elif name.endswith("relative_position_bias_table"):
            value = noise
        elif ".lambda_" in name:  # of differential attention
            value = 0.4 * noise
        elif name.endswith("freqs"):  # of rotary positions, in radians a patch
            value = 0.5 * noise
        elif name.endswith("bandwidth"):
            value = 0.5 + 0.05 * noise
        elif name.endswith("eigenvalues"):
            value = 1.5 * noise
        elif name.endswith("key_term"):
            value = 0.2 * noise
        elif name.endswith(("qk.query", "qk.key")):  # positional: no layer, but a query and a key of each token
            value = 1.5 * noise
        elif name.endswith("bias"):
            value = 0.2 * noise
        elif name in ("visual.proj", "text_projection"):
            value = noise / p.shape[0] ** 0.5  # transposed
        elif name.endswith(("position_embedding.weight", "token_embedding.weight")):
            value = 0.5 * noise
        elif p.dim() < 2 or name.rsplit(".", 1)[-1] in TOKENS:
            value = 0.5 * noise
        else:  # linear and convolution: unit gain; queries, keys and values twice that
            is_qkv = any(s in name for s in QUERIES_KEYS_VALUES)
            value = noise * (2.0 if is_qkv else 1.0) / p[0].numel() ** 0.5
        p.copy_(value.to(dtype).float())


QUERIES_KEYS_VALUES = ("qkv", "q_proj", "k_proj", "v_proj", "in_proj", "attn_pool.q", "attn_pool.kv", "attn.qk.",
                       "attn.v.")  # fmt: skip

TOKENS = {
    "cls_token", "reg_token", "positional_embedding", "dist_token", "pos_embed", "latent", "pos_embedding", "mask_token",
    "position_embeddings", "mid_position_embeddings", "detection_tokens", "distillation_token", "register_tokens", "probe",
}  # fmt: skip


def vision_args(case):
    return case.args.get("vision_config", case.args.get("vision_cfg", case.args))


def trained_size(case):
    args = vision_args(case)
    size = args["img_size"] if case.library == "timm" else args["image_size"]
    return (size, size) if isinstance(size, int) else tuple(size)


def patches(case):
    (height, width), size = case.size or trained_size(case), case.args["patch_size"]
    return (height // size) * (width // size)


def channels(case):
    args = vision_args(case)
    return args.get("in_chans", args.get("num_channels", args.get("channels", 3)))


# ------------------------------------------------------------------------------------------------
# Texts, for models with two towers


def has_texts(case):
    return case.kind in ("CLIPModel", "SiglipModel") or case.library == "open_clip"


def text_inputs(case):
    """input_ids and, where the case has one, attention_mask: a start, words, an end, padding; a full text; and one
    whose mask also hides words."""
    args = case.args["text_cfg" if case.library == "open_clip" else "text_config"]
    vocabulary, length = args["vocab_size"], args.get("max_position_embeddings", args.get("context_length"))
    start, end = vocabulary - 2, vocabulary - 1
    generator = torch.Generator().manual_seed(seed_of(case.name) + 2)
    ids = torch.randint(3, vocabulary - 2, (3, length), generator=generator)
    mask = torch.ones_like(ids)
    ids[:, 0] = start
    for text, last in enumerate((length // 2, length - 1, length - 3)):
        ids[text, last] = end
        ids[text, last + 1 :] = case.args.get("text_padding", end)
        mask[text, last + 1 :] = 0
    mask[2, 2:4] = 0
    out = {"input_ids": ids}
    if case.args.get("text_mask"):
        out["attention_mask"] = mask
    return out


# ------------------------------------------------------------------------------------------------
# Save


def save(case, model, folder):
    """config.json (and preprocessor_config.json) and the weights, as on the library's hub."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    if case.library == "timm":
        by_name = {k: v.__name__ for k, v in case.unsaved.items()}
        save_for_hf(model, folder, dict(case.extra), model_args=by_name, safe_serialization=True)
    elif case.library == "transformers":
        model.save_pretrained(folder, max_shard_size=case.shard or "5GB")
        if case.new_names:
            save_file(model.state_dict(), folder / "model.safetensors", {"format": "pt"})
        if case.dtype != torch.float32:
            edit_json(folder / "config.json", dtype=str(case.dtype).removeprefix("torch."))
        write_json(folder / "preprocessor_config.json", hf_preprocessor(case))
    elif case.library == "open_clip":
        config = {"model_cfg": case.args, "preprocess_cfg": case.extra}
        if case.unsaved:
            config["timm_args"] = case.unsaved["timm_args"]
        write_json(folder / "open_clip_config.json", config)
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder / "open_clip_model.safetensors")
    else:
        config = {"library_name": "vit-pytorch", "architecture": case.kind.split()[0], **case.args}
        write_json(folder / "config.json", config)
        save_file(model.state_dict(), folder / "model.safetensors")
    if case.dtype != torch.float32:
        weights = load_file(folder / "model.safetensors")
        save_file({k: v.to(case.dtype) for k, v in weights.items()}, folder / "model.safetensors", {"format": "pt"})


def load(case, folder):
    """The model that the library itself reads from the folder, made for the case's image size."""
    folder = Path(folder)
    if case.library == "timm":
        resize = {"img_size": case.size} if case.size else {}
        if "qkv_attention" in case.extra:  # which timm does not read
            model = create_timm(case, case.kind, **case.args)
            model.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
        else:
            model = timm.create_model(f"local-dir:{folder}", pretrained=True, **resize, **case.unsaved)
    elif case.library == "transformers":
        cls = getattr(transformers, case.kind)
        model_args = {k: v for k, v in case.args.items() if k == "add_pooling_layer"}
        model = cls.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", **model_args)
    elif case.library == "open_clip":
        model = build_open_clip(case)
        model.load_state_dict(load_file(folder / "open_clip_model.safetensors"), strict=True)
    else:
        config = json.loads((folder / "config.json").read_text())
        args = {k: tuple(v) if isinstance(v, list) else v for k, v in config.items()}
        args = {k: v for k, v in args.items() if k not in ("library_name", "architecture")}
        model = VIT_PYTORCH[case.kind](**args)
        model.load_state_dict(load_file(folder / "model.safetensors"), strict=True)
    return model.eval()


def hf_preprocessor(case):
    """As google/vit-*, facebook/deit-*, facebook/dinov2-*, openai/clip-* and google/siglip-* hold it on the hub."""
    h, w = trained_size(case)
    common = {
        "do_normalize": True,
        "do_resize": True,
        "do_rescale": True,
        "rescale_factor": 0.00392156862745098,
    }
    imagenet = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
    half = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
    if case.kind.startswith("Siglip"):
        return {**common, **half, "image_processor_type": "SiglipImageProcessor", "resample": 3,
                "size": {"height": h, "width": w}}  # fmt: skip
    if case.kind.startswith("CLIP"):
        clip = {"image_mean": [0.48145466, 0.4578275, 0.40821073], "image_std": [0.26862954, 0.26130258, 0.27577711]}
        return {**common, **clip, "image_processor_type": "CLIPImageProcessor", "resample": 3, "do_convert_rgb": True,
                "size": {"shortest_edge": h}, "do_center_crop": True, "crop_size": {"height": h, "width": w}}  # fmt: skip
    if channels(case) == 1:
        imagenet = half = {"image_mean": [0.5], "image_std": [0.5]}
    if case.kind.startswith(("Beit", "Data2Vec")):
        return {**common, **half, "feature_extractor_type": "BeitFeatureExtractor", "resample": 2, "size": h,
                "do_center_crop": False, "crop_size": h, "do_reduce_labels": False}  # fmt: skip
    if case.kind.startswith(("ViT", "IJepa")):
        return {**common, **half, "image_processor_type": "ViTImageProcessor", "resample": 2,
                "size": {"height": h, "width": w}}  # fmt: skip
    if case.kind.startswith("Yolos"):
        return {**common, **imagenet, "image_processor_type": "YolosImageProcessor", "resample": 2, "do_pad": True,
                "format": "coco_detection", "size": {"shortest_edge": 64, "longest_edge": 107}}  # fmt: skip
    if case.kind.startswith("Eomt"):
        splits = case.name.endswith("semantic")
        return {**common, **imagenet, "image_processor_type": "EomtImageProcessorFast", "resample": 2,
                "do_split_image": splits, "do_pad": not splits, "ignore_index": None,
                "size": {"shortest_edge": h, "longest_edge": None if splits else h}}  # fmt: skip
    if case.kind.startswith("DINOv3"):
        return {**common, **imagenet, "image_processor_type": "DINOv3ViTImageProcessorFast", "resample": 2,
                "do_center_crop": None, "crop_size": None, "size": {"height": h, "width": w}}  # fmt: skip
    crop = {"do_center_crop": True, "crop_size": {"height": h, "width": w}, "resample": 3}
    if case.kind.startswith("DeiT"):
        edge = round(max(h, w) * 256 / 224)
        return {**common, **imagenet, **crop, "image_processor_type": "DeiTImageProcessor",
                "size": {"height": edge, "width": edge}}  # fmt: skip
    return {**common, **imagenet, **crop, "image_processor_type": "BitImageProcessor", "do_convert_rgb": True,
            "size": {"shortest_edge": round(min(h, w) * 256 / 224)}}  # fmt: skip


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def edit_json(path, **values):
    write_json(path, {**json.loads(path.read_text()), **values})


# ------------------------------------------------------------------------------------------------
# Run


def answers(case, model, float64=True):
    """{name: tensor}: pixels, and each output in float32 and, as `name.float64`, in float64."""
    generator = torch.Generator().manual_seed(seed_of(case.name) + 1)
    pixels = torch.randn(case.batch, channels(case), *(case.size or trained_size(case)), generator=generator)
    original, model = model, at_size(case, model)
    out = {"pixels": pixels, **(text_inputs(case) if has_texts(case) else {}), **run(case, model, pixels)}
    if float64:
        with nothing_in_float32():
            # Beit resamples its tables when the size is set: from the trained ones, in float64 as well.
            beit = isinstance(model, Beit)
            exact = at_size(case, copy.deepcopy(original).double()) if beit else copy.deepcopy(model).double()
            rotary.make_exact(exact)
            double = run(case, exact, pixels.double())
        out |= {f"{name}.float64": value for name, value in double.items()}
    return {name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in out.items()}


@torch.no_grad()
def run(case, model, pixels):
    runner = {"timm": run_timm, "transformers": run_transformers, "vit-pytorch": run_vit_pytorch,
              "open_clip": run_open_clip}  # fmt: skip
    return runner[case.library](case, model, pixels)


def at_size(case, model):
    """timm fixes the image size when a model is made; the other libraries interpolate in `forward`."""
    if case.library != "timm" or case.size is None:
        return model
    if isinstance(model, Beit):
        return resized_beit(model, case.size)
    dynamic = timm.create_model(case.kind, **case.args, **case.unsaved, dynamic_img_size=True)
    dynamic.load_state_dict(model.state_dict(), strict=True)
    return dynamic.eval()


@contextlib.contextmanager
def nothing_in_float32():
    """The libraries drop to float32 inside a float64 model in three places: the softmax of HF's ViT and
    BEiT, the interpolation of positions, and timm's λ. Do these in float64 as well."""
    softmax, interpolate = F.softmax, F.interpolate
    factors = {of: of._compute_lambda for of in (DiffAttention, DiffParallelScalingBlock)}
    for of in factors:
        of._compute_lambda = exact_lambda
    F.softmax = lambda x, dim, dtype=None, **kwargs: softmax(x, dim, **kwargs)
    F.interpolate = lambda x, *args, **kwargs: interpolate(x.double(), *args, **kwargs)
    try:
        yield
    finally:
        F.softmax, F.interpolate = softmax, interpolate
        for of, factor in factors.items():
            of._compute_lambda = factor


def exact_lambda(attention):
    first, second = ((q * k).sum().exp() for q, k in ((attention.lambda_q1, attention.lambda_k1),
                                                      (attention.lambda_q2, attention.lambda_k2)))  # fmt: skip
    return first - second + attention.lambda_init


def weights_of(attention, softmax):
    """The weights that values are multiplied by: of timm's differential attention the difference of two maps."""
    if not hasattr(attention, "lambda_init"):
        return softmax
    first, second = softmax.unflatten(1, (-1, 2)).unbind(2)
    return first - attention._compute_lambda() * second


def resized_beit(model, size):
    """A copy of timm's Beit at this image size, whose tables are resampled in the precision of the model."""
    model, to_float = copy.deepcopy(model), torch.Tensor.float
    dtype = model.cls_token.dtype
    torch.Tensor.float = lambda x: x.to(dtype)
    torch.set_default_dtype(dtype)
    try:
        model.set_input_size(size)
    finally:
        torch.Tensor.float = to_float
        torch.set_default_dtype(torch.float32)
    return model.eval()


def run_timm(case, model, pixels):
    out, handles = {}, []
    for i, block in enumerate(model.blocks):
        attention = getattr(block, "attn", block)
        handles += [
            block.register_forward_pre_hook(lambda _, args, i=i: out.setdefault(f"hidden.{i}", args[0])),
            attention.attn_drop.register_forward_hook(
                lambda _, args, softmax, i=i, attention=attention: out.__setitem__(
                    f"attention.{i}", weights_of(attention, softmax))),
        ]  # fmt: skip
    last = model.blocks[-1].register_forward_hook(
        lambda _, args, x: out.__setitem__(f"hidden.{len(model.blocks)}", x))  # fmt: skip
    out["tokens"] = model.forward_features(pixels)
    for handle in handles + [last]:
        handle.remove()
    out["logits"] = model(pixels)
    return out


def run_towers(case, model, pixels):
    vision = getattr(model, "vision_model", model)
    options = {"interpolate_pos_encoding": True} if case.size else {}
    result = vision(pixels, output_hidden_states=True, output_attentions=True, **options)
    out = {"tokens": result.last_hidden_state}
    if case.kind.endswith("ForImageClassification"):
        out["logits"] = model(pixels).logits
    elif result.pooler_output is None:
        out["logits"] = result.last_hidden_state.mean(1)  # SigLIP without its head: qkv's answer is the mean
    elif hasattr(model, "visual_projection"):
        out["logits"] = model.visual_projection(result.pooler_output)
    else:
        out["logits"] = result.pooler_output
    if has_texts(case):
        whole = model(pixel_values=pixels, **text_inputs(case), **options)
        out |= {name: whole[name] for name in ("image_embeds", "text_embeds", "logits_per_image")}
    out |= {f"hidden.{i}": x for i, x in enumerate(result.hidden_states)}
    out |= {f"attention.{i}": x for i, x in enumerate(result.attentions)}
    return out


def run_transformers(case, model, pixels):
    if case.kind.startswith(("CLIP", "Siglip")):
        return run_towers(case, model, pixels)
    if case.kind.startswith("Yolos"):
        return run_yolos(case, model, pixels)
    if case.kind.startswith("Eomt"):
        return run_eomt(case, model, pixels)
    options = {"output_hidden_states": True, "output_attentions": True}
    if case.size and not case.kind.lower().startswith("dino"):
        options["interpolate_pos_encoding"] = True  # DINOv2 always does, DINOv3 has none
    if case.kind.startswith("ViTMAE"):  # all patches, in their order
        model, options["noise"] = getattr(model, "vit", model), torch.arange(1000.0)[None, : patches(case)].repeat(len(pixels), 1)
        model.config.mask_ratio = 0.0
    result = model(pixels, **options)
    norm = model.norm if case.kind.startswith("DINOv3") else getattr(model, model.base_model_prefix, model).layernorm
    if case.kind == "BeitForMaskedImageModeling":
        norm = model.layernorm  # of its head
    tokens = norm(result.hidden_states[-1])  # last_hidden_state, which a classifier does not return
    out = {"tokens": result.last_hidden_state if "last_hidden_state" in result else tokens}
    assert torch.equal(out["tokens"], tokens), "hidden_states[-1] is not what the last layer returned"
    if case.kind == "BeitForMaskedImageModeling":  # without its classes of visual tokens
        out["logits"] = out["tokens"][:, 1:].mean(1)
    elif "logits" in result:
        out["logits"] = result.logits
    else:
        pooled = result.get("pooler_output")
        first = out["tokens"].mean(1) if case.kind.startswith("IJepa") else out["tokens"][:, 0]
        if getattr(model.config, "use_mean_pooling", False):  # BEiT without its pooler
            first = out["tokens"][:, 1:].mean(1)
        out["logits"] = pooled if pooled is not None else first
    out |= {f"hidden.{i}": x for i, x in enumerate(result.hidden_states)}
    out |= {f"attention.{i}": x for i, x in enumerate(result.attentions)}
    return out


def run_yolos(case, model, pixels):
    """Tokens in qkv's order, detection tokens before patches. hidden.i is what enters block i: with its positions."""
    encoder, out = getattr(model, "vit", model).encoder, {}
    handles = [layer.register_forward_pre_hook(lambda _, args, i=i: out.__setitem__(f"hidden.{i}", args[0]))
               for i, layer in enumerate(encoder.layer)]  # fmt: skip
    result = model(pixels, output_hidden_states=True, output_attentions=True)
    for handle in handles:
        handle.remove()
    out[f"hidden.{len(encoder.layer)}"] = result.hidden_states[-1]
    out["tokens"] = result.last_hidden_state
    count = out["tokens"].shape[1]
    first = count - model.config.num_detection_tokens
    order = torch.tensor([0, *range(first, count), *range(1, first)])
    out = {name: value[:, order] for name, value in out.items()}
    out |= {f"attention.{i}": x[:, :, order][..., order] for i, x in enumerate(result.attentions)}
    detects = case.kind.endswith("ForObjectDetection")
    out["logits"] = result.logits if detects else result.pooler_output
    return out | ({"pred_boxes": result.pred_boxes} if detects else {})


def run_eomt(case, model, pixels):
    """Tokens in qkv's order, queries before patches. Where the original has no queries yet, they wait: each is its
    embedding, attends to itself, and no other token attends to it."""
    out, weights, handles = {}, [], []
    for i, layer in enumerate(model.layers):
        handles.append(layer.register_forward_pre_hook(lambda _, args, i=i: out.__setitem__(f"hidden.{i}", args[0])))
        handles.append(layer.attention.register_forward_hook(lambda _, args, result: weights.append(result[1])))
    handles.append(model.layers[-1].register_forward_hook(
        lambda _, args, x: out.__setitem__(f"hidden.{len(model.layers)}", x)))  # fmt: skip
    result = model(pixels)
    for handle in handles:
        handle.remove()
    out["tokens"] = result.last_hidden_state
    B, N, _ = out["tokens"].shape
    Q, prefix = model.config.num_queries, 1 + model.config.num_register_tokens
    order = torch.tensor([*range(Q, Q + prefix), *range(Q), *range(Q + prefix, N)])
    for name, x in out.items():
        if x.shape[1] < N:
            x = torch.cat([model.query.weight[None].expand(B, -1, -1), x], 1)
        out[name] = x[:, order]
    for i, x in enumerate(weights):
        if x.shape[-1] < N:
            all_tokens = torch.eye(N, dtype=x.dtype).expand(*x.shape[:2], N, N).clone()
            all_tokens[..., Q:, Q:] = x
            x = all_tokens
        out[f"attention.{i}"] = x[:, :, order][..., order]
    return out | {name: result[name] for name in ("class_queries_logits", "masks_queries_logits")}


def run_open_clip(case, model, pixels):
    out = {}
    visual = model.visual
    timm_inside = hasattr(visual, "trunk")
    blocks = visual.trunk.blocks if timm_inside else visual.transformer.resblocks
    handles = [b.register_forward_pre_hook(lambda _, args, i=i: out.__setitem__(f"hidden.{i}", args[0]))
               for i, b in enumerate(blocks)]  # fmt: skip
    for i, block in enumerate(blocks):
        if timm_inside:
            hook = lambda _, args, weights, i=i: out.__setitem__(f"attention.{i}", weights)
            handles.append(block.attn.attn_drop.register_forward_hook(hook))
        else:  # torch's MultiheadAttention again, asked for its weights
            hook = lambda module, args, _, i=i: out.__setitem__(
                f"attention.{i}", module.forward(*args, need_weights=True, average_attn_weights=False)[1])  # fmt: skip
            handles.append(block.attn.register_forward_hook(hook))
    handles.append(blocks[-1].register_forward_hook(
        lambda _, args, x: out.__setitem__(f"hidden.{len(blocks)}", x)))  # fmt: skip
    out["logits"] = model.encode_image(pixels)
    for handle in handles:
        handle.remove()
    last = out[f"hidden.{len(blocks)}"]
    if timm_inside:
        out["tokens"] = visual.trunk.norm(last)
    else:  # open_clip's own norm is before or after pooling
        out["tokens"] = last if visual.final_ln_after_pool else visual.ln_post(last)
    ids = text_inputs(case)["input_ids"]
    result = model(pixels, ids)
    out["image_embeds"], out["text_embeds"] = result["image_features"], result["text_features"]
    out["logits_per_image"] = model.get_logits(pixels, ids)[0]
    return out


def run_vit_pytorch(case, model, pixels):
    out, depth = {}, len(model.transformer.layers)
    for i, (attention, _) in enumerate(model.transformer.layers):
        attention.register_forward_pre_hook(lambda _, args, i=i: out.__setitem__(f"hidden.{i}", args[0]))
        attention.attend.register_forward_hook(lambda _, a, w, i=i: out.__setitem__(f"attention.{i}", w))
    model.transformer.norm.register_forward_hook(
        lambda _, args, x: out.update({f"hidden.{depth}": args[0], "tokens": x}))  # fmt: skip
    out["logits"] = model(pixels)
    return out
