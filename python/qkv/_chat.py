"""Chat templates: messages as the text that a model was trained on, as transformers renders them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core

if TYPE_CHECKING:
    from ._types import Message

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Files(NamedTuple):
    """Templates by name, and the special tokens that they write."""

    folder: str
    templates: dict[str, str]
    tokens: dict[str, str]


def read(folder: str) -> Files:
    """The chat templates of a model's folder: chat_template.jinja, chat_template.json or tokenizer_config.json."""
    config = json_of(folder, "tokenizer_config.json")
    given = json_of(folder, "chat_template.json").get("chat_template") or config.get("chat_template") or {}
    if isinstance(given, list):
        given = {one["name"]: one["template"] for one in given}
    templates = {"default": given} if isinstance(given, str) else dict(given)
    file = os.path.join(folder, "chat_template.jinja")
    if folder and os.path.exists(file):
        with open(file, encoding="utf-8") as opened:
            templates["default"] = opened.read()
    named = {**config, **json_of(folder, "special_tokens_map.json")}
    tokens = {}
    for name in _SPECIAL:
        token = named.get(name)
        if isinstance(token, dict):
            token = token.get("content")
        if isinstance(token, str):
            tokens[name] = token
    return Files(folder, templates, tokens)


def render(files: Files, messages: Sequence[Message], tools: Sequence[Any] | None) -> str:
    """The prompt whose continuation is the answer. Throws Error for messages that the template refuses."""
    _require_messages(messages)
    if not files.templates:
        raise _core.Error("chat: the model's files have no chat template; generate continues a text")
    named = "tool_use" if tools and "tool_use" in files.templates else "default"
    if named not in files.templates:
        raise _core.Error(f"chat: the model's templates are {', '.join(files.templates)}, none is the default")
    try:
        import jinja2
    except ImportError:
        raise ImportError("chat: the model's template needs jinja2: pip install jinja2") from None
    try:
        text: str = (
            _environment()
            .from_string(files.templates[named])
            .render(messages=list(messages), tools=tools, documents=None, add_generation_prompt=True, **files.tokens)
        )
    except jinja2.TemplateError as error:
        raise _core.Error(f"chat: the model's template: {error}") from None
    return text


def _require_messages(messages: Any) -> None:
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f'chat: expected messages, [{{"role": "user", "content": "…"}}], got a {type(messages).__name__}; '
            "generate continues a text"
        )
    for i, one in enumerate(messages):
        if not isinstance(one, Mapping) or not isinstance(one.get("role"), str):
            raise TypeError(f'chat: message {i}: expected {{"role": "user", "content": "…"}}, got {one!r}')
    if not messages:
        raise _core.Error("chat: no message")
    if messages[-1]["role"] == "assistant":
        raise _core.Error("chat: the last message is the assistant's own; end with the user's")


def json_of(folder: str, name: str) -> dict[str, Any]:
    """A file of a model's folder; {} if it is missing."""
    import json

    file = os.path.join(folder, name)
    if not folder or not os.path.exists(file):  # the built-in model has no folder
        return {}
    with open(file, encoding="utf-8") as opened:
        try:
            read = json.load(opened)
        except ValueError as error:
            raise _core.Error(f"{file}: {error}") from None
    return read if isinstance(read, dict) else {}


def _environment() -> Any:
    """Jinja as transformers sets it up: sandboxed, since a template comes from a model's files."""
    import datetime
    import json

    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """{% generation %}: marks what the assistant writes, for training alone."""

        tags = {"generation"}

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
    return environment
