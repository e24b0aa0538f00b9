"""Ablation: the same training for each kind of attention, and what differs."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

from . import _core, _notes, _progress
from ._arguments import items, path, positive, text, text_or_none, texts
from ._training import Listener, Step, picture, texts_of


def ablate(
    data: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    out: str | os.PathLike[str],
    arms: Sequence[str] | None = None,
    seeds: int = 3,
    equal: Literal["steps", "parameters", "flops"] = "steps",
    vary: Literal["attention", "cross-attention", "both"] | None = None,
    on_step: Callable[[Step], object] | None = None,
    progress: bool | None = None,
    **settings: Any,
) -> Comparison:
    """Trains each kind of attention in the same way, with several seeds, and compares, as `qkv ablate` does.

    data: as of `train`, but no arrays; or several of one kind.
    out: the folder of the comparison. Runs that have ended are not trained again: the same call goes on where it was
        stopped, and more data, arms or seeds add to it; other settings are an Error. Several processes that call it
        share the runs.
    arms: kinds of attention, perhaps with settings: "shared", "low_rank:rank=8", "separate:qkv-bias=false" (default: all
        that there are). Differences are to the first.
    equal: what all have alike: steps; parameters too, by the MLP's width; or multiply-adds, by the number of steps.
    vary: of pairs of texts, whose attention the arms change (default: the decoder's to the encoder).
    settings: of the training of all runs, as of `train`.

    Ctrl-C ends the step, saves and raises KeyboardInterrupt. Raises Error for what cannot be compared.
    """
    given = texts_of("ablate", settings)
    sets = [data] if isinstance(data, (str, os.PathLike)) else items("ablate: data", data, "folders or files")
    names = [path("ablate: data", one) for one in sets]
    kinds = [text("arms", arms)] if isinstance(arms, str) else texts("arms", arms or ())
    asked = positive("seeds", seeds), text("equal", equal), text_or_none("vary", vary) or ""
    folder = path("ablate: out", out)
    failed: list[str] = []
    try:
        with _RunsListener(on_step, progress, failed) as listener:
            _core.ablate(names, folder, kinds, *asked, given, listener)
    except _core.Error:
        raise
    except BaseException as error:
        error.add_note(f"qkv: what was trained is saved in {folder}; the same call goes on from there")
        raise
    if failed:
        _notes.tell(f"warning: ablate: left out: {'; '.join(failed)}")
    return Comparison(folder)


class Comparison:
    """The results of an ablation: those of a folder of `ablate` or `qkv ablate`, of its results.json, or of one that
    comes with qkv: "cifar10", "cifar10-lr", "tasks", "recall", "pairs".
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        stored = _core.stored_ablations()
        file = os.path.join(self.path, "results.json") if os.path.isdir(self.path) else self.path
        if os.path.exists(file):
            with open(file, encoding="utf-8") as opened:
                text = opened.read()
        elif self.path in stored:
            text = stored[self.path]
        else:
            raise _core.Error(
                f"Comparison: there is no {file}: expected a folder of qkv.ablate with a run that has ended, or one of "
                + ", ".join(stored)
            )
        import json

        self._summary = _core.summarise(text, file)
        self._results: dict[str, Any] = json.loads(text)

    @property
    def data(self) -> list[str]:
        """Names of the data sets."""
        return list(self._summary["data"])

    @property
    def arms(self) -> list[str]:
        """What is compared; the first is what the others are compared with."""
        return self._results["arms"]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The runs that have ended: data, arm, seed, top1, loss, steps, parameters, symmetry, …"""
        return self._results["runs"]

    @property
    def facts(self) -> dict[str, str]:
        """What was trained, on which data and machine, in words."""
        return {name: words for name, words in self._results["facts"]}

    def rows(self, data: str | None = None) -> list[dict[str, Any]]:
        """A row for each arm, for a table: its numbers on a data set (default: the first). Those with an uncertainty are
        [mean, half of the 95 % interval], which is nan for a single seed.
        """
        name = self.data[0] if data is None and self.data else data
        if name not in self._summary["data"]:
            raise _core.Error(f"Comparison: no data set is called {name!r}; there are {', '.join(self.data) or 'none'}")
        return self._summary["data"][name]["rows"]

    def to_dict(self) -> dict[str, Any]:
        """All of results.json."""
        import copy

        return copy.deepcopy(self._results)

    def __str__(self) -> str:
        """All tables as text."""
        return self._summary["text"]

    def __repr__(self) -> str:
        ended = f"{len(self.runs)} of {self._results['planned']} runs"
        return f"<qkv.Comparison {self.path}: {self._results['title']}; {len(self.arms)} arms, {ended}>"

    def _repr_html_(self) -> str:
        import html

        parts = [f"<h4>{html.escape(self._results['title'])}</h4>"]
        for name, shown in self._summary["data"].items():
            heading = f"<p>{html.escape(name)}</p>" if len(self.data) > 1 else ""
            charts = [picture(chart, f"{self._results['title']}, {name}") for chart in shown["charts"]]
            parts += [heading, shown["table"], *charts]
        return "".join(parts)


class _RunsListener:
    """What is told of a comparison's runs."""

    def __init__(self, on_step: Callable[[Step], object] | None, progress: bool | None, failed: list[str]) -> None:
        self._on_step, self._progress, self._failed = on_step, progress, failed
        self._run = Listener(on_step, None, progress)

    def __enter__(self) -> _RunsListener:
        return self

    def __exit__(self, *_: object) -> None:
        self._run.close()

    def __call__(self, event: str, values: Any) -> None:
        if event == "run":
            self._run.close()
            name = f"run {values['number']} of {values['count']}: {values['name']}"
            self._run = Listener(self._on_step, None, self._progress, name)
            _notes.tell(name)
        elif event == "ended":
            loss = values["loss"] if values["loss"] is not None else float("nan")
            _notes.tell(f"{values['name']}: {100 * values['accuracy']:.2f} % right, loss {loss:.4f}")
        elif event == "failed":
            self._failed.append(f"{values['name']}: {values['why']}")
        else:
            self._run(event, values)
