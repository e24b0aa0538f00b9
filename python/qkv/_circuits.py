"""Queries and keys of heads as arrays: as two weights, and as one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import _core
from ._arguments import number, positive, require_dense, whole

if TYPE_CHECKING:
    import numpy

FLOAT32_EPSILON = 2.0**-23
_EPSILONS = {"float64": 2.0**-52}


def float64(name: str, array: Any) -> numpy.ndarray:
    """A NumPy array of float64 from what knows DLPack or the buffer protocol."""
    if hasattr(array, "detach") and hasattr(array, "requires_grad"):
        require_dense(name, array)
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


def _tokens(x: Any, y: Any, widths: tuple[int, int]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Tokens of queries and of keys, [..., N, width], whose leading axes fit; y None: the same."""
    import numpy

    x = float64("x", x)
    y = x if y is None else float64("y", y)
    for name, tokens, width, count in (("x", x, widths[0], "N"), ("y", y, widths[1], "K")):
        if tokens.ndim < 2 or tokens.shape[-1] != width:
            raise _core.Error(f"scores: {name}: an array {list(tokens.shape)}, expected tokens [..., {count}, {width}]")
    try:
        numpy.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    except ValueError:
        raise _core.Error(f"scores: the leading axes of x {list(x.shape)} and y {list(y.shape)} do not fit") from None
    return x, y


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
        self.heads = positive("heads", heads)
        self.key_heads: int = _core.qk_key_heads(*self._arrays, self.heads)
        self.scale = self.width**-0.5 if scale is None else number("scale", scale)

    @property
    def _arrays(self) -> tuple[Any, Any, Any, Any]:
        return self.w_q, self.w_k, self.b_q, self.b_k

    @property
    def width(self) -> int:
        """E, the features of a head's queries and keys."""
        return self.w_q.shape[0] // self.heads

    def head(self, head: int) -> Pair:
        """One head by itself."""
        if not -self.heads <= whole("head", head) < self.heads:
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
        x, y = _tokens(x, y, (self.w_q.shape[1], self.w_k.shape[1]))

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
        x, y = _tokens(x, y, (self.m.shape[1], self.m.shape[2]))
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
