"""transformers' pipelines by qkv's models: the same calls, the same results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from . import _core
from ._arguments import did_you_mean, positive, texts
from ._generation import NAMES
from ._load import load
from ._model import Model

# Inputs of a generator or data set that are computed together unless batch_size says otherwise.
_TOGETHER = 32

# Options of transformers' pipelines that change no answer here.
_WITHOUT_EFFECT = ("num_workers", "timeout", "return_tensors", "framework", "use_fast", "trust_remote_code")
_FROM_FILES = ("tokenizer", "image_processor", "feature_extractor", "processor", "config")


class Pipeline:
    """What `pipeline` makes: call it with one input, a list, a generator or a data set."""

    def __init__(self, task: str, model: Model, options: dict[str, Any]) -> None:
        self.task = task
        self.model = model
        self._work, self._names = _TASKS[task].work, _TASKS[task].options
        self._options = self._checked(options)

    def __call__(self, inputs: Any, **options: Any) -> Any:
        """As transformers' pipeline: of one input its result, of a list a list, else an iterator of results."""
        chosen = {**self._options, **self._checked(options)}
        together = chosen.pop("batch_size", None)
        if isinstance(inputs, (list, tuple)) and not self._is_single(inputs):
            return self._work(self.model, list(inputs), **chosen)
        if self._is_single(inputs):
            result = self._work(self.model, [inputs], **chosen)[0]
            return [result] if self.task in _LISTED else result
        return self._iterate(inputs, together or _TOGETHER, chosen)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        return f"<qkv.Pipeline {self.task}: {self.model.path}{options}>"

    def _checked(self, options: dict[str, Any]) -> dict[str, Any]:
        _require_cpu(options.pop("device", None))
        if options.get("batch_size") is not None:
            positive("batch_size", options["batch_size"])
        for name in options:
            if name not in self._names and name not in ("batch_size", *_WITHOUT_EFFECT):
                raise TypeError(did_you_mean(f"pipeline: {self.task}", name, (*self._names, "batch_size")))
        return {name: value for name, value in options.items() if name not in _WITHOUT_EFFECT}

    def _is_single(self, inputs: Any) -> bool:
        if self.task in _OF_TEXTS:
            return isinstance(inputs, str) or _is_chat(inputs)
        # An array is an image; a data set and a generator are neither.
        return isinstance(inputs, (str, bytes)) or hasattr(inputs, "__fspath__") or hasattr(inputs, "getbands") or (
            hasattr(inputs, "shape") and not hasattr(inputs, "to_list")
        )  # fmt: skip

    def _iterate(self, inputs: Any, together: int, options: dict[str, Any]) -> Iterator[Any]:
        if isinstance(inputs, Mapping) or not (hasattr(inputs, "__iter__") or hasattr(inputs, "__getitem__")):
            raise TypeError(
                f"pipeline: {self.task}: expected an input, a list, a generator or a data set, got a {type(inputs).__name__}"
            )
        several = iter(inputs)
        while some := list(islice(several, together)):
            yield from self._work(self.model, some, **options)


def pipeline(task: str, model: Any, **options: Any) -> Pipeline:
    """What takes and returns what transformers' pipeline of this task does.

    task: "image-classification", "zero-shot-image-classification", "object-detection", "image-segmentation",
    "image-feature-extraction", "image-to-text", "feature-extraction", "text-generation", "translation",
    "summarization" or "text2text-generation". model: a Model, or what `load` takes, with its options. Options of the
    task, such as top_k or threshold, are those of every call that does not say otherwise. Inputs of a generator or a data
    set are computed batch_size at a time.
    """
    if not isinstance(task, str):
        raise TypeError(f"pipeline: task: expected a text, got a {type(task).__name__}")
    name = "translation" if task.startswith("translation") else task
    if name not in _TASKS:
        raise _core.Error(f"pipeline: no task {task!r}; there are {', '.join(sorted(_TASKS))}")
    for given in _FROM_FILES:
        if options.pop(given, None) is not None:
            raise TypeError(f"pipeline: {given}: qkv reads it from the model's files; leave it out")
    _require_cpu(options.pop("device", None))
    if "torch_dtype" in options:
        options["dtype"] = options.pop("torch_dtype")
    of_calls = (*_TASKS[name].options, "batch_size", *_WITHOUT_EFFECT)
    own = {key: options.pop(key) for key in list(options) if key in of_calls}
    if not isinstance(model, Model):
        model = load(model, **options)
    elif options:
        raise TypeError(did_you_mean(f"pipeline: {name}", next(iter(options)), (*_TASKS[name].options, "batch_size")))
    _require(name, model)
    return Pipeline(name, model, own)


def _require(task: str, model: Model) -> None:
    if not _TASKS[task].fits(model):
        fitting = [name for name, one in _TASKS.items() if one.fits(model)]
        raise _core.Error(
            f"pipeline: {model.path} is no model for {task}; its tasks are {', '.join(fitting) or 'none'}, "
            f"and its methods {', '.join(model.abilities)}"
        )


def _require_cpu(device: Any) -> None:
    if device is not None and str(device) not in ("-1", "cpu"):
        raise TypeError(f'pipeline: device: qkv computes on the CPU; leave it out, or give "cpu" or -1, got {device!r}')


def _is_chat(inputs: Any) -> bool:
    return isinstance(inputs, (list, tuple)) and bool(inputs) and isinstance(inputs[0], Mapping)


def _image_classification(
    model: Model, images: list[Any], top_k: int | None = 5, function_to_apply: Any = None
) -> list[Any]:
    if function_to_apply is not None:
        raise _core.Error("pipeline: function_to_apply: qkv applies the one of the model's configuration; leave it out")
    classes = model.info["classes"]
    found = model.classify(images, top=classes if top_k is None else min(positive("top_k", top_k), classes))
    return [[{"label": p.label, "score": p.score} for p in one] for one in found]


def _zero_shot(
    model: Model, images: list[Any], candidate_labels: Any = None, hypothesis_template: str = "This is a photo of {}."
) -> list[Any]:
    if candidate_labels is None:
        raise TypeError("pipeline: zero-shot-image-classification: candidate_labels= are the classes in words")
    if isinstance(candidate_labels, str):
        candidate_labels = [label.strip() for label in candidate_labels.split(",")]
    labels = texts("candidate_labels", candidate_labels)
    found = model.classify(images, prompts=labels, templates=[hypothesis_template], top=max(1, len(labels)))
    return [[{"score": p.score, "label": p.label} for p in one] for one in found]


def _object_detection(model: Model, images: list[Any], threshold: float = 0.5) -> list[Any]:
    return [
        [
            {
                "score": o.score,
                "label": o.label,
                "box": {"xmin": int(x), "ymin": int(y), "xmax": int(x + w), "ymax": int(y + h)},
            }
            for o in one
            for x, y, w, h in [o.box]
        ]
        for one in model.detect(images, threshold=threshold)
    ]


def _image_segmentation(
    model: Model,
    images: list[Any],
    subtask: Any = None,
    threshold: float | None = None,
    mask_threshold: float | None = None,
    overlap_mask_area_threshold: float | None = None,
) -> list[Any]:
    import PIL.Image

    # A task that is named has transformers' thresholds, a model's own task the engine's.
    usual: dict[str, float] = {"threshold": 0.9} if subtask in ("panoptic", "instance") else {}
    if subtask == "panoptic":
        usual |= {"mask_threshold": 0.5, "overlap": 0.5}
    given = {"threshold": threshold, "mask_threshold": mask_threshold, "overlap": overlap_mask_area_threshold}
    rules = {"task": subtask, **usual, **{name: value for name, value in given.items() if value is not None}}
    return [
        [
            {
                "score": None if one.task == "semantic" else s.score,
                "label": s.label,
                "mask": PIL.Image.fromarray((one.ids == s.id).astype("uint8") * 255),
            }
            for s in one
        ]
        for one in model.segment(images, **rules)
    ]


def _image_features(model: Model, images: list[Any]) -> list[Any]:
    tokens = model.forward(model.preprocess(images), outputs=["tokens"])["tokens"]
    return [tokens[i : i + 1].tolist() for i in range(len(tokens))]


def _image_to_text(model: Model, images: list[Any], **generation: Any) -> list[Any]:
    return [[{"generated_text": one.text}] for one in model.caption(images, **generation)]


def _feature_extraction(model: Model, given: list[Any]) -> list[Any]:
    return [model.forward(input_ids=model.tokenize([one]))["tokens"].tolist() for one in texts("inputs", given)]


def _text_generation(model: Model, given: list[Any], return_full_text: bool = True, **generation: Any) -> list[Any]:
    rows: list[Any] = []
    for prompt in given:
        written: Any
        if _is_chat(prompt):
            text = str(model.chat(prompt, **generation))
            written = [*prompt, {"role": "assistant", "content": text}] if return_full_text else text
        else:
            text = str(model.generate(prompt, **generation))
            written = prompt + text if return_full_text else text
        rows.append([{"generated_text": written}])
    return rows


def _rewriting(method: str, key: str) -> Callable[..., list[Any]]:
    def work(model: Model, given: list[Any], **options: Any) -> list[Any]:
        # A model whose files name no such task reads texts as they are, as in transformers.
        before = None if method in model.abilities and key != "generated_text" else ""
        return [{key: str(one)} for one in getattr(model, method)(given, **{"prefix": before, **options})]

    return work


class _Task:
    """What does it, the abilities of which a model needs one, the options of a call, and whether it needs two towers."""

    def __init__(
        self, work: Callable[..., list[Any]], *abilities: str, also: Iterable[str] = (), towers: bool | None = None
    ) -> None:
        own = work.__code__.co_varnames[2 : work.__code__.co_argcount]  # after the model and the inputs
        self.work, self.abilities, self.options, self.towers = work, abilities, (*own, *also), towers

    def fits(self, model: Model) -> bool:
        able = any(ability in model.abilities for ability in self.abilities)
        return able and self.towers in (None, model._core.has_text_tower)


_WRITING = (*NAMES, "stop")
_REWRITING = (*NAMES, "prefix", "cut")
_TASKS: dict[str, _Task] = {
    "image-classification": _Task(_image_classification, "classify", towers=False),
    "zero-shot-image-classification": _Task(_zero_shot, "classify", towers=True),
    "object-detection": _Task(_object_detection, "detect"),
    "image-segmentation": _Task(_image_segmentation, "segment"),
    "image-feature-extraction": _Task(_image_features, "embed"),
    "image-to-text": _Task(_image_to_text, "caption", also=NAMES),
    "feature-extraction": _Task(_feature_extraction, "encode"),
    "text-generation": _Task(_text_generation, "generate", also=_WRITING),
    "translation": _Task(_rewriting("translate", "translation_text"), "translate", "summarize", also=_REWRITING),
    "summarization": _Task(_rewriting("summarize", "summary_text"), "translate", "summarize", also=_REWRITING),
    "text2text-generation": _Task(_rewriting("translate", "generated_text"), "translate", "summarize", also=_REWRITING),
}
_OF_TEXTS = ("feature-extraction", "text-generation", "translation", "summarization", "text2text-generation")
_LISTED = ("translation", "summarization", "text2text-generation")  # one text gives a list of one
