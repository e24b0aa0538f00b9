"""The engine's messages, which name options and commands of the program, in the words of Python's callers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import re

# What a message says of the command line alone, and what Python has instead.
_PHRASES = {
    "see qkv info --json": "see model.labels",
    "see qkv run --hidden all": 'see "hidden.N" of model.forward',
    "give its pixels by qkv run --input": "give its pixels to model.forward",
    "give ids of your own to qkv run": "give ids of your own to model.forward",
    "leave out -o or give": "embed them one by one, or give",
    " (--max-pixels)": "",
    "--max-memory sets another limit": "qkv.set_memory_limit sets another",
    "classify --prompts \"a cat,a dog\"": 'classify(prompts=["a cat", "a dog"])',
    "--set KEY=VALUE": "KEY=VALUE",
    "--cut cuts": "cut=True cuts",
    "leave out --cross": 'leave out part="cross"',
    ", or with tasks: [translate]": "",
    ", or with tasks: [summarize]), or a prefix": "), or prefix=",
    "-o ends in": "the file ends in",
    "given by -m": "given to qkv.load",
}

# Options whose keyword is another word.
_KEYWORDS = {"layer": "layers", "head": "heads", "template": "templates", "tokens": "max_new_tokens"}

_pattern = None


def in_keywords(message: str) -> str:
    """The message with `name=` in place of --name, and methods in place of commands."""
    if not any(sign in message for sign in ("--", "qkv ", " -", "tasks: [")):
        return message
    global _pattern
    if _pattern is None:
        import re

        # --set a=1 --set b=2 · --pool mean · --crop-pct
        _pattern = re.compile(
            r"(?P<kept>hf download \S+ --revision)"
            r"|--set (?P<setting>\S+=\S+)(?= --set (?P<more>.))?"
            r"|\bqkv (?P<method>classify|embed|detect|segment|caption)\b"
            r"|--set (?P<key>\w+)(?=:)"
            r"|(?<![\w-])--(?P<name>[a-z][a-z-]*[a-z])(?: (?P<value>[0-9][\w.]*|[A-Z]+|cls|mean|model|tokens|all|auto|int8"
            r"|bf16|encoder|decoder|semantic)(?![\w=]))?"
        )
    for phrase, ours in _PHRASES.items():
        message = message.replace(phrase, ours)
    return _pattern.sub(_keyword, message)


def _keyword(found: re.Match[str]) -> str:
    if found["kept"]:
        return found["kept"]
    if found["setting"]:
        return found["setting"] + ("," if found["more"] else "")
    if found["method"]:
        return f"model.{found['method']}"
    if found["key"]:
        return found["key"]
    name, value = found["name"].replace("-", "_"), found["value"] or ""
    if value.isalpha() and value not in ("N",) or value == "int8":
        value = f'"{value}"'
    return f"{_KEYWORDS.get(name, name)}={value}"
