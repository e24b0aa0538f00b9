"""Live models of timm and transformers, taken over."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _core
from ._load import load
from ._model import Model

# Of the greatest value of the original's answer: a wrong setting is off by as much as the answer itself.
_TOLERANCE = {"fp32": 1e-3, "bf16": 0.1, "int8": 0.25}


def from_timm(
    model: Any, *, model_args: dict[str, Any] | None = None, verify: bool = True, **options: Any
) -> Model:
    """A model of timm.create_model, with its weights as they are now. options: as of `load`.

    model_args: what was given to create_model beside the name and the number of classes, where tensors do not tell it
    (num_heads). verify: both models answer the same pixels or ids, and Error is raised if the answers differ.
    """
    from timm.models import save_for_hf

    if not hasattr(model, "pretrained_cfg"):
        raise TypeError(f"from_timm: expected a model of timm, got a {type(model).__name__}")
    with _folder() as folder:
        # None is what create_model leaves out.
        given = {key: value for key, value in (model_args or {}).items() if value is not None}
        save_for_hf(model, folder, model_args=given, safe_serialization=True)
        taken = load(folder, **options)
        taken._keep_files()
    _forget_folder(taken, f"timm {(model.pretrained_cfg or {}).get('architecture') or type(model).__name__}")
    if verify:
        _compare(taken, model, options, "timm", *_answers_of_timm(model, taken))
    return taken


def from_transformers(model: Any, processor: Any = None, *, verify: bool = True, **options: Any) -> Model:
    """A model of transformers, with its weights as they are now. options: as of `load`.

    processor: its image processor, tokenizer or processor, which says how images and texts are read; without it a text
    model takes ids alone, and images are read as models of this family mostly are. verify: as of `from_timm`.
    """
    if not hasattr(model, "save_pretrained") or not hasattr(model, "config"):
        raise TypeError(f"from_transformers: expected a model of transformers, got a {type(model).__name__}")
    with _folder() as folder:
        model.save_pretrained(folder)
        if processor is not None:
            processor.save_pretrained(folder)
        taken = load(folder, **options)
        taken._keep_files()
    _forget_folder(taken, f"transformers {type(model).__name__}")
    if verify:
        _compare(taken, model, options, "transformers", *_answers_of_transformers(model, taken))
    return taken


@contextmanager
def _folder() -> Iterator[str]:
    """A folder in memory where the system has one."""
    import tempfile

    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(
        prefix="qkv-", dir=memory if os.access(memory, os.W_OK) else None, ignore_cleanup_errors=True
    ) as folder:
        yield folder


def _forget_folder(taken: Model, name: str) -> None:
    """It is gone."""
    taken._source = None
    taken._path = name
    taken._core.rename(name)


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    import torch

    was = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in was.items():
            module.training = training


def _random_pixels(taken: Model) -> Any:
    """Of the size that the model was trained for, whatever its images are resized to."""
    import torch

    shape = 1, taken.info["channels"], *taken.info["stored_image_size"]
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def _place(model: Any, tensor: Any) -> Any:
    """On the model's device; floats in its precision."""
    parameter = next(model.parameters())
    return tensor.to(device=parameter.device, dtype=parameter.dtype if tensor.is_floating_point() else None)


def _answers_of_timm(model: Any, taken: Model) -> tuple[Any, Any]:
    pixels = _random_pixels(taken)
    with _evaluating(model):
        theirs = model(_place(model, pixels))
    arrays = taken.forward(pixels)
    return theirs, arrays["logits" if "logits" in arrays else "pooled"]


def _answers_of_transformers(model: Any, taken: Model) -> tuple[Any, Any]:
    import torch

    if taken._core.is_text:
        ids = torch.arange(2, 10)[None] % model.config.vocab_size
        given = {"input_ids": ids}
        if model.config.is_encoder_decoder:
            given["decoder_input_ids"] = ids[:, :3]
        with _evaluating(model):
            theirs = model(**{key: _place(model, value) for key, value in given.items()})
        arrays = taken.forward(**given)
    else:
        pixels = _random_pixels(taken)
        vision = model.vision_model if taken._core.has_text_tower else model
        with _evaluating(model):
            theirs = vision(pixel_values=_place(model, pixels))
        arrays = taken.forward(pixels)
    # Tokens of YOLOS and EoMT have another order in qkv; the vector of two towers is that of the space they share.
    for name, ours in (
        ("logits", "logits"),
        ("class_queries_logits", "class_queries_logits"),
        ("pooler_output", "" if taken._core.has_text_tower else "pooled"),
        ("last_hidden_state", "tokens"),
    ):
        if getattr(theirs, name, None) is not None and ours in arrays:
            return getattr(theirs, name), arrays[ours]
    raise _core.Error("from_transformers: the model's answer has nothing to compare; verify=False takes it as it is")


def _compare(taken: Model, model: Any, options: dict[str, Any], library: str, theirs: Any, ours: Any) -> None:
    import numpy

    expected = theirs.float().cpu().numpy()
    tolerance = _TOLERANCE.get(options.get("dtype", "fp32"), _TOLERANCE["bf16"])
    if next(model.parameters()).element_size() < 4:  # the original computes in half precision
        tolerance = max(tolerance, _TOLERANCE["bf16"])
    if expected.shape != ours.shape:
        raise _core.Error(
            f"{taken.path}: its answer has the shape {list(expected.shape)}, qkv's {list(ours.shape)}: "
            "the model is not what its configuration says"
        )
    difference = numpy.abs(expected - ours).max() / max(numpy.abs(expected).max(), 1e-30)
    if not difference <= tolerance:
        raise _core.Error(
            f"{taken.path}: qkv's answer to the same input differs from {library}'s by {difference:.2g} of the greatest "
            f"value, expected at most {tolerance:g}: a setting is in no file (model_args=, hints of qkv.load), or the "
            "model was changed after it was made"
        )
