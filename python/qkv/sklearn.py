"""qkv in scikit-learn: vectors of images and texts as transformers, and a classifier for a few labelled photos.

    >>> from qkv.sklearn import ImageEmbedder, ViTClassifier
    >>> classifier = ViTClassifier("facebook/dinov2-small").fit(paths, labels)
    >>> pipeline = make_pipeline(ImageEmbedder("facebook/dinov2-small"), HDBSCAN())
    >>> clusters = pipeline.fit_predict(qkv.find_images("photos"))

`model` is what qkv.load takes, or a qkv.Model, which clones share. Estimators pickle without weights: the model is
loaded again from its path where they arrive. A fine-tuned classifier holds its own.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy

from . import _core, _images
from ._adapters import ModelOrPath, embed_each, images_of, needs, opened, texts_of
from ._load import load
from ._model import Model
from ._training import texts_of as training_texts

with needs("scikit-learn", "sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline, make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils import Tags
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

__all__ = ["ImageEmbedder", "TextEmbedder", "ViTClassifier"]


class _WithModel(BaseEstimator):
    """An estimator with the parameter `model`, which is opened on first use and not pickled."""

    model: ModelOrPath

    def _opened(self) -> Model:
        given, model = self.__dict__.get("_model", (None, None))
        if model is None or given is not self.model:
            model = opened(self.model)
            self._model = self.model, model
        return model

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_model"}

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


class _Embedder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _WithModel):
    """There is nothing to fit: `fit` opens the model, `transform` alone will do."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Opens the model, so that what is wrong with it is said early. X is not looked at."""
        self._check(self._opened())
        return self

    def _check(self, model: Model) -> None:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = []
        return tags


class ImageEmbedder(_Embedder):
    """Images to vectors.

    X is a list, an array or a column of paths, encoded bytes, PIL images or uint8 arrays [height, width, channels].

    model: what qkv.load takes, or a qkv.Model that embeds images.
    pool: "model", "cls", "mean" or "cls+mean" (default: as the model's authors take it).
    normalize: vectors of length 1.
    on_error: "raise" Error for an image that cannot be read, or give it a row of "nan".
    batch_size: images in a pass (default: as the engine chooses).
    """

    def __init__(
        self,
        model: ModelOrPath,
        *,
        pool: str | None = None,
        normalize: bool = False,
        on_error: Literal["raise", "nan"] = "raise",
        batch_size: int | None = None,
    ) -> None:
        self.model = model
        self.pool = pool
        self.normalize = normalize
        self.on_error = on_error
        self.batch_size = batch_size

    def transform(self, X: Any) -> numpy.ndarray:
        """Vectors [images, width] of float32."""
        model = self._opened()
        self._check(model)
        images = _column(X, "images")
        options = {"pool": self.pool, "normalize": self.normalize, "batch_size": self.batch_size}
        rows, reasons = embed_each(model, images, **options)
        if reasons and self.on_error == "raise":
            first = min(reasons)
            raise _core.Error(f"{reasons[first]} (sample {first}; on_error=\"nan\" gives it a row of NaN)")
        return rows

    def _check(self, model: Model) -> None:
        images_of(model, "ImageEmbedder")
        if self.on_error not in ("raise", "nan"):
            raise _core.Error(f'ImageEmbedder: on_error: expected "raise" or "nan", got {self.on_error!r}')
        if self.pool == "tokens":
            raise _core.Error(
                'ImageEmbedder: pool: "tokens" gives no single vector; expected model, cls, mean or cls+mean'
            )

    @property
    def _n_features_out(self) -> int:
        return self._opened()._image_width(pool=self.pool)


class TextEmbedder(_Embedder):
    """Texts to vectors, as `Model.encode` gives them.

    X is a list, an array or a column of texts.

    model: what qkv.load takes, or a qkv.Model that embeds texts.
    prompt_name, prompt: put before each text; a name is one of the model's `prompts`.
    normalize: vectors of length 1.
    batch_size: texts in a pass (default: as the engine chooses).
    """

    def __init__(
        self,
        model: ModelOrPath,
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        normalize: bool = False,
        batch_size: int | None = None,
    ) -> None:
        self.model = model
        self.prompt_name = prompt_name
        self.prompt = prompt
        self.normalize = normalize
        self.batch_size = batch_size

    def transform(self, X: Any) -> numpy.ndarray:
        """Vectors [texts, width] of float32."""
        model = self._opened()
        self._check(model)
        texts = _column(X, "texts")
        if not texts:
            return numpy.empty((0, model.dimension), dtype=numpy.float32)
        return model.encode(
            texts,
            prompt_name=self.prompt_name,
            prompt=self.prompt,
            normalize_embeddings=self.normalize,
            batch_size=self.batch_size,
        )

    def _check(self, model: Model) -> None:
        texts_of(model, "TextEmbedder")

    @property
    def _n_features_out(self) -> int:
        return self._opened().dimension


def _column(X: Any, what: str) -> list[Any]:
    """One sample an item: of a list, an array or a Series, or of the only column of a table."""
    if isinstance(X, (str, bytes, os.PathLike)):
        raise TypeError(f"X: expected a list of {what}, got one {type(X).__name__}")
    if hasattr(X, "columns"):  # pandas, polars
        X = X.to_numpy()
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2:
        if shape[1] != 1:
            raise _core.Error(f"X: expected one column of {what}, got {shape[1]}")
        X = X[:, 0]
    # Strings of NumPy as Python's; rows of an array of images stay arrays.
    return X.tolist() if getattr(getattr(X, "dtype", None), "kind", "") in ("U", "T") else list(X)


class ViTClassifier(ClassifierMixin, _WithModel):
    """Classes of images, learnt from some labelled ones on a model that was trained on many.

    Without fine-tuning, logistic regression on the vectors of the model, whose weights stay: some hundred photos and
    seconds are enough. To try many settings of it, embed once with ImageEmbedder and search over the rest. X is as of
    ImageEmbedder; y the labels, [images].

    model: what qkv.load takes, or a qkv.Model that embeds images.
    fine_tune: train all weights, as qkv.train does, with a new head: True, or settings such as
        {"epochs": 5, "lr": 1e-4} (qkv.training_settings()). Worth it from some thousand images on. The estimator then
        holds the new weights.
    pool, C, class_weight, max_iter: without fine-tuning, pool as of ImageEmbedder, the others as of
        sklearn.linear_model.LogisticRegression.
    batch_size: images in a pass (default: as the engine chooses).

    After `fit`, `classes_` are the labels, and either `pipeline_` is what was fitted or `files_` the new model's, by
    name.
    """

    def __init__(
        self,
        model: ModelOrPath,
        *,
        fine_tune: bool | dict[str, Any] = False,
        pool: str | None = None,
        C: float = 1.0,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 1000,
        batch_size: int | None = None,
    ) -> None:
        self.model = model
        self.fine_tune = fine_tune
        self.pool = pool
        self.C = C
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.batch_size = batch_size

    def fit(self, X: Any, y: Any) -> ViTClassifier:
        if y is None:
            raise _core.Error("ViTClassifier requires y to be passed, but the target y is None")
        images = _column(X, "images")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        check_consistent_length(images, y)
        model = images_of(self._opened(), "ViTClassifier")
        if self.fine_tune is False:
            embedder = ImageEmbedder(model, pool=self.pool, batch_size=self.batch_size)
            regression = LogisticRegression(C=self.C, class_weight=self.class_weight, max_iter=self.max_iter)
            self.pipeline_: Pipeline | None = make_pipeline(embedder, StandardScaler(), regression).fit(images, y)
            self.classes_: numpy.ndarray = self.pipeline_.classes_
            return self
        if self.pool is not None or self.C != 1.0 or self.class_weight is not None:
            raise _core.Error("ViTClassifier: pool, C and class_weight are for fine_tune=False; leave them out")
        settings = _settings_of(self.fine_tune)
        self.classes_, numbers = numpy.unique(y, return_inverse=True)
        self.pipeline_ = None
        self.files_ = _fine_tuned(model, images, numbers.tolist(), settings)
        self._tuned = _model_of(self.files_)
        return self

    @property
    def n_iter_(self) -> numpy.ndarray:
        if self.pipeline_ is None:
            raise AttributeError("n_iter_: is of logistic regression; this classifier is fine-tuned")
        return self.pipeline_[-1].n_iter_

    def predict(self, X: Any) -> numpy.ndarray:
        """The most probable label of each image, [images]."""
        check_is_fitted(self)
        if self.pipeline_ is not None:
            return self.pipeline_.predict(X)
        return self.classes_[self._logits(X).argmax(axis=1)]

    def predict_proba(self, X: Any) -> numpy.ndarray:
        """Probabilities [images, classes], in the order of `classes_`."""
        check_is_fitted(self)
        if self.pipeline_ is not None:
            return self.pipeline_.predict_proba(X)
        powers = numpy.exp(self._logits(X))
        return powers / powers.sum(axis=1, keepdims=True)

    def decision_function(self, X: Any) -> numpy.ndarray:
        """Scores before the softmax, [images, classes], or [images] for two classes."""
        check_is_fitted(self)
        if self.pipeline_ is not None:
            return self.pipeline_.decision_function(X)
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def _logits(self, X: Any) -> numpy.ndarray:
        """Of the fine-tuned model, [images, classes]; the greatest is 0."""
        if "_tuned" not in self.__dict__:
            self._tuned = _model_of(self.files_)
        images = _column(X, "images")
        answers = self._tuned.classify(images, logits=True, top=1, batch_size=self.batch_size)
        logits = numpy.array([answer.logits for answer in answers], dtype=numpy.float64).reshape(-1, len(self.classes_))
        return logits - logits.max(axis=1, keepdims=True, initial=-numpy.inf)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_tuned"}


def _settings_of(fine_tune: Any) -> dict[str, Any]:
    if fine_tune is True:
        return {}
    if not isinstance(fine_tune, Mapping):
        raise TypeError(f"ViTClassifier: fine_tune: expected True, False or settings of training, got {fine_tune!r}")
    if "model" in fine_tune:
        raise TypeError("ViTClassifier: fine_tune: training starts from the classifier's model; leave model out")
    training_texts("ViTClassifier: fine_tune", fine_tune)  # what else train takes is the classifier's
    return dict(fine_tune)


# What is loaded of a run; the rest goes on with training.
_FILES = ("config.json", "model.safetensors")


def _fine_tuned(model: Model, images: list[Any], numbers: list[int], settings: dict[str, Any]) -> dict[str, bytes]:
    """The files of the model after training, by name. numbers: classes from 0."""
    from . import train

    with tempfile.TemporaryDirectory(prefix="qkv-") as folder:
        out = os.path.join(folder, "run")
        train((_for_training(images, folder), numbers), out=out, model=model, progress=False, **settings)
        return {name: Path(out, name).read_bytes() for name in _FILES}


def _for_training(images: list[Any], folder: str) -> Any:
    """Paths, or an array of images of one size: what is neither is written to the folder."""
    items = _images.all_of(images)
    if len(items) != len(images):
        raise _core.Error("fit: a folder among the images; qkv.find_images(folder) lists what is in it")
    if not any(isinstance(item, (str, bytes)) for item in items) and len({numpy.shape(item) for item in items}) == 1:
        return numpy.stack(items)
    return [_written(item, os.path.join(folder, f"{i}.png")) for i, item in enumerate(items)]


def _written(item: Any, path: str) -> str:
    if isinstance(item, str):
        return item
    if isinstance(item, bytes):
        Path(path).write_bytes(item)  # of any format: files are recognised by their content
    else:
        import PIL.Image

        PIL.Image.fromarray(numpy.asarray(item)).save(path)
    return path


def _model_of(files: dict[str, bytes]) -> Model:
    with tempfile.TemporaryDirectory(prefix="qkv-") as folder:
        for name, content in files.items():
            Path(folder, name).write_bytes(content)
        return load(folder)
