"""transformers' pipelines by qkv's models: the same calls, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ._model import Model, load


def pipeline(task: str, model: str | Model, **options: Any) -> Callable[..., Any]:
    """A function that takes and returns what transformers' pipeline of this task does.

    task: "image-classification", "zero-shot-image-classification", "object-detection", "image-segmentation",
    "image-feature-extraction", "image-to-text", "feature-extraction", "text-generation", "translation",
    "summarization" or "text2text-generation". model: a Model, or what `load` takes, with its options.
    """
    if task.startswith("translation"):
        task = "translation"
    if task not in _TASKS:
        raise ValueError(f"pipeline: no task {task!r}; there are {', '.join(sorted(_TASKS))}")
    return _TASKS[task](model if isinstance(model, Model) else load(model, **options))


def _many(results: list[Any], single: bool) -> Any:
    return results[0] if single else results


# Options of transformers' pipelines that change no answer here.
_WITHOUT_EFFECT = {"batch_size", "num_workers", "timeout", "return_tensors"}


def _require_known(options: dict[str, Any]) -> None:
    unknown = [name for name in options if name not in _WITHOUT_EFFECT]
    if unknown:
        raise TypeError(f"pipeline: no option {unknown[0]!r} for this task")


def _is_single(inputs: Any) -> bool:
    return not isinstance(inputs, (list, tuple))


def _image_classification(model: Model) -> Callable[..., Any]:
    def call(inputs: Any, top_k: int = 5, function_to_apply: str | None = None, **others: Any) -> Any:
        _require_known(others)
        if function_to_apply is not None:
            raise ValueError("function_to_apply: qkv applies the one of the model's configuration; leave it out")
        single = _is_single(inputs)
        found = model.classify([inputs] if single else list(inputs), top=top_k)
        return _many([[{"label": p.label, "score": p.score} for p in one] for one in found], single)

    return call


def _zero_shot(model: Model) -> Callable[..., Any]:
    def call(
        image: Any,
        candidate_labels: list[str],
        hypothesis_template: str = "This is a photo of {}.",
        **others: Any,
    ) -> Any:
        _require_known(others)
        single = _is_single(image)
        found = model.classify(
            [image] if single else list(image),
            prompts=list(candidate_labels),
            templates=[hypothesis_template],
            top=len(candidate_labels),
        )
        return _many([[{"score": p.score, "label": p.label} for p in one] for one in found], single)

    return call


def _object_detection(model: Model) -> Callable[..., Any]:
    def call(inputs: Any, threshold: float = 0.5, **others: Any) -> Any:
        _require_known(others)
        single = _is_single(inputs)
        found = model.detect([inputs] if single else list(inputs), threshold=threshold)
        return _many(
            [
                [
                    {
                        "score": o.score,
                        "label": o.label,
                        "box": {"xmin": int(x), "ymin": int(y), "xmax": int(x + w), "ymax": int(y + h)},
                    }
                    for o in one
                    for x, y, w, h in [o.box]
                ]
                for one in found
            ],
            single,
        )

    return call


def _image_segmentation(model: Model) -> Callable[..., Any]:
    def call(
        inputs: Any,
        subtask: str | None = None,
        threshold: float = 0.9,
        mask_threshold: float = 0.5,
        overlap_mask_area_threshold: float = 0.5,
        **others: Any,
    ) -> Any:
        _require_known(others)
        import PIL.Image

        single = _is_single(inputs)
        # transformers' thresholds; a model's own task has the engine's.
        rules: dict[str, Any] = {"task": subtask}
        if subtask in ("panoptic", "instance"):
            rules["threshold"] = threshold
        if subtask == "panoptic":
            rules |= {"mask_threshold": mask_threshold, "overlap": overlap_mask_area_threshold}
        found = model.segment([inputs] if single else list(inputs), **rules)
        return _many(
            [
                [
                    {
                        "score": None if one.task == "semantic" else s.score,
                        "label": s.label,
                        "mask": PIL.Image.fromarray((one.ids == s.id).astype("uint8") * 255),
                    }
                    for s in one
                ]
                for one in found
            ],
            single,
        )

    return call


def _image_features(model: Model) -> Callable[..., Any]:
    def call(images: Any, **others: Any) -> Any:
        _require_known(others)
        single = _is_single(images)
        tokens = model.forward(model.preprocess([images] if single else list(images)), outputs=["tokens"])["tokens"]
        return _many([tokens[i : i + 1].tolist() for i in range(len(tokens))], single)

    return call


def _image_to_text(model: Model) -> Callable[..., Any]:
    def call(inputs: Any, **options: Any) -> Any:
        single = _is_single(inputs)
        found = model.caption([inputs] if single else list(inputs), **options)
        return _many([[{"generated_text": one.text}] for one in found], single)

    return call


def _feature_extraction(model: Model) -> Callable[..., Any]:
    def call(inputs: Any, **others: Any) -> Any:
        _require_known(others)
        single = isinstance(inputs, str)
        rows = []
        for text in [inputs] if single else inputs:
            ids = model.tokenize([text])
            rows.append(model.forward(input_ids=ids)["tokens"].tolist())
        return _many(rows, single)

    return call


def _text_generation(model: Model) -> Callable[..., Any]:
    def call(text_inputs: Any, return_full_text: bool = True, **options: Any) -> Any:
        single = isinstance(text_inputs, str)
        rows = []
        for prompt in [text_inputs] if single else text_inputs:
            text = model.generate(prompt, **options)
            rows.append([{"generated_text": prompt + text if return_full_text else text}])
        return _many(rows, single)

    return call


def _rewriting(key: str, work: Callable[..., Any]) -> Callable[..., Any]:
    def call(texts: Any, **options: Any) -> Any:
        found = work([texts] if isinstance(texts, str) else list(texts), **options)
        return [{key: one} for one in found]

    return call


_TASKS: dict[str, Callable[[Model], Callable[..., Any]]] = {
    "image-classification": _image_classification,
    "zero-shot-image-classification": _zero_shot,
    "object-detection": _object_detection,
    "image-segmentation": _image_segmentation,
    "image-feature-extraction": _image_features,
    "image-to-text": _image_to_text,
    "feature-extraction": _feature_extraction,
    "text-generation": _text_generation,
    "translation": lambda model: _rewriting("translation_text", model.translate),
    "summarization": lambda model: _rewriting("summary_text", model.summarize),
    "text2text-generation": lambda model: _rewriting("generated_text", model.translate),
}
