"""qkv.sklearn: the checks of scikit-learn's estimators, pipelines, searches, pickles, tables."""

import os
import pickle
from pathlib import Path
import numpy as np
import pytest
from support import GOLDEN, ROOT

import qkv

pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_predict  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.utils.estimator_checks import parametrize_with_checks  # noqa: E402
from sklearn.utils.validation import check_is_fitted, validate_data  # noqa: E402

from qkv.sklearn import ImageEmbedder, TextEmbedder, ViTClassifier  # noqa: E402

LABELS = [str(digit) for digit in range(10) for _ in range(2)]
DIGITS = str(ROOT / "models/digits")  # the built-in one has no files to train from
TINY, TEXTS = str(GOLDEN / "timm_vit"), str(GOLDEN / "tasks/bert")


class FromNumbers:
    """scikit-learn's checks speak in rows of numbers: here they are drawn as images, or written as texts."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        return tags

    def fit(self, X, y=None):
        X = validate_data(self, X)
        return super().fit(self.shown(X), y)

    def shown(self, X):
        pixels = np.full((len(X), 256), 128, dtype=np.uint8)
        pixels[:, : X.shape[1]] = np.clip(128 + 24 * X[:, :256], 0, 255)
        return pixels.reshape(-1, 16, 16)

    def read(self, X):
        if self.__sklearn_tags__().requires_fit:
            check_is_fitted(self)
        return self.shown(validate_data(self, X, reset=False))


class ImagesOfNumbers(FromNumbers, ImageEmbedder):
    def transform(self, X):
        return super().transform(self.read(X))


class TextsOfNumbers(FromNumbers, TextEmbedder):
    def shown(self, X):
        return [" ".join(chr(97 + number) for number in row) for row in np.clip(12 + 4 * X, 0, 25).astype(int)]

    def transform(self, X):
        return super().transform(self.read(X))


class ClassesOfNumbers(FromNumbers, ViTClassifier):
    def predict(self, X):
        return super().predict(self.read(X))

    def predict_proba(self, X):
        return super().predict_proba(self.read(X))

    def decision_function(self, X):
        return super().decision_function(self.read(X))


@parametrize_with_checks([ImagesOfNumbers(TINY), TextsOfNumbers(TEXTS), ClassesOfNumbers(TINY)])
def test_as_scikit_learn_expects(estimator, check):
    check(estimator)


def test_embedders_give_what_the_model_gives(digits, digit_photos):
    rows = ImageEmbedder("digits").fit_transform(digit_photos)
    assert rows.dtype == np.float32 and np.array_equal(rows, digits.embed(digit_photos))
    unit = ImageEmbedder(digits, normalize=True, pool="mean", batch_size=3).transform(digit_photos)
    assert np.array_equal(unit, digits.embed(digit_photos, normalize=True, pool="mean"))
    texts = ["attention", "a dog", ""]
    model = qkv.load(TEXTS)
    assert np.array_equal(TextEmbedder(model).transform(texts), model.encode(texts))
    prompted = TextEmbedder(TEXTS, prompt="the ", normalize=True).transform(texts)
    assert np.array_equal(prompted, model.encode(texts, prompt="the ", normalize_embeddings=True))
    assert ImageEmbedder(digits).transform([]).shape == (0, 96) and TextEmbedder(model).transform([]).shape == (0, 24)


def test_samples_as_people_have_them(digits, digit_photos):
    embedder, expected = ImageEmbedder(digits), digits.embed(digit_photos)
    paths = np.array(digit_photos)
    for X in (tuple(digit_photos), paths, paths[:, None], paths.astype(object)[:, None]):
        assert np.array_equal(embedder.transform(X), expected)
    grey = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
    for X in (grey, grey[..., None], list(grey)):
        assert np.array_equal(embedder.transform(X), digits.embed(list(grey)))
    for X, error, words in (
        (digit_photos[0], TypeError, "a list of images"),
        (np.zeros((3, 7)), qkv.Error, "one column of images, got 7"),
        ([1.5], TypeError, "float"),
        ([os.path.dirname(digit_photos[0])], qkv.Error, "find_images"),
    ):
        with pytest.raises(error, match=words):
            embedder.transform(X)


def test_what_cannot_be_read_is_an_error_or_nan(digits, digit_photos, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no image")
    bad = str(tmp_path / "bad.png")
    X = [bad, digit_photos[0], bad, bad, digit_photos[0], digit_photos[1], str(tmp_path / "missing.png")]
    with pytest.raises(qkv.Error, match=r"bad\.png.*sample 0"):
        ImageEmbedder(digits).transform(X)
    rows = ImageEmbedder(digits, on_error="nan").transform(X)
    assert np.isnan(rows).all(axis=1).tolist() == [True, False, True, True, False, False, True]
    assert np.array_equal(rows[[1, 4, 5]], digits.embed([X[1], X[4], X[5]]))
    assert np.isnan(ImageEmbedder(digits, on_error="nan", pool="cls+mean").transform([bad])).shape == (1, 192)


def test_names_of_features_and_tables(digits, digit_photos):
    embedder = ImageEmbedder(digits, pool="cls+mean")
    assert embedder.get_feature_names_out()[-1] == "imageembedder191"
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"photo": digit_photos}, index=LABELS)
    for X in (table, table["photo"], table[["photo"]]):
        shown = clone(embedder).set_output(transform="pandas").fit_transform(X)
        assert shown.shape == (20, 192) and list(shown.index) == LABELS and shown.columns[0] == "imageembedder0"
    from sklearn.compose import make_column_transformer

    both = make_column_transformer((ImageEmbedder(digits), ["photo"]), (TextEmbedder(TEXTS), "caption"))
    assert both.fit_transform(table.assign(caption=LABELS)).shape == (20, 96 + 24)


def test_a_classifier_of_few_photos(digits, digit_photos):
    classifier = ViTClassifier("digits", C=0.1).fit(digit_photos, LABELS)
    assert classifier.classes_.tolist() == sorted(set(LABELS)) and classifier.score(digit_photos, LABELS) == 1
    probabilities = classifier.predict_proba(digit_photos)
    assert probabilities.shape == (20, 10) and np.allclose(probabilities.sum(axis=1), 1)
    assert (classifier.classes_[classifier.decision_function(digit_photos).argmax(axis=1)] == LABELS).all()
    guessed = cross_val_predict(ViTClassifier(digits), digit_photos, LABELS, cv=2)
    assert (guessed == LABELS).mean() >= 0.9


def test_pipelines_and_searches_in_processes(digits, digit_photos, tmp_path):
    pipeline = make_pipeline(ImageEmbedder(digits), LogisticRegression(max_iter=1000), memory=str(tmp_path))
    grid = {"imageembedder__pool": [None, "mean"], "logisticregression__C": [0.1, 1]}
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(digit_photos, LABELS)
    assert search.best_score_ >= 0.9 and search.best_estimator_.score(digit_photos, LABELS) == 1


def test_pickles_have_no_weights(digit_photos, tmp_path):
    import joblib

    classifier = ViTClassifier(qkv.load("digits", dtype="bf16")).fit(digit_photos, LABELS)
    written = pickle.dumps(classifier)
    assert len(written) < 20_000
    joblib.dump(classifier, tmp_path / "classifier.joblib")
    for again in (pickle.loads(written), joblib.load(tmp_path / "classifier.joblib")):
        assert np.array_equal(again.predict_proba(digit_photos), classifier.predict_proba(digit_photos))


def test_fine_tuning():
    """Bars that lie or stand, by a model of digits."""
    places = np.random.default_rng(0).integers(4, 24, 40)
    bars = np.zeros((40, 28, 28), dtype=np.uint8)
    for i, place in enumerate(places):
        (bars[i] if i % 2 else bars[i].T)[place - 1 : place + 2, 4:24] = 255
    labels = ["lies" if i % 2 else "stands" for i in range(40)]
    settings = {"epochs": 6, "lr": 3e-3, "batch": 8, "eval_epochs": 6, "warmup_epochs": 0}
    classifier = ViTClassifier(DIGITS, fine_tune=settings).fit(bars, labels)
    assert classifier.classes_.tolist() == ["lies", "stands"] and classifier.score(bars, labels) >= 0.95
    probabilities, scores = classifier.predict_proba(bars), classifier.decision_function(bars)
    assert probabilities.shape == (40, 2) and np.allclose(probabilities.sum(axis=1), 1)
    assert scores.shape == (40,) and np.array_equal(scores > 0, classifier.predict(bars) == "stands")
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.predict_proba(bars), probabilities)
    same = clone(classifier).fit(bars, labels)
    assert np.array_equal(same.predict_proba(bars), probabilities), "the seed is a setting"
    assert classifier.predict([]).shape == (0,)
    same.set_params(fine_tune=False).fit(bars, labels)
    assert same.score(bars, labels) == 1 and same.n_iter_ > 0


def test_fine_tuning_takes_images_as_all_do(digit_photos):
    once = ViTClassifier(DIGITS, fine_tune={"epochs": 1, "batch": 20})
    array = np.zeros((28, 28), dtype=np.uint8)
    encoded = [Path(path).read_bytes() for path in digit_photos[:-1]]
    for images in (digit_photos, [*encoded, array], [*digit_photos[:-1], array]):
        fitted = once.fit(images, LABELS)
        assert fitted.decision_function(images).shape == (20, 10) and set(fitted.predict(images)) <= set(LABELS)
    with pytest.raises(qkv.Error, match="digits is built in"):
        ViTClassifier("digits", fine_tune=True).fit(digit_photos, LABELS)
    with pytest.raises(qkv.Error, match="without size"):
        ViTClassifier(qkv.load(DIGITS, size=56), fine_tune=True).fit(digit_photos, LABELS)
    with pytest.raises(qkv.Error, match="C and class_weight"):
        ViTClassifier(DIGITS, fine_tune=True, C=2).fit(digit_photos, LABELS)
    with pytest.raises(TypeError, match="epoch"):
        ViTClassifier(DIGITS, fine_tune={"epoch": 1}).fit(digit_photos, LABELS)
    for name in ("out", "resume", "progress"):
        with pytest.raises(TypeError, match=f"fine_tune: unknown setting '{name}'"):
            ViTClassifier(DIGITS, fine_tune={name: True}).fit(digit_photos, LABELS)
    with pytest.raises(TypeError, match="leave model out"):
        ViTClassifier(DIGITS, fine_tune={"model": DIGITS}).fit(digit_photos, LABELS)
    with pytest.raises(TypeError, match="fine_tune: expected True, False or settings"):
        ViTClassifier(DIGITS, fine_tune="yes").fit(digit_photos, LABELS)
    with pytest.raises(qkv.Error, match="image 19: there is no file /nowhere.png"):
        ViTClassifier(DIGITS, fine_tune=True).fit([*digit_photos[:-1], "/nowhere.png"], LABELS)


def test_what_a_model_cannot_do_is_said_by_fit(digits):
    for estimator, words in (
        (TextEmbedder(digits), "digits embeds no texts"),
        (ImageEmbedder(TEXTS), "embeds no images"),
        (ImageEmbedder(digits, pool="tokens"), "tokens"),
        (ImageEmbedder(digits, on_error="skip"), "nan"),
        (ImageEmbedder("nobody/no-such-model"), "no-such-model"),
    ):
        with pytest.raises(qkv.Error, match=words):
            estimator.fit([])
    with pytest.raises(ValueError, match="inconsistent"):
        ViTClassifier(digits).fit(["a.png"], ["a", "b"])
