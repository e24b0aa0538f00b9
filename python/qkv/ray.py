"""Vectors of many images or texts by Ray Data: a pool of actors on one machine or many.

    import qkv.ray

    vectors = qkv.ray.embed_images("photos/", "facebook/dinov2-small", "vectors/")  # a ray.data.Dataset, and Parquet

All actors of a machine share one mapped copy of the weights. Model and images must have the same paths on every
machine. Training over several machines is that of `qkv train` under mpirun.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
from collections.abc import Iterable
from typing import Any

import numpy

from . import _core
from ._adapters import ModelOrPath, embed_each, images_of, needs, opened, source_of, texts_of
from ._load import find_images, load
from ._model import Model

with needs("ray[data]", "ray"):
    import pyarrow
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet
    import ray
    import ray.data
    from ray.data.block import BlockAccessor

__all__ = ["embed_images", "embed_texts"]

# Of the greatest number of a vector: what instruction sets differ by. A model that was trained on differs by more in
# float32; in coarser types it may not, if it was trained a little.
_TOLERANCE, _COARSE_TOLERANCE = 1e-4, 1e-2


def embed_images(
    images: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] | ray.data.Dataset,
    model: ModelOrPath,
    output: str | os.PathLike[str] | None = None,
    *,
    column: str = "path",
    key: str | None = None,
    pool: str | None = None,
    normalize: bool = False,
    batch_size: int = 1024,
    workers: int | None = None,
    threads: int = 1,
    retry: bool = False,
) -> ray.data.Dataset:
    """The images with their vectors, "embedding" [width] of float32; where one cannot be read, "error" says why and the
    vector is NaN.

    images: a folder, paths, or a Dataset with a column of paths, of encoded bytes (ray.data.read_binary_files with
        include_paths=True, from any storage) or of arrays [height, width, channels]. Its other columns are kept.
    model: what qkv.load takes, or a qkv.Model whose files every machine has.
    output: a folder, here or of a storage such as "s3://bucket/vectors", for Parquet files, each written whole:
        "part-*" with vectors and "unread-*" with errors. What it has already is not computed again, so the same call
        goes on where a stopped one was. An Error if its vectors are of another model or other settings. None: nothing
        is written, and the Dataset is computed when it is read.
    column, key: the column of images, and the one by which they are known in `output` (default: the same).
    pool, normalize: as of Model.embed.
    batch_size: images of a file of `output`: the most that is lost when a machine fails.
    workers: actors (default: as many as there are cores for, or for a Dataset up to as many).
    threads: cores of each.
    retry: try again what could not be read.
    """
    if isinstance(images, (str, os.PathLike)):
        images = find_images(images)
    settings = {"pool": pool, "normalize": normalize}
    data = images if isinstance(images, ray.data.Dataset) else [_path(image) for image in images]
    columns = column, key or column
    return _embed(data, _Images, opened(model), settings, output, columns, batch_size, workers, threads, retry)


def embed_texts(
    texts: Iterable[str] | ray.data.Dataset,
    model: ModelOrPath,
    output: str | os.PathLike[str] | None = None,
    *,
    column: str = "text",
    key: str | None = None,
    prompt_name: str | None = None,
    prompt: str | None = None,
    normalize: bool = False,
    batch_size: int = 1024,
    workers: int | None = None,
    threads: int = 1,
    retry: bool = False,
) -> ray.data.Dataset:
    """The texts with their vectors, as embed_images; what is no text has an "error".

    prompt_name, prompt, normalize: as prompt_name, prompt and normalize_embeddings of Model.encode.
    """
    settings = {"prompt_name": prompt_name, "prompt": prompt, "normalize_embeddings": normalize}
    if isinstance(texts, str):
        raise TypeError("embed_texts: expected texts, got one text")
    data = texts if isinstance(texts, ray.data.Dataset) else list(texts)
    for text in data if isinstance(data, list) else ():
        if not isinstance(text, str):
            raise TypeError(f"embed_texts: expected texts, got a {type(text).__name__}")
    columns = column, key or column
    return _embed(data, _Texts, opened(model), settings, output, columns, batch_size, workers, threads, retry)


def _path(image: Any) -> str:
    if not isinstance(image, (str, os.PathLike)):
        raise TypeError(f"embed_images: expected paths or a Dataset, got a {type(image).__name__}")
    return os.fspath(image)


class _Images:
    """Vectors of images, and why some have none."""

    @staticmethod
    def check(model: Model) -> None:
        images_of(model, "embed_images")

    @staticmethod
    def rows(model: Model, images: list[Any], settings: dict[str, Any]) -> tuple[numpy.ndarray, dict[int, str]]:
        return embed_each(model, images, progress=False, **settings)

    @staticmethod
    def sample(model: Model) -> Any:
        """Noise, whose vector tells models and settings apart."""
        height, width = model.info["image_size"]
        shape = height, width, model.info["channels"]
        return numpy.random.default_rng(0).integers(0, 256, shape, dtype=numpy.uint8)


class _Texts:
    """Vectors of texts, and what was none."""

    @staticmethod
    def check(model: Model) -> None:
        texts_of(model, "embed_texts")

    @staticmethod
    def rows(model: Model, texts: list[Any], settings: dict[str, Any]) -> tuple[numpy.ndarray, dict[int, str]]:
        reasons = {i: f"expected a text, got {text!r:.50}" for i, text in enumerate(texts) if not isinstance(text, str)}
        rows = numpy.full((len(texts), model.dimension), numpy.nan, dtype=numpy.float32)
        places = [i for i in range(len(texts)) if i not in reasons]
        if places:
            rows[places] = model.encode([texts[i] for i in places], show_progress_bar=False, **settings)
        return rows, reasons

    @staticmethod
    def sample(model: Model) -> Any:
        return "a dog"


def _embed(
    data: ray.data.Dataset | list[str],
    kind: type[_Images] | type[_Texts],
    model: Model,
    settings: dict[str, Any],
    output: str | os.PathLike[str] | None,
    columns: tuple[str, str],
    batch_size: int,
    workers: int | None,
    threads: int,
    retry: bool,
) -> ray.data.Dataset:
    for name, number in (("batch_size", batch_size), ("threads", threads), ("workers", workers)):
        if number is not None and number < 1:
            raise _core.Error(f"{name}: expected at least 1, got {number}")
    kind.check(model)
    column, key = columns
    folder = None if output is None else _Folder(os.fspath(output), key)
    done = None
    if folder is not None:
        (sample,), _ = kind.rows(model, [kind.sample(model)], settings)
        folder.open({"model": model.path, **source_of(model)[1], **settings}, sample, retry)
        done = folder.done()
    if isinstance(data, list):
        # A list has no parts of its own: each batch is one. What occurs twice is computed once.
        table = pyarrow.table({column: pyarrow.array(dict.fromkeys(data), pyarrow.string())})
        table = _missing(table, key=key, done=done)
        dataset = ray.data.from_arrow([table.slice(i, batch_size) for i in range(0, max(len(table), 1), batch_size)])
        batches = -(-len(table) // batch_size)
        if folder is not None and not batches:
            return folder.read()
    else:
        _check_columns(data, column, None if folder is None else key)
        dataset, batches = data, None
        if done is not None:
            skip = {"key": key, "done": done}
            dataset = data.map_batches(_missing, batch_format="pyarrow", batch_size=None, fn_kwargs=skip)
    if not ray.is_initialized():
        ray.init()
    fitting = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
    if workers is not None:
        pool = ray.data.ActorPoolStrategy(size=workers)
    elif batches is not None:
        pool = ray.data.ActorPoolStrategy(size=min(fitting, max(batches, 1)))
    else:
        pool = ray.data.ActorPoolStrategy(min_size=1, max_size=fitting)
    results = dataset.map_batches(
        _Worker,
        fn_constructor_args=(kind, source_of(model), settings, column, threads, folder),
        batch_format="pyarrow",
        batch_size=batch_size,
        compute=pool,
        num_cpus=threads,
    )
    if folder is None:
        return results
    # What the actors return here is counts.
    counts = list(results.iter_rows())
    embedded, unread = (sum(row[name] for row in counts) for name in ("embedded", "unread"))
    told = "%s: %d embedded, %d could not be read, %d were there"
    logging.getLogger("qkv").info(told, output, embedded, unread, len(done))
    return folder.read()


class _Worker:
    """An actor with its model."""

    def __init__(
        self,
        kind: type[_Images] | type[_Texts],
        source: tuple[str, dict[str, Any]],
        settings: dict[str, Any],
        column: str,
        threads: int,
        folder: _Folder | None,
    ) -> None:
        self._kind = kind
        self._settings = settings
        self._column = column
        self._folder = folder
        self._model = _load_mapped(source[0], {**source[1], "threads": threads})

    def __call__(self, table: pyarrow.Table) -> pyarrow.Table:
        values = _values(table[self._column])
        rows, reasons = self._kind.rows(self._model, values, self._settings)
        vectors = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(rows.ravel()), rows.shape[1])
        errors = pyarrow.array([reasons.get(i) for i in range(len(rows))], pyarrow.string())
        embedded = table.append_column("embedding", vectors).append_column("error", errors)
        return embedded if self._folder is None else self._folder.write(embedded, self._column)


def _load_mapped(path: str, options: dict[str, Any]) -> Model:
    """With weights that all processes of this machine share.

    The first builds them and writes the cache; loaded again, it maps what it wrote, as all others do.
    """
    import fcntl
    import tempfile

    name = hashlib.sha256(f"{path} {sorted(options.items())}".encode()).hexdigest()[:16]
    with open(os.path.join(tempfile.gettempdir(), f"qkv-ray-{os.getuid()}-{name}.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        load(path, **{**options, "cache": True})
        return load(path, **{**options, "cache": True})


def _values(column: pyarrow.ChunkedArray) -> list[Any]:
    if isinstance(column.type, pyarrow.ExtensionType):  # tensors of Ray
        return list(BlockAccessor.for_block(pyarrow.table({"column": column})).to_numpy("column"))
    return column.to_pylist()


def _check_columns(data: ray.data.Dataset, column: str, key: str | None) -> None:
    """On the driver, since what an actor raises comes in Ray's own error."""
    schema = data.schema()
    if schema is None:  # no rows
        return
    types = dict(zip(schema.names, schema.types))
    for name in (column, key or column):
        if name not in types:
            raise _core.Error(f"no column {name!r} in the data; there are {', '.join(schema.names)}")
    if key is not None and isinstance(types[key], pyarrow.DataType) and not _is_plain(types[key]):
        raise _core.Error(f'key: {key!r} is {types[key]}, expected texts; key="path" for images with their paths')


def _missing(table: pyarrow.Table, key: str, done: pyarrow.Array | None) -> pyarrow.Table:
    """Rows whose key is not done."""
    if done is None:
        return table
    there = pyarrow.compute.is_in(table[key].cast(pyarrow.string()), value_set=done)
    return table.filter(pyarrow.compute.invert(there))


class _Folder:
    """The folder of results: a file for each batch, each written whole, and settings.json."""

    def __init__(self, output: str, key: str) -> None:
        self._key = key
        if "://" in output:
            self._files, self._path = pyarrow.fs.FileSystem.from_uri(output)
        else:
            self._files, self._path = pyarrow.fs.LocalFileSystem(), os.path.abspath(output)

    def open(self, settings: dict[str, Any], sample: numpy.ndarray, retry: bool) -> None:
        """Makes the folder, or compares the vector of a sample with that of the run before."""
        self._files.create_dir(self._path, recursive=True)
        name = f"{self._path}/settings.json"
        if self._files.get_file_info(name).type == pyarrow.fs.FileType.NotFound:
            if self._parts():
                raise _core.Error(f"{self._path}: Parquet files without settings.json; expected an empty folder")
            written = json.dumps({**settings, "key": self._key, "sample": sample.tolist()}, default=str)
            self._whole(name, lambda out: out.write(written.encode()))
            return
        with self._files.open_input_stream(name) as file:
            before = json.loads(file.read())
        there = numpy.array(before["sample"], dtype=numpy.float32)
        single = settings.get("dtype") in (None, "fp32", "float32", "float")
        tolerance = _TOLERANCE if single else _COARSE_TOLERANCE
        same = there.shape == sample.shape and numpy.abs(there - sample).max() <= tolerance * numpy.abs(there).max()
        if not same or before["key"] != self._key or before.get("dtype") != settings.get("dtype"):
            told = ", ".join(f"{name}={value!r}" for name, value in before.items() if name != "sample" and value)
            raise _core.Error(
                f"{self._path} has vectors of other settings ({told}); expected the same, or another folder"
            )
        if retry:
            for path in self._parts():
                if os.path.basename(path).startswith("unread-"):
                    self._files.delete_file(path)

    def done(self) -> pyarrow.Array:
        """Keys of the rows that are there."""
        parts = self._parts()
        if not parts:
            return pyarrow.array([], pyarrow.string())
        keys = pyarrow.dataset.dataset(parts, filesystem=self._files).to_table(columns=[self._key])[self._key]
        return keys.cast(pyarrow.string()).combine_chunks()

    def write(self, table: pyarrow.Table, column: str) -> pyarrow.Table:
        """Rows with vectors and rows with errors, a file each; returns how many.

        Named by their keys: a batch that is computed again, since its actor died, replaces what it wrote.
        """
        if column != self._key and not _is_plain(table[column].type):
            table = table.drop_columns([column])  # the images themselves
        read = pyarrow.compute.is_null(table["error"])
        counts = {}
        for prefix, rows in (("part", table.filter(read)), ("unread", table.filter(pyarrow.compute.invert(read)))):
            counts[prefix] = len(rows)
            if len(rows):
                keys = hashlib.sha256(json.dumps(rows[self._key].to_pylist()).encode()).hexdigest()[:32]
                write = functools.partial(pyarrow.parquet.write_table, rows)
                self._whole(f"{self._path}/{prefix}-{keys}.parquet", write)
        return pyarrow.table({"embedded": [counts["part"]], "unread": [counts["unread"]]})

    def read(self) -> ray.data.Dataset:
        parts = self._parts()
        if not parts:
            return ray.data.from_items([])
        return ray.data.read_parquet(parts, filesystem=self._files)

    def _parts(self) -> list[str]:
        found = self._files.get_file_info(pyarrow.fs.FileSelector(self._path))
        return sorted(file.path for file in found if file.base_name.endswith(".parquet"))

    def _whole(self, path: str, write: Any) -> None:
        """Under another name until all is there."""
        unfinished = f"{path}.{os.getpid()}.tmp"
        with self._files.open_output_stream(unfinished) as out:
            write(out)
        self._files.move(unfinished, path)


def _is_plain(type_: pyarrow.DataType) -> bool:
    return not isinstance(type_, pyarrow.ExtensionType) and not pyarrow.types.is_binary(type_)
