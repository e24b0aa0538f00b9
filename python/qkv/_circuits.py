"""Queries and keys of heads as arrays: as two weights, as one matrix, and what is measured of them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    import numpy

FLOAT32_EPSILON = 2.0**-23
_EPSILONS = {"float64": 2.0**-52}


def float64(name: str, array: Any) -> numpy.ndarray:
    """A NumPy array of float64 from what knows DLPack or the buffer protocol."""
    if hasattr(array, "detach") and hasattr(array, "requires_grad"):
        array = array.detach()  # a parameter of PyTorch
    if not hasattr(array, "__dlpack__") and not hasattr(array, "__array_interface__"):
        raise TypeError(f"{name}: expected an array of NumPy, PyTorch or JAX, got a {type(array).__name__}")
    if str(array.dtype) == "float64" and hasattr(array, "__array_interface__"):
        return array
    try:
        return _core.to_float64(array, name)
    except TypeError:
        raise TypeError(
            f"{name}: cannot read this {type(array).__name__}: expected a dense array in the CPU's memory, as by .cpu()"
        ) from None


def epsilon(array: Any) -> float:
    """Relative distance of neighbouring numbers of the type that an array came in; float32's for coarser ones."""
    return _EPSILONS.get(str(array.dtype).rsplit(".", 1)[-1], FLOAT32_EPSILON)


class _Origin:
    """What is known of weights beside their numbers; rewriting keeps it."""

    name = ""  # where they were read
    epsilon = 2.0**-52  # relative distance of neighbouring numbers, as they were stored
    scale = 1.0  # of the scores
    cross = False  # tokens of keys are of another sequence and space than those of queries
    relative_bias = False  # biases by relative position are added to the scores, and are not here
    obstacles: Sequence[str] = ()  # between the projections and their product
    softmax_obstacles: Sequence[str] = ()  # why b_K counts

    def inherit(self, other: _Origin) -> Any:
        for known in ("name", "epsilon", "scale", "cross", "relative_bias", "obstacles", "softmax_obstacles"):
            setattr(self, known, getattr(other, known))
        return self

    @property
    def caveats(self) -> list[str]:
        said = []
        if self.obstacles:
            between = ", ".join(self.obstacles)
            said.append(f"{between} between W_Q, W_K and their product: M alone does not give the scores.")
        if self.relative_bias:
            said.append("Biases by relative position are added to the scores: M leaves them out.")
        return said


class Pair(_Origin):
    """W_Q and W_K of a layer's heads; score(i, j) = scale · (W_Q x_i + b_Q) · (W_K y_j + b_K).

    w_q: [heads · E, D_q]; w_k: [key_heads · E, D_k]; b_q, b_k: [rows of their weight] or None, float64, output by input
    as torch.nn.Linear stores them. Heads may share keys (GQA): head h reads key head h // (heads // key_heads).
    """

    def __init__(
        self, w_q: Any, w_k: Any, b_q: Any = None, b_k: Any = None, *, heads: int, scale: float | None = None
    ) -> None:
        self.w_q: numpy.ndarray = float64("w_q", w_q)
        self.w_k: numpy.ndarray = float64("w_k", w_k)
        self.epsilon = max(epsilon(w_q), epsilon(w_k))
        self.b_q: numpy.ndarray | None = None if b_q is None else float64("b_q", b_q)
        self.b_k: numpy.ndarray | None = None if b_k is None else float64("b_k", b_k)
        if not hasattr(heads, "__index__"):
            raise TypeError(f"heads: expected a whole number, got {heads!r}")
        self.heads = heads.__index__()
        self.key_heads: int = _core.qk_key_heads(*self._arrays, self.heads)
        self.scale = self.width**-0.5 if scale is None else scale

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.w_q, self.w_k, self.b_q, self.b_k

    @property
    def width(self) -> int:
        """E, the features of a head's queries and keys."""
        return self.w_q.shape[0] // self.heads

    def head(self, head: int) -> Pair:
        """One head by itself."""
        if not -self.heads <= head < self.heads:
            raise IndexError(f"head {head} of {self.heads}")
        head %= self.heads
        key, width = head // (self.heads // self.key_heads), self.width
        query, key = slice(head * width, (head + 1) * width), slice(key * width, (key + 1) * width)
        b_q, b_k = None if self.b_q is None else self.b_q[query], None if self.b_k is None else self.b_k[key]
        return Pair(self.w_q[query], self.w_k[key], b_q, b_k, heads=1).inherit(self)

    def scores(self, x: Any, y: Any = None) -> numpy.ndarray:
        """The logits [..., heads, N, K] of tokens x [..., N, D_q] to tokens y [..., K, D_k] (default: x)."""
        import numpy

        self.require_bilinear("scores")
        x = float64("x", x)
        y = x if y is None else float64("y", y)

        def project(tokens: Any, weight: Any, bias: Any, heads: int) -> Any:
            out = tokens @ weight.T if bias is None else tokens @ weight.T + bias
            return numpy.swapaxes(out.reshape(*out.shape[:-1], heads, self.width), -2, -3)

        q = project(x, self.w_q, self.b_q, self.heads)
        k = numpy.repeat(project(y, self.w_k, self.b_k, self.key_heads), self.heads // self.key_heads, axis=-3)
        return self.scale * (q @ numpy.swapaxes(k, -1, -2))

    def require_bilinear(self, work: str, terms: str = "exact") -> None:
        """Raises Error if no matrix M gives the scores, or with terms="softmax" what softmax leaves of them."""
        if self.obstacles:
            raise _core.Error(
                f"{self._of(work)}{', '.join(self.obstacles)} between W_Q, W_K and their product: the scores are "
                "not a function of one matrix (qkv.qk.certificate says what stays possible)"
            )
        if terms == "softmax" and self.b_k is not None and self.softmax_obstacles:
            raise _core.Error(
                f"{self._of(work)}{', '.join(self.softmax_obstacles)}: terms that are the same for all keys of a "
                'query do not cancel: expected terms="exact"'
            )

    def _of(self, work: str) -> str:
        return f"{work}: {self.name}: " if self.name else f"{work}: "

    def __repr__(self) -> str:
        shared = "" if self.key_heads == self.heads else f", {self.key_heads} of keys"
        biases = " and ".join(name for name in ("b_q", "b_k") if getattr(self, name) is not None)
        widths = f"{self.w_q.shape[1]}" + (
            "" if self.w_q.shape[1] == self.w_k.shape[1] else f" and {self.w_k.shape[1]}"
        )
        return (
            f"<{type(self).__name__.lower()}: {self.heads} heads{shared}, E = {self.width}, D = {widths}, "
            f"{biases or 'no bias'}>"
        )


class Weights(Pair):
    """The attention weights of one block of a model, for all heads.

    w_q, w_k, w_v: [heads · E, D]; w_o: [D, heads · E] or None; b_q, b_k, b_v, b_o: their biases, or None. Keys and
    values that heads share are repeated for each of them; shared_keys: how many there are. Where the kind of attention
    has no W_Q and W_K, these are ones that give the same scores.

    norm: "layer_norm", "rms_norm" or "", what normalises the tokens before them, with gamma, beta [D] and eps. folded:
    the projections are of tokens that are normalised only: its gain and offset are in them, and a LayerNorm's mean is
    taken off. cross: keys and values come from tokens of another sequence, with source_norm. layer_scale: [D], of the output.

    obstacles: what stands between W_Q, W_K and the scores (RoPE, QK-norm): M alone does not give them then.
    relative_bias: biases by relative position are added to the scores; `scores` and all else leave them out.
    """

    def __init__(self, source: str, part: str, block: int, folded: bool, read: dict[str, Any]) -> None:
        super().__init__(read["w_q"], read["w_k"], read["b_q"], read["b_k"], heads=read["heads"], scale=read["scale"])
        self.name = f"{source}, {part + ' ' if part else ''}block {block}"
        self.epsilon = FLOAT32_EPSILON
        self.source = source
        self.part = part
        self.block = block
        self.folded = folded
        self.w_v: numpy.ndarray = read["w_v"]
        self.b_v: numpy.ndarray | None = read["b_v"]
        self.w_o: numpy.ndarray | None = read["w_o"]
        self.b_o: numpy.ndarray | None = read["b_o"]
        self.shared_keys: int = read["shared_keys"]
        self.norm: str = read["norm"]
        self.gamma: numpy.ndarray | None = read["gamma"]
        self.beta: numpy.ndarray | None = read["beta"]
        self.eps: float = read["eps"]
        self.layer_scale: numpy.ndarray | None = read["layer_scale"]
        self.cross = read["cross"]
        self.relative_bias = read["relative_bias"]
        self.source_norm: str = read["source_norm"]
        self.source_gamma: numpy.ndarray | None = read["source_gamma"]
        self.source_beta: numpy.ndarray | None = read["source_beta"]
        self.obstacles = read["obstacles"]
        self.softmax_obstacles = read["softmax_obstacles"]

    def __repr__(self) -> str:
        norm = {"layer_norm": "LayerNorm", "rms_norm": "RMSNorm", "": "no norm"}[self.norm]
        folded = ", folded in" if self.folded and self.norm else " before them" if self.norm else ""
        said = super().__repr__().replace("weights:", f"weights of {self.name}:")[:-1] + f"; {norm}{folded}>"
        return "\n".join([said, *self.caveats])


class Merged(_Origin):
    """M = W_Qᵀ W_K of heads: score(i, j) = scale · (x_i M y_j + u · y_j + w · x_i + c).

    m: [heads, D_q, D_k]; u = W_Kᵀ b_Q: [heads, D_k] or None; w = W_Qᵀ b_K: [heads, D_q] or None; c = b_Q · b_K: [heads]
    or None. terms: "exact", or "softmax" if w and c were left out, which are the same for all keys of a query.
    """

    def __init__(
        self,
        m: numpy.ndarray,
        u: numpy.ndarray | None = None,
        w: numpy.ndarray | None = None,
        c: numpy.ndarray | None = None,
        terms: str = "exact",
    ) -> None:
        self.m, self.u, self.w, self.c = m, u, w, c
        self.terms = terms

    @property
    def heads(self) -> int:
        return self.m.shape[0]

    @property
    def symmetric(self) -> numpy.ndarray:
        """(M + Mᵀ) / 2: how much two tokens attend to each other. [heads, D, D]"""
        return (self.m + self._transposed("symmetric")) / 2

    @property
    def antisymmetric(self) -> numpy.ndarray:
        """(M − Mᵀ) / 2: score(i, j) − score(j, i) = 2 · scale · x_i M_a x_j, without biases. [heads, D, D]"""
        return (self.m - self._transposed("antisymmetric")) / 2

    def _transposed(self, work: str) -> numpy.ndarray:
        if self.m.shape[1] != self.m.shape[2]:
            raise _core.Error(f"{work}: M {list(self.m.shape)} compares tokens of two widths: it has no symmetric part")
        return self.m.swapaxes(1, 2)

    def scores(self, x: Any, y: Any = None) -> numpy.ndarray:
        """The logits [..., heads, N, K] of tokens x [..., N, D_q] to tokens y [..., K, D_k] (default: x).

        With terms="softmax" up to a constant for each query.
        """
        x = float64("x", x)
        y = x if y is None else float64("y", y)
        x, y = x[..., None, :, :], y[..., None, :, :]
        scores = x @ self.m @ y.swapaxes(-1, -2)
        if self.u is not None:
            scores = scores + (y @ self.u[:, :, None]).swapaxes(-1, -2)
        if self.w is not None:
            scores = scores + x @ self.w[:, :, None]
        if self.c is not None:
            scores = scores + self.c[:, None, None]
        return self.scale * scores

    def __repr__(self) -> str:
        terms = ", ".join(name for name in ("u", "w", "c") if getattr(self, name) is not None)
        only = ", up to a constant for each query" if self.terms == "softmax" else ""
        return f"<merged: M {list(self.m.shape)}, {'with ' + terms if terms else 'no bias'}{only}>"


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

    def save(self, file: str | os.PathLike[str]) -> None:
        """Writes all numbers of a model, every part, as .csv or .json, or as an .html page with pictures."""
        if self._inspection is None:
            raise _core.Error("save: expected the spectra of a model")
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
