// Attention on arrays: forward, weights, gradient.
#include "python/src/attention.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cmath>
#include <optional>
#include <utility>

#include "python/src/call.h"
#include "python/src/tensors.h"
#include "qkv/attention/attention.h"
#include "qkv/core/arena.h"
#include "qkv/core/memory.h"

namespace qkv::python {
namespace {

// What attention reads beside q, k and v, as Python gives it; axes that are missing on the left are 1.
struct Extras {
  std::optional<Array> bias, mask, lengths, sinks;
  double scale, soft_cap;
  int causal;  // 0: none, 1: top left, 2: bottom right
  int64_t window_left, window_right, first_position;
};

// A view of [B, H, rows, columns] with the axes that it lacks. Without heads, where q has three axes, three axes are a
// batch; else axes are missing on the left.
template <typename T>
View<T> WithFourAxes(View<T> view, std::string_view name, size_t q_axes) {
  Require(view.rank() <= 4, "{}: an array {}, expected at most [B, H, rows, columns]", name, view.shape());
  std::array<int64_t, 4> extents = {1, 1, 1, 1};
  typename View<T>::Strides strides{};
  for (int axis = 0; axis < view.rank(); ++axis) {
    const bool batch = q_axes == 3 && view.rank() == 3 && axis == 0;
    const int to = batch ? 0 : 4 - view.rank() + axis;
    extents[to] = view.dim(axis), strides[to] = view.stride(axis);
  }
  return {view.data(), Shape(std::span<const int64_t>(extents)), strides};
}

// q, k and v have the same number of axes: [N, width], [B, N, width] or [B, H, N, width].
template <typename T>
struct Inputs {
  Operand<T> q, k, v, bias, sinks;
  Tensor<int64_t> lengths;
  Tensor<bool> mask;  // a copy, of one that is not dense
  attention::Options<T> options;
  View<const T> q4, k4, v4;
};

Tensor<int64_t> ReadLengths(const Array& array) {
  RequireCpu(array, "lengths");
  const auto code = static_cast<nb::dlpack::dtype_code>(array.dtype().code);
  Require(array.ndim() == 1 && code == nb::dlpack::dtype_code::Int && array.dtype().bits >= 32,
          "lengths: expected int64 [B], the number of keys of each batch entry");
  Tensor<int64_t> lengths(Shape({static_cast<int64_t>(array.shape(0))}));
  for (int64_t b = 0; b < lengths.size(); ++b) {
    lengths[b] = array.dtype().bits == 64 ? *AsView<const int64_t>(array, "lengths").at(b)
                                          : *AsView<const int32_t>(array, "lengths").at(b);
  }
  return lengths;
}

View<const bool> ReadMask(const Array& array, size_t q_axes, Tensor<bool>* copy) {
  RequireCpu(array, "mask");
  Require(static_cast<nb::dlpack::dtype_code>(array.dtype().code) == nb::dlpack::dtype_code::Bool,
          "mask: expected bool, true where attention is allowed; what is added to scores goes to bias");
  View<const bool> view = AsView<const bool>(array, "mask");
  if (const int last = view.rank() - 1; last >= 0 && view.stride(last) != 1 && view.dim(last) > 1) {
    *copy = Dense(view);
    view = *copy;
  }
  return WithFourAxes(view, "mask", q_axes);
}

template <typename T>
void Read(const Array& q, const Array& k, const Array& v, const Extras& extras, Inputs<T>& in) {
  Require(q.ndim() >= 2 && q.ndim() <= 4 && k.ndim() == q.ndim() && v.ndim() == q.ndim(),
          "attention: q, k and v have {}, {} and {} axes, expected the same number, 2 to 4: [B, H, N, width]", q.ndim(),
          k.ndim(), v.ndim());
  in.q = Operand<T>(q, "q"), in.k = Operand<T>(k, "k"), in.v = Operand<T>(v, "v");
  in.q4 = WithFourAxes(in.q.view(), "q", q.ndim()), in.k4 = WithFourAxes(in.k.view(), "k", q.ndim());
  in.v4 = WithFourAxes(in.v.view(), "v", q.ndim());
  Require(std::isfinite(extras.scale), "attention: scale: expected a finite number, got {}", extras.scale);
  Require(std::isfinite(extras.soft_cap) && extras.soft_cap >= 0,
          "attention: softcap: expected a finite number from 0 on (0: off), got {}", extras.soft_cap);
  attention::Options<T>& options = in.options;
  options.scale = static_cast<T>(extras.scale);
  options.soft_cap = static_cast<T>(extras.soft_cap);
  options.causal = static_cast<attention::Causal>(extras.causal);
  options.window_left = extras.window_left, options.window_right = extras.window_right;
  options.first_position = extras.first_position;
  if (extras.bias) {
    in.bias = Operand<T>(*extras.bias, "bias");
    options.bias = WithFourAxes(in.bias.view(), "bias", q.ndim());
  }
  if (extras.mask) options.mask = ReadMask(*extras.mask, q.ndim(), &in.mask);
  if (extras.sinks) {
    in.sinks = Operand<T>(*extras.sinks, "sinks");
    options.sinks = in.sinks.view();
  }
  if (extras.lengths) {
    in.lengths = ReadLengths(*extras.lengths);
    options.key_lengths = in.lengths;
  }
}

// [..., last] with the leading axes of q.
Shape Like(const Array& q, std::initializer_list<int64_t> last) {
  std::array<int64_t, 4> extents{};
  size_t axes = 0;
  const size_t leading = q.ndim() - 2;
  for (; axes < leading; ++axes) extents[axes] = static_cast<int64_t>(q.shape(axes));
  for (const int64_t extent : last) extents[axes++] = extent;
  return Shape(std::span<const int64_t>(extents.data(), axes));
}

// The log-sum-exps as [B, H, N_q].
template <typename T>
View<const T> RowsOf(const View<const T>& lse, const View<const T>& q4) {
  const Shape shape({q4.dim(0), q4.dim(1), q4.dim(2)});
  Require(lse.size() == shape.size() && lse.dense(), "lse: an array {}, expected {}, dense", lse.shape(), shape);
  return {lse.data(), shape};
}

template <typename T>
Tensor<T> Shaped(const View<const T>& like) {
  return Tensor<T>::Uninitialised(like.shape());
}

template <typename T>
nb::object Forward(const Array& q, const Array& k, const Array& v, const Extras& extras, bool weights, bool lse,
                   bool numpy, Element element) {
  Inputs<T> in;
  Read(q, k, v, extras, in);
  const View<const T> q4 = in.q4;
  const int64_t N_q = q4.dim(2), N_k = in.k4.dim(2), E_v = in.v4.dim(3);
  Tensor<T> out = Tensor<T>::Uninitialised({q4.dim(0), q4.dim(1), N_q, E_v}), log_sums, all_weights;
  if (lse) log_sums = Tensor<T>::Uninitialised({q4.dim(0), q4.dim(1), N_q});
  if (weights) {
    const Shape shape({q4.dim(0), q4.dim(1), N_q, N_k});
    RequireMemory(static_cast<double>(sizeof(T)) * static_cast<double>(shape.size()), "attention: the weights");
    all_weights = Tensor<T>::Uninitialised(shape);
  }
  Call call;
  call.Run([&] {
    thread_local Arena arena;
    attention::Attention<T>(q4, in.k4, in.v4, in.options, out, arena, lse ? log_sums.view() : View<T>());
    if (weights) attention::AttentionWeights<T>(q4, in.k4, in.options, 0, N_q, all_weights);
  });
  nb::object result = Export(std::move(out), Like(q, {N_q, E_v}), element, numpy);
  if (!weights && !lse) return result;
  const Element wide = element == Element::kFloat64 ? Element::kFloat64 : Element::kFloat32;
  nb::object shown = weights ? Export(std::move(all_weights), Like(q, {N_q, N_k}), element, numpy) : nb::none();
  nb::object sums = lse ? Export(std::move(log_sums), Like(q, {N_q}), wide, numpy) : nb::none();
  return nb::make_tuple(std::move(result), std::move(shown), std::move(sums));
}

template <typename T>
nb::tuple Backward(const Array& q, const Array& k, const Array& v, const Array& out, const Array& lse,
                   const Array& dout, const Extras& extras, bool numpy, Element element) {
  Inputs<T> in;
  Read(q, k, v, extras, in);
  const Operand<T> out_operand(out, "out"), lse_operand(lse, "lse"), dout_operand(dout, "dout");
  Tensor<T> dq = Shaped(in.q4), dk = Shaped(in.k4), dv = Shaped(in.v4), dbias, dsinks;
  if (extras.bias) dbias = Tensor<T>::Uninitialised(in.options.bias.shape());
  if (extras.sinks) dsinks = Tensor<T>::Uninitialised(in.options.sinks.shape());
  attention::BackwardTensors<T> tensors{.q = in.q4, .k = in.k4, .v = in.v4};
  tensors.out = WithFourAxes(out_operand.view(), "out", q.ndim());
  tensors.dout = WithFourAxes(dout_operand.view(), "dout", q.ndim());
  tensors.lse = RowsOf(lse_operand.view(), in.q4);
  tensors.dq = dq, tensors.dk = dk, tensors.dv = dv;
  if (extras.bias) tensors.dbias = dbias;
  if (extras.sinks) tensors.dsinks = dsinks;
  Call call;
  call.Run([&] {
    thread_local Arena arena;
    // The gradient is of differences from `out`, for which half precision is too coarse.
    Tensor<T> precise;
    if (element == Element::kFloat16 || element == Element::kBFloat16) {
      precise = Tensor<T>::Uninitialised(tensors.out.shape());
      attention::Attention<T>(in.q4, in.k4, in.v4, in.options, precise, arena);
      tensors.out = precise;
    }
    attention::AttentionBackward<T>(tensors, in.options, arena);
  });
  const auto give = [&](Tensor<T>& tensor, const std::optional<Array>& like, const Array* always) -> nb::object {
    const Array* const shaped = always != nullptr ? always : like ? &*like : nullptr;
    if (shaped == nullptr) return nb::none();
    return Export(std::move(tensor), AsView<const char>(*shaped, "").shape(), element, numpy);
  };
  return nb::make_tuple(give(dq, {}, &q), give(dk, {}, &k), give(dv, {}, &v), give(dbias, extras.bias, nullptr),
                        give(dsinks, extras.sinks, nullptr));
}

// The common type of q, k and v.
Element CommonElement(const Array& q, const Array& k, const Array& v) {
  const Element element = ElementOf(q, "q");
  Require(ElementOf(k, "k") == element && ElementOf(v, "v") == element,
          "attention: q, k and v have different types, expected the same");
  return element;
}

}  // namespace

void BindAttentionFunctions(nb::module_& module) {
  using namespace nb::literals;
  module.def(
      "attention",
      [](const Array& q, const Array& k, const Array& v, std::optional<Array> bias, std::optional<Array> mask,
         std::optional<Array> lengths, std::optional<Array> sinks, double scale, double soft_cap, int causal,
         int64_t window_left, int64_t window_right, int64_t first_position, bool weights, bool lse, bool numpy) {
        const Extras extras{std::move(bias), std::move(mask), std::move(lengths), std::move(sinks), scale,
                            soft_cap,        causal,          window_left,        window_right,     first_position};
        const Element element = CommonElement(q, k, v);
        return element == Element::kFloat64 ? Forward<double>(q, k, v, extras, weights, lse, numpy, element)
                                            : Forward<float>(q, k, v, extras, weights, lse, numpy, element);
      },
      "q"_a.noconvert(), "k"_a.noconvert(), "v"_a.noconvert(), "bias"_a.noconvert().none(), "mask"_a.noconvert().none(),
      "lengths"_a.noconvert().none(), "sinks"_a.noconvert().none(), "scale"_a, "soft_cap"_a, "causal"_a,
      "window_left"_a, "window_right"_a, "first_position"_a, "weights"_a, "lse"_a, "numpy"_a);
  module.def(
      "attention_backward",
      [](const Array& q, const Array& k, const Array& v, const Array& out, const Array& lse, const Array& dout,
         std::optional<Array> bias, std::optional<Array> mask, std::optional<Array> lengths, std::optional<Array> sinks,
         double scale, double soft_cap, int causal, int64_t window_left, int64_t window_right, int64_t first_position,
         bool numpy) {
        const Extras extras{std::move(bias), std::move(mask), std::move(lengths), std::move(sinks), scale,
                            soft_cap,        causal,          window_left,        window_right,     first_position};
        const Element element = CommonElement(q, k, v);
        return element == Element::kFloat64 ? Backward<double>(q, k, v, out, lse, dout, extras, numpy, element)
                                            : Backward<float>(q, k, v, out, lse, dout, extras, numpy, element);
      },
      "q"_a.noconvert(), "k"_a.noconvert(), "v"_a.noconvert(), "out"_a.noconvert(), "lse"_a.noconvert(),
      "dout"_a.noconvert(), "bias"_a.noconvert().none(), "mask"_a.noconvert().none(), "lengths"_a.noconvert().none(),
      "sinks"_a.noconvert().none(), "scale"_a, "soft_cap"_a, "causal"_a, "window_left"_a, "window_right"_a,
      "first_position"_a, "numpy"_a);
}

}  // namespace qkv::python
