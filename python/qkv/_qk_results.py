"""What `qkv.qk` measures, certifies, plans and writes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import did_you_mean

if TYPE_CHECKING:
    import numpy


class Directions:
    """The directions that heads compare: M = Σ σ_i left_i right_iᵀ, of the queries' and of the keys' tokens.

    singular_values: [heads, k], descending; left: [heads, k, D_q]; right: [heads, k, D_k], rows of length 1.
    subspaces: of each head the ranges of numbers that belong together. Where a range has one number, its direction is
    determined (up to the common sign of left and right). Singular values that are equal up to rounding have one
    subspace in common, in which any other orthogonal basis serves as well; values that are zero up to rounding
    likewise, and their left and right vectors have nothing to do with each other.
    """

    def __init__(
        self,
        values: numpy.ndarray,
        left: numpy.ndarray,
        right: numpy.ndarray,
        firsts: list[list[int]],
        caveats: list[str],
    ) -> None:
        self.singular_values, self.left, self.right = values, left, right
        self.caveats = caveats
        k = values.shape[1]
        self.subspaces = [[range(a, b) for a, b in zip(first, [*first[1:], k])] for first in firsts]

    @property
    def determined(self) -> numpy.ndarray:
        """Whether each direction is one by itself: [heads, k] of bool."""
        import numpy

        alone = numpy.zeros(self.singular_values.shape, bool)
        for head, ranges in enumerate(self.subspaces):
            for one in ranges:
                alone[head, one.start] = len(one) == 1 and self.singular_values[head, one.start] > 0
        return alone

    def __repr__(self) -> str:
        heads, k = self.singular_values.shape
        joint = [
            f"head {head}: {one.start} to {one.stop - 1}"
            for head, ranges in enumerate(self.subspaces)
            for one in ranges
            if len(one) > 1
        ]
        more = "; one subspace each: " + ", ".join(joint[:4]) + (", …" if len(joint) > 4 else "") if joint else ""
        return "\n".join([f"<directions: {heads} heads of {k}{more}>", *self.caveats])


_NUMBERS = (
    "effective_rank",
    "stable_rank",
    "rank",
    "rank_90",
    "rank_99",
    "rank_99_9",
    "condition",
    "symmetry",
    "eigenvalue_sign",
)
_OF_PAIRS = ("query_norm", "key_norm", "key_bias_norm", "gauge_excess")


class Spectra:
    """What is measured of the M of each head; arrays are [heads], or of a model [blocks, heads].

    singular_values: […, k], descending; eigenvalues: […, k], complex, by descending magnitude, or None where queries
        and keys come from two spaces (cross-attention).
    effective_rank: exp of the entropy of σ / Σσ; stable_rank: Σσ² / σ_1²; rank: values above rounding; rank_90,
        rank_99, rank_99_9: the least rank that holds that much of Σσ²; condition: σ_1 / σ_rank.
    symmetry: (‖M_s‖² − ‖M_a‖²) / ‖M‖² of the symmetric and the antisymmetric part: 1 symmetric, −1 antisymmetric.
    eigenvalue_sign: Σ Re λ / Σ |λ|: 1: tokens attend to similar ones; −1: to dissimilar ones.
    Of a model also ov, the same of W_O W_V (eigenvalue_sign 1: what is read is copied, −1: taken away), and query_norm,
        key_norm, key_bias_norm, gauge_excess (the share of ‖W_Q‖² + ‖W_K‖² that the balanced gauge saves) of the stored
        weights, or None where W_Q and W_K are no weights of their own; caveats: what the numbers leave out.

    A notebook shows the singular values, or of a model the effective ranks.
    """

    effective_rank: numpy.ndarray
    stable_rank: numpy.ndarray
    rank: numpy.ndarray
    rank_90: numpy.ndarray
    rank_99: numpy.ndarray
    rank_99_9: numpy.ndarray
    condition: numpy.ndarray
    symmetry: numpy.ndarray
    eigenvalue_sign: numpy.ndarray
    query_norm: numpy.ndarray | None
    key_norm: numpy.ndarray | None
    key_bias_norm: numpy.ndarray | None
    gauge_excess: numpy.ndarray | None

    def __init__(self, numbers: dict[str, Any], shape: tuple[int, ...]) -> None:
        import numpy

        self.source = ""
        self.caveats: list[str] = []
        self.ov: Spectra | None = None
        self.singular_values: numpy.ndarray = numpy.array(numbers["singular_values"]).reshape(*shape, -1)
        eigenvalues = numbers["eigenvalues"]
        self.eigenvalues: numpy.ndarray | None = None if eigenvalues is None else eigenvalues.reshape(*shape, -1)
        for name in _NUMBERS:
            setattr(self, name, numpy.array(numbers[name]).reshape(shape))
        for name in _OF_PAIRS:
            setattr(self, name, None)

    @classmethod
    def of_heads(cls, numbers: dict[str, Any], caveats: list[str]) -> Spectra:
        spectra = cls(numbers, (len(numbers["singular_values"]),))
        spectra.caveats = caveats
        return spectra

    @classmethod
    def of_model(cls, inspection: Any, part: str | None, source: str) -> Spectra:
        """inspection: of the engine; part: of a text model."""
        import numpy

        facts = inspection.facts
        parts = list(dict.fromkeys(head.get("part", "") for head in facts["heads"]))
        if (part or "") not in parts:
            if part is not None or len(parts) > 1:
                names = ", ".join(f'"{name}"' for name in parts) if parts != [""] else "none, an image model"
                raise _core.Error(f"spectra: part: {source} has {names}, got {part!r}")
            part = parts[0]
        heads = [head for head in facts["heads"] if head.get("part", "") == (part or "")]
        shape = heads[-1]["block"] + 1, heads[-1]["head"] + 1

        def number(name: str) -> Any:
            values = [head.get(name) for head in heads]
            return numpy.array([numpy.nan if value is None else value for value in values])

        def circuit(prefix: str) -> Spectra:
            complex_of = [head[f"{prefix}_eigenvalues"] for head in heads]
            numbers: dict[str, Any] = {name: number(f"{prefix}_{name}") for name in _NUMBERS}
            numbers["singular_values"] = [head[f"{prefix}_singular_values"] for head in heads]
            numbers["eigenvalues"] = (
                None if complex_of[0] is None else numpy.array(complex_of).view(numpy.complex128)[..., 0]
            )
            for name in ("rank", "rank_90", "rank_99", "rank_99_9"):
                numbers[name] = numbers[name].astype(int)
            return cls(numbers, shape)

        spectra = circuit("qk")
        spectra.ov = circuit("ov")
        for name in _OF_PAIRS:
            if heads[0].get(name) is not None:
                setattr(spectra, name, number(name).reshape(shape))
        spectra.source, spectra.caveats, spectra._inspection = source, facts["caveats"], inspection
        return spectra

    _inspection: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inspection": None}  # of the engine

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes all numbers of a model, every part, as .csv or .json, or as an .html page with pictures."""
        if self._inspection is None:
            raise _core.Error("save: expected the spectra of a model as they were measured, not of a pickle or a copy")
        self._inspection.save(os.fspath(file))

    def _repr_svg_(self) -> str:
        if self.effective_rank.ndim == 1:
            import numpy

            shown = self.singular_values[:6]
            shown = numpy.where(shown > 1e-8 * shown.max(), shown, numpy.nan)  # on a logarithmic axis
            title = "Singular values of M" + (", the first 6 heads" if len(self.singular_values) > 6 else "")
            names = [f"head {head}" for head in range(len(shown))] if len(shown) > 1 else []
            return _core.draw_lines(title, "number", "σ", names or [""], shown.tolist())
        blocks, heads = self.effective_rank.shape
        title = f"Effective rank of M, {self.source}"
        return _core.draw_heatmap(
            title, "block", "head", "effective rank", blocks, heads, self.effective_rank.ravel().tolist()
        )

    def __repr__(self) -> str:
        shape = " blocks, ".join(str(n) for n in self.effective_rank.shape)
        of = f" of {self.source}" if self.source else ""
        low, high = self.effective_rank.min(), self.effective_rank.max()
        count = self.singular_values.shape[-1]
        said = f"<spectra{of}: {shape} heads, effective rank {low:.1f} to {high:.1f} of {count}>"
        return "\n".join([said, *self.caveats])


class Rewritten(os.PathLike):
    """A model that was written: give it to qkv.load.

    before, after: parameters, query_key_parameters, bytes, and multiply_adds of an image. dtype: of the new tensors.
    notes: what should be known about it.
    """

    def __init__(self, path: str, written: dict[str, Any]) -> None:
        self.path = path
        self.before: dict[str, float] = written["before"]
        self.after: dict[str, float] = written["after"]
        self.dtype: str = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}[written["dtype"]]
        self.notes: list[str] = written["notes"]

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        def change(what: str, unit: str) -> str:
            was, now = self.before[what], self.after[what]
            return f"{was / 1e6:.4g} -> {now / 1e6:.4g} M {unit}"

        return (
            f"<{self.path}: {change('query_key_parameters', 'parameters of queries and keys')}, "
            f"{change('parameters', 'in all')}, {change('multiply_adds', 'multiply-adds an image')}>"
        )


class Certificates(Sequence):
    """Which rewritings of a model's attention are exact, a dict for each block, head and rewriting.

    Its keys: block, head (None: the whole layer), rewriting, verdict ("exact", "exact after softmax only",
    "approximate", "impossible"), obstructions; weight_error, logit_bound, attention_bound and condition, None where
    they do not apply; part, of a text model, and rank, of "truncate". notes: what they leave out.
    """

    def __init__(self, certificates: list[dict[str, Any]], tables: list[tuple[str, str]], notes: list[str]) -> None:
        self._certificates = certificates
        self._tables = tables
        self.notes = notes

    def __getitem__(self, index: Any) -> Any:
        return self._certificates[index]

    def __len__(self) -> int:
        return len(self._certificates)

    def select(self, **fields: Any) -> list[dict[str, Any]]:
        """Those with these values: select(rewriting="merge with u", block=0)."""
        for name in fields:
            if not any(name in one for one in self):
                raise TypeError(did_you_mean("select", name, (key for one in self for key in one)))
        return [one for one in self._certificates if all(one.get(key) == value for key, value in fields.items())]

    def __repr__(self) -> str:
        return "\n".join([*(text for text, _ in self._tables), *self.notes]).rstrip("\n")

    def _repr_html_(self) -> str:
        import html

        return "".join(page for _, page in self._tables) + "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)


class Plan:
    """Orders of attention's products and what they cost in multiply-adds.

    Of a shape, facts has orders (a dict each: scores, outputs, multiply_adds, multiply_adds_beforehand, bytes,
    predicted_ms), cheapest, fastest, and in words merging and absorbing: whether they pay. Of a model blocks (a dict
    for neighbouring blocks of one plan), multiply_adds of all, saved, and merging of each.
    """

    def __init__(self, facts: dict[str, Any], text: str, page: str) -> None:
        self.facts = facts
        self._text = text
        self._page = page

    def __getitem__(self, key: str) -> Any:
        return self.facts[key]

    @property
    def _verdicts(self) -> list[str]:
        merging = self.facts["merging"]
        said = [merging] if isinstance(merging, str) else merging
        return [verdict for verdict in [*said, self.facts.get("absorbing", "")] if verdict]

    def __repr__(self) -> str:
        return "\n".join([self._text.rstrip("\n"), "", *self._verdicts])

    def _repr_html_(self) -> str:
        import html

        return self._page + "".join(f"<p>{html.escape(verdict)}</p>" for verdict in self._verdicts)
