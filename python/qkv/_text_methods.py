"""What a model does with texts."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from . import _chat, _core, _progress
from ._arguments import (
    array,
    batch,
    boolean,
    one_or_all,
    positive,
    text,
    text_or_none,
    text_or_texts,
    unit,
    whole,
)
from ._generation import choices, stops, stream
from ._results import Text

if TYPE_CHECKING:
    from typing import Unpack

    from ._types import FloatArray, Generation, Message, Texts

# Texts of one call into the engine.
_CHUNK = 1024
# Sources that an encoder-decoder reads together.
_SOURCES = 32


class TextMethods:
    _core: Any

    def encode(
        self,
        sentences: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        batch_size: int | None = None,
        normalize: bool = False,
        progress: bool | None = None,
        truncate_dim: int | None = None,
        normalize_embeddings: bool | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> FloatArray:
        """Vectors of texts: [texts, width], or of a single text [width].

        prompt: put before each text; prompt_name: one of the model's `prompts`. normalize: to length 1, as those of a
        model with two towers always are. truncate_dim: only so many of the first numbers (Matryoshka models).
        normalize_embeddings, show_progress_bar, convert_to_numpy: what sentence-transformers calls them.
        """
        if not convert_to_numpy:
            raise TypeError("encode: vectors are arrays of NumPy; torch.from_numpy(model.encode(…)) is a tensor")
        shown = progress if show_progress_bar is None else show_progress_bar
        length_one = normalize if normalize_embeddings is None else normalize_embeddings
        boolean("normalize", length_one)
        if truncate_dim is not None:
            positive("truncate_dim", truncate_dim)
        before = text_or_none("prompt", prompt)
        if before is None and prompt_name is not None:
            before = self._prompt(text("prompt_name", prompt_name))
        given, single = text_or_texts("encode", sentences)
        if not given:
            raise _core.Error("encode: no text")
        parts = []
        step = batch(batch_size) or _CHUNK
        with _progress.bar(shown, len(given), "texts") as report:
            for first in range(0, len(given), step):
                some = given[first : first + step]
                parts.append(self._core.embed_texts(some, before)[:, :truncate_dim])
                if report:
                    report(len(some))
        import numpy

        rows: FloatArray = parts[0] if len(parts) == 1 else numpy.concatenate(parts)
        if length_one:
            rows = unit(rows)
        vectors: FloatArray = rows[0] if single else rows
        return vectors

    def encode_query(
        self,
        sentences: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        batch_size: int | None = None,
        normalize: bool = False,
        progress: bool | None = None,
        truncate_dim: int | None = None,
        normalize_embeddings: bool | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> FloatArray:
        """As `encode`, with the prompt "query" if the model has one."""
        return self.encode(
            sentences,
            prompt_name or self._usual_prompt(("query",), prompt),
            prompt,
            batch_size=batch_size,
            normalize=normalize,
            progress=progress,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize_embeddings,
            show_progress_bar=show_progress_bar,
            convert_to_numpy=convert_to_numpy,
        )

    def encode_document(
        self,
        sentences: Texts,
        prompt_name: str | None = None,
        prompt: str | None = None,
        *,
        batch_size: int | None = None,
        normalize: bool = False,
        progress: bool | None = None,
        truncate_dim: int | None = None,
        normalize_embeddings: bool | None = None,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
    ) -> FloatArray:
        """As `encode`, with the prompt "document", "passage" or "corpus" if the model has one."""
        return self.encode(
            sentences,
            prompt_name or self._usual_prompt(("document", "passage", "corpus"), prompt),
            prompt,
            batch_size=batch_size,
            normalize=normalize,
            progress=progress,
            truncate_dim=truncate_dim,
            normalize_embeddings=normalize_embeddings,
            show_progress_bar=show_progress_bar,
            convert_to_numpy=convert_to_numpy,
        )

    def _usual_prompt(self, names: tuple[str, ...], prompt: str | None) -> str | None:
        return None if prompt is not None else next((name for name in names if name in self.prompts), None)

    @functools.cached_property
    def _sentence_settings(self) -> dict[str, Any]:
        return _chat.json_of(self._core.folder, "config_sentence_transformers.json")

    @property
    def prompts(self) -> dict[str, str]:
        """Prompts of a text embedding model by name, from its files."""
        return self._sentence_settings.get("prompts") or {}

    def _prompt(self, name: str) -> str:
        if name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise _core.Error(f"encode: the model has no prompt {name!r}; it has {known}")
        return self.prompts[name]

    def similarity(self, a: Any, b: Any) -> FloatArray:
        """Similarities of each vector of a with each of b, [a, b]: by the function in the model's files, or the cosine."""
        import numpy

        if isinstance(a, str) or isinstance(b, str):
            raise TypeError("similarity: compares vectors: similarity(model.encode(a), model.encode(b))")
        a, b = (numpy.atleast_2d(array("vectors", vectors, numpy.float32)) for vectors in (a, b))
        if a.ndim > 2 or b.ndim > 2 or a.shape[1] != b.shape[1] or not a.shape[1]:
            raise _core.Error(f"similarity: vectors {list(a.shape)} and {list(b.shape)}, expected rows of one width")
        name = self._sentence_settings.get("similarity_fn_name") or "cosine"
        if name == "cosine":
            a, b, name = unit(a), unit(b), "dot"
        scores: FloatArray
        if name == "dot":
            scores = a @ b.T
            return scores
        if name not in ("euclidean", "manhattan"):
            raise _core.Error(f"similarity: the model's files ask for {name!r}, expected cosine, dot, euclidean or manhattan")
        order = 2 if name == "euclidean" else 1
        scores = numpy.stack([-numpy.linalg.norm(b - row, ord=order, axis=1) for row in a])
        return scores

    def tokenize(self, texts: Texts) -> list[list[int]]:
        """Ids of each text."""
        ids: list[list[int]] = self._core.tokenize(text_or_texts("tokenize", texts)[0])
        return ids

    def decode(self, ids: Any, *, skip_special_tokens: bool = True) -> str:
        """The text of ids: of a list, or an array [tokens]. An encoder-decoder's are those of what it writes."""
        if isinstance(ids, (str, bytes)):
            raise TypeError("decode: expected ids, got a text; model.tokenize makes ids of it")
        if not isinstance(ids, Iterable):
            raise TypeError(f"decode: expected a list of ids, got a {type(ids).__name__}")
        nested = isinstance(ids, (list, tuple)) and any(isinstance(one, (list, tuple)) for one in ids)
        if nested or getattr(ids, "ndim", 1) != 1:
            raise TypeError("decode: expected the ids of one text, [tokens]; for several call it for each")
        listed = [whole("decode: ids", one) for one in ids]
        written: str = self._core.decode(listed, not boolean("skip_special_tokens", skip_special_tokens))
        return written

    @overload
    def generate(
        self,
        prompt: str,
        *,
        stream: Literal[False] = False,
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Text: ...
    @overload
    def generate(
        self,
        prompt: str,
        *,
        stream: Literal[True],
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Iterator[str]: ...
    def generate(
        self,
        prompt: str,
        *,
        stream: bool = False,
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Any:
        """What follows the prompt; with stream=True an iterator of its pieces as they come.

        stop: a text, or several, before which the answer ends. Settings are the model's unless given: max_new_tokens, or
        max_length with the prompt's tokens in it; min_new_tokens, temperature (0: the most probable token), top_k, top_p,
        min_p, num_beams, length_penalty, repetition_penalty, no_repeat_ngram_size, seed, do_sample. A run of `train` on a text
        draws bytes, 500 at temperature 1.
        """
        return self._continue("generate", text("prompt", prompt), True, stream, stop, generation)

    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        stream: Literal[False] = False,
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Text: ...
    @overload
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        stream: Literal[True],
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Iterator[str]: ...
    def chat(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Any] | None = None,
        stream: bool = False,
        stop: str | Sequence[str] | None = None,
        **generation: Unpack[Generation],
    ) -> Any:
        """The answer to messages, [{"role": "user", "content": "…"}, …], by the chat template in the model's files.

        tools: descriptions of functions in JSON Schema, for templates that take them. The rest is as of `generate`.
        Needs the package jinja2.
        """
        prompt = self.chat_prompt(messages, tools=tools)  # with its special tokens
        return self._continue("chat", prompt, False, stream, stop, generation)

    def chat_prompt(self, messages: Sequence[Message], *, tools: Sequence[Any] | None = None) -> str:
        """What `chat` gives the model to continue: transformers' apply_chat_template(…, add_generation_prompt=True)."""
        if "generate" not in self._core.methods:
            self._continue("chat", "", False, False, None, {})  # says which models can
        return _chat.render(self._chat_files, messages, tools)

    @functools.cached_property
    def _chat_files(self) -> _chat.Files:
        return _chat.read(self._core.folder)

    def _keep_files(self) -> None:
        """Reads what is else read at its first use, of a model whose files do not stay."""
        self._sentence_settings, self._chat_files

    def _continue(
        self,
        work: str,
        prompt: str,
        special: bool,
        streaming: bool,
        stop: Any,
        generation: Generation,
    ) -> Any:
        chosen, ends = choices(work, generation), stops(stop)
        if boolean("stream", streaming):
            return stream(lambda show: self._core.continue_text(work, prompt, special, chosen, ends, show))
        return Text.of(self._core.continue_text(work, prompt, special, chosen, ends, None))

    @overload
    def translate(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Text: ...
    @overload
    def translate(
        self,
        texts: Iterable[str],
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> list[Text]: ...
    def translate(
        self,
        texts: Texts,
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Any:
        """Texts by an encoder-decoder, such as Marian or T5.

        prefix: put before each ("translate English to German: "), in place of that of the model's files. cut=True cuts
        texts that are longer than the model reads in pieces. generation: as of `generate`; max_length is of what is
        written.
        """
        return self._rewrite("translate", texts, prefix, cut, batch_size, progress, generation)

    @overload
    def summarize(  # type: ignore[overload-overlap]
        self,
        texts: str,
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Text: ...
    @overload
    def summarize(
        self,
        texts: Iterable[str],
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> list[Text]: ...
    def summarize(
        self,
        texts: Texts,
        *,
        prefix: str | None = None,
        cut: bool = False,
        batch_size: int | None = None,
        progress: bool | None = None,
        **generation: Unpack[Generation],
    ) -> Any:
        """As `translate`, with the prefix of the model's files for summaries."""
        return self._rewrite("summarize", texts, prefix, cut, batch_size, progress, generation)

    def _rewrite(
        self,
        task: str,
        texts: Any,
        prefix: str | None,
        cut: bool,
        batch_size: int | None,
        progress: bool | None,
        generation: Generation,
    ) -> Any:
        given, single = text_or_texts(task, texts)
        before, pieces, together = text_or_none("prefix", prefix), boolean("cut", cut), batch(batch_size) or _SOURCES
        chosen = choices(task, generation)
        with _progress.bar(progress, len(given), "texts") as report:
            written = self._core.rewrite(given, task, before, chosen, together, pieces, report)
        return one_or_all([Text.of(one) for one in written], single)
