"""Training: runs, and what they leave behind."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Union

from . import _core, _notes, _progress
from ._arguments import boolean, items, path as path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy

    from ._model import Model

    Labelled = tuple[Union[numpy.ndarray, Iterable[Union[str, os.PathLike[str], numpy.ndarray]]], Iterable[Any]]


class Setting(NamedTuple):
    """A setting of training. type: "bool", "int", "float", "str", "size" (28 or (28, 32)), "floats"."""

    group: str
    type: str
    default: str
    meaning: str
    choices: tuple[str, ...]


class Step(NamedTuple):
    """A step of training; loss and accuracy (0 to 1) are of its batch. steps: in all; 0: not yet known."""

    step: int
    steps: int
    epoch: int
    loss: float
    accuracy: float
    learning_rate: float
    rows_per_second: float
    seconds_left: float
    unit: str


class Evaluation(NamedTuple):
    """An evaluation on the validation data; train_loss and train_accuracy are of the steps since the one before."""

    step: int
    epoch: int
    train_loss: float
    train_accuracy: float
    loss: float
    accuracy: float
    best: bool
    more: dict[str, float]


@functools.cache
def training_settings() -> dict[str, Setting]:
    """What `train` and `ablate` take as settings, by name; the defaults are those without a preset."""
    return {
        name.replace("-", "_"): Setting(group, kind, default, meaning, tuple(choices))
        for name, group, kind, default, meaning, choices in _core.training_keys()
    }


def train(
    data: str | os.PathLike[str] | Labelled,
    *,
    out: str | os.PathLike[str],
    model: str | os.PathLike[str] | Model | None = None,
    validation: Labelled | None = None,
    resume: bool = False,
    on_step: Callable[[Step], object] | None = None,
    on_evaluation: Callable[[Evaluation], object] | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> TrainingRun:
    """Trains a model, as `qkv train` does, in the folder `out`, which `qkv.load` opens from the first evaluation on.

    data: a folder of images by class (train/CLASS/… and val/…, or CLASS/…), CIFAR-10 or -100, MNIST, a CSV file; a text
        file; pairs of texts (a .tsv); "task:reverse" and other tasks; or (images, labels), where images are paths (a
        list, a column of a table, …) or a uint8 array [images, height, width] or [images, height, width, channels], and
        labels a class for each; `validation` alike.
    model: a checkpoint to start from, with a new head for the data's classes; without one new weights are trained.
    resume: goes on with the run in `out`, to the bit as if it had not been stopped; without one there, begins it.
    on_step, on_evaluation: are called with each. An exception of theirs stops the run as Ctrl-C does.
    settings: such as epochs=5, lr=1e-4, preset="vit-cifar", attention="shared": `training_settings()` has all of them.

    Ctrl-C ends the step, saves, and raises KeyboardInterrupt; resume=True goes on from there. A second one ends at
    once, with what was saved before. A script under `mpirun -n N` trains one model by N processes, which all call this.

    Raises Error for data, settings or a folder that cannot be used, before anything is written.
    """
    given = texts_of("train", settings)
    goes_on = boolean("train: resume", resume)
    if model is not None:
        given["model"] = _files_of(model)
    folder = path_of("train: out", out)
    with _ending_together(folder), Listener(on_step, on_evaluation, progress) as listener:
        finished = _core.train(_data(data, validation), folder, given, goes_on, listener)
        if not finished:  # the exception was another process's
            raise KeyboardInterrupt
    return TrainingRun(folder)


class TrainingRun:
    """The folder of a run: what it was, how it went, and its model. A run of `qkv train` is opened by its path too."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = path_of("TrainingRun", path)
        if not os.path.exists(os.path.join(self._path, "config.yaml")):
            raise _core.Error(
                f"TrainingRun: there is no {self._path}/config.yaml: expected a folder of qkv.train or `qkv train`"
            )
        self.settings: dict[str, str] = {
            name.replace("-", "_"): value for name, value in _core.run_settings(self._path).items()
        }

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def history(self) -> dict[str, numpy.ndarray]:
        """What was logged of training, by name, [lines] each: step, epoch, loss, accuracy, learning_rate, …"""
        return self._logged("train", "step", "epoch", "loss", "accuracy", "learning_rate")

    @property
    def evaluations(self) -> dict[str, numpy.ndarray]:
        """The same of the evaluations on the validation data: step, epoch, loss, accuracy, train_loss, …"""
        return self._logged("evaluation", "step", "epoch", "train_loss", "train_accuracy", "loss", "accuracy")

    @property
    def best(self) -> dict[str, float] | None:
        """The evaluation whose model `model()` gives, by the names of `evaluations`; None before the first."""
        columns = self.evaluations
        rows = [{name: column[i].item() for name, column in columns.items()} for i in range(len(columns["step"]))]
        # The first of equals is kept.
        by_loss = self._is_judged_by_loss()
        return min(rows, key=lambda row: (0 if by_loss else -row["accuracy"], _finite(row["loss"])), default=None)

    def model(self, *, last: bool = False, **options: Any) -> Model:
        """The best model so far, or the last, with options of `qkv.load`."""
        from ._load import load

        return load(os.path.join(self._path, "last") if last else self._path, **options)

    @property
    def curves(self) -> str:
        """Loss, accuracy and learning rate over the steps, as SVG."""
        return _core.run_curves(self._path)

    def _is_judged_by_loss(self) -> bool:
        """As pairs and texts are, of which it tells more than the share of tokens that are right."""
        import json

        if self.settings["preset"] == "seq-pairs":
            return True
        try:
            with open(os.path.join(self._path, "config.json"), encoding="utf-8") as file:
                return bool(json.load(file).get("tokens") == "bytes")
        except FileNotFoundError:  # no evaluation yet
            return False

    def _logged(self, event: str, *always: str) -> dict[str, numpy.ndarray]:
        """always: names that are there before the first line too."""
        import numpy

        lines = [line for line in _core.run_log(self._path) if line["event"] == event]
        for line in lines:
            if "top1" in line:
                line["accuracy"] = line.pop("top1")
        names = dict.fromkeys([*always, *(name for line in lines for name in line if name != "event")])
        columns = {name: [line.get(name) for line in lines] for name in names}
        return {
            name: numpy.array(column, dtype=numpy.int64 if name in ("step", "epoch") else numpy.float64)
            for name, column in columns.items()
        }

    def __repr__(self) -> str:
        best = self.best
        if best is None:
            return f"<qkv.TrainingRun {self._path}: no evaluation yet>"
        return (
            f"<qkv.TrainingRun {self._path}: {100 * best['accuracy']:.2f} % of the validation data right, "
            f"loss {best['loss']:.4f} (epoch {best['epoch']})>"
        )

    def _repr_html_(self) -> str:
        import html

        words = repr(self)[1:-1]
        return f"<p>{html.escape(words)}</p>" + picture(self.curves, words)


def picture(svg: str, words: str) -> str:
    """An image of its own, whose style is not the page's."""
    import base64
    import html

    data = base64.b64encode(svg.encode()).decode()
    return f'<img alt="{html.escape(words)}" src="data:image/svg+xml;base64,{data}" style="max-width: 100%">'


class Listener:
    """What the engine tells of a run goes to callbacks, to a progress bar, and in words to the logger "qkv"."""

    def __init__(
        self,
        on_step: Callable[[Step], object] | None,
        on_evaluation: Callable[[Evaluation], object] | None,
        progress: bool | None,
        name: str = "",
    ) -> None:
        self._on_step, self._on_evaluation = on_step, on_evaluation
        self._bar = _progress.Steps(progress, name)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._bar.close()

    def __call__(self, event: str, values: Any) -> None:
        if event == "note":
            _notes.tell(values)
        elif event == "step":
            step = Step(**values)
            words = {"epoch": step.epoch, "loss": f"{step.loss:.4f}", "accuracy": f"{100 * step.accuracy:.1f} %"}
            self._bar.show(step.step, step.steps, words)
            if self._on_step:
                self._on_step(step)
        elif event == "evaluation":
            one = Evaluation(**values)
            _notes.tell(
                f"epoch {one.epoch}: training: loss {one.train_loss:.4f}, {100 * one.train_accuracy:.2f} %; "
                f"validation: loss {one.loss:.4f}, {100 * one.accuracy:.2f} %{', best' if one.best else ''}"
            )
            if self._on_evaluation:
                self._on_evaluation(one)


@contextmanager
def _ending_together(folder: str) -> Iterator[None]:
    """Says how to go on. If one of several processes cannot, all end."""
    before = _checkpoint(folder)
    processes = _core.training_processes()
    try:
        yield
    except BaseException as error:
        if _checkpoint(folder) != before:
            error.add_note(f"qkv: what was trained is saved in {folder}; resume=True goes on from there")
        if isinstance(error, Exception) and processes > 1:
            import traceback

            print(f"qkv: process {_core.training_rank() + 1} of {processes}:", file=sys.stderr)
            traceback.print_exc()
            sys.stderr.flush()
            _core.abort_processes(1)
        raise


def _checkpoint(folder: str) -> str:
    """Changes with each save."""
    try:
        return os.readlink(os.path.join(folder, "checkpoint"))
    except OSError:
        return ""


def texts_of(function: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Settings as the configuration has them."""
    known = training_settings()
    texts = {}
    for name, value in settings.items():
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, known, 1)
            raise TypeError(
                f"{function}: unknown setting {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else "; qkv.training_settings() has all of them")
            )
        if value is not None:
            texts[name.replace("_", "-")] = _text_of(known[name].type, value)
    return texts


def _text_of(kind: str, value: Any) -> str:
    if hasattr(value, "item") and not getattr(value, "ndim", 0):  # a number of NumPy
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind in ("size", "floats") and isinstance(value, Iterable) and not isinstance(value, str):
        return ("x" if kind == "size" else ",").join(_text_of("", one) for one in value)
    if kind == "int" and isinstance(value, float) and value.is_integer():
        return str(int(value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _files_of(model: str | os.PathLike[str] | Model) -> str:
    """The files that training starts from, which are read without options of `load`."""
    from ._model import Model

    if not isinstance(model, Model):
        return path_of("train: model", model)
    from ._adapters import source_of

    path, options = source_of(model)
    model._entry("train")
    lost = set(options) - {"dtype", "threads", "cache", "strict"}
    if lost:
        raise _core.Error(f"train: model: training starts from the files of {path}, without {', '.join(sorted(lost))}")
    return path


def _data(data: Any, validation: Labelled | None) -> Any:
    """A path as text, or (classes, [(name, labels, paths or pixels)])."""
    if isinstance(data, (str, os.PathLike)):
        if validation is not None:
            raise TypeError("train: validation is for (images, labels); a folder has its own, val/")
        return path_of("train: data", data)
    splits = [("train", *_labelled("data", data))]
    if validation is not None:
        splits.append(("val", *_labelled("validation", validation)))
    whole = all(isinstance(label, int) for _, labels, _ in splits for label in labels)
    classes = sorted({label for _, labels, _ in splits for label in labels}, key=None if whole else str)
    names = [str(label) for label in classes]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise _core.Error(f"train: labels {classes[names.index(name)]!r} and {classes[i]!r}: two classes of one name")
    index = {label: i for i, label in enumerate(classes)}
    numbered = [(name, [index[label] for label in labels], images) for name, labels, images in splits]
    return names, numbered


def _labelled(name: str, data: Any) -> tuple[list[Any], Any]:
    """(labels, paths or pixels [images, height, width, channels])."""
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError(f"train: {name}: expected a path or (images, labels), got a {type(data).__name__}")
    images, labels = data
    if isinstance(images, (str, bytes)) or isinstance(labels, (str, bytes)):
        raise TypeError(f"train: {name}: expected a path or (images, labels), a label for each image, got {data!r:.60}")
    if not hasattr(images, "dtype") or not hasattr(images, "ndim") or images.ndim == 1:
        images = list(items(f"train: {name}: images", images, "paths or an array"))
    labels = items(f"train: {name}: labels", labels, "classes")
    labels = [label.item() if hasattr(label, "item") and not getattr(label, "ndim", 0) else label for label in labels]
    for i, label in enumerate(labels):
        if _is_missing(label):
            raise _core.Error(f"train: {name}: label {i} is missing ({label!r}): leave its image out")
        if not isinstance(label, (int, float, str)):
            one = "; of one-hot rows, labels.argmax(axis=1)" if isinstance(label, Iterable) else ""
            raise TypeError(f"train: {name}: label {i}: expected a number or name of a class, got {label!r:.60}{one}")
    if len(images) != len(labels):
        raise _core.Error(f"train: {name}: {len(images)} images and {len(labels)} labels")
    if all(isinstance(image, (str, os.PathLike)) for image in images):
        paths = [path_of("train: images", image) for image in images]
        for i, path in enumerate(paths):
            if not os.path.isfile(path):
                raise _core.Error(f"train: {name}: image {i}: there is no file {path}")
        return labels, paths
    import numpy

    pixels = numpy.asarray(images)
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.dtype != numpy.uint8 or pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or 0 in pixels.shape:
        raise TypeError(
            f"train: {name}: an array {list(pixels.shape)} of {pixels.dtype}, expected paths, or uint8 "
            "[images, height, width] or [images, height, width, 1 or 3 channels]"
        )
    return labels, numpy.ascontiguousarray(pixels)


def _is_missing(label: Any) -> bool:
    """None, NaN, and what pandas has for them, which is not equal to itself, nor different."""
    if isinstance(label, float):
        return label != label
    return label is None or type(label).__name__ in ("NAType", "NaTType")


def _finite(loss: float) -> float:
    return loss if loss == loss else float("inf")
