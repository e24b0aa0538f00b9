// Matrix products with weights that were packed once: y = epilogue(x Wᵀ).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "qkv/core/tensor.h"
#include "qkv/core/tensor_pool.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/gemm/tile_prefetch.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::simd {

/// Length of the chunks of rows that products read in place, without a copy: see Gemm.
inline constexpr int64_t kRowChunk = 64;

/// The type of stored weights, and of products if the machine supports it. Sums are float (bfloat16) or int32 (int8);
/// x, y and the epilogue stay float. kBfloat16: 8 significant bits of weights, and of x if the machine multiplies
/// bfloat16. kInt8: weights symmetric with a scale per output, rows of x with a scale and an offset each.
enum class Precision { kFloat32, kBfloat16, kInt8 };

/// How products of this precision are computed under ActiveIsa().
struct PrecisionSupport {
  std::string_view kernel;  // "avx512_vnni", …
  bool native;              // products are computed in this precision; if not, weights are only stored in it
};
PrecisionSupport Describe(Precision precision);

/// Gating of a product's outputs (Shazeer 2020): W has the rows of a gate g and of values v, and the product is
/// activation(g) · v.
enum class Gate { kNone, kFirst, kLast };  // kFirst: the first half of W's rows is the gate

/// Properties of a packed matrix, without its memory.
struct PackedForm {
  int64_t outputs = 0, inputs = 0;  // N, K
  Gate gate = Gate::kNone;
  Precision precision = Precision::kFloat32;

  bool operator==(const PackedForm&) const = default;
};

/// The memory of a packed matrix: `panels`, or in lower precision that of internal::LowPanels.
template <typename T>
struct PackedParts {
  Tensor<T> panels;
  Tensor<uint8_t> groups;
  Tensor<float> columns;
};

/// Precision and place of packed weights: in a pool, or in memory of their own.
struct Packing {
  Packing(Precision in = Precision::kFloat32, TensorPool* from = nullptr) : precision(in), pool(from) {}

  template <typename T>
  Tensor<T> New(const Shape& shape) const {
    return pool == nullptr ? Tensor<T>::Uninitialised(shape) : pool->New<T>(shape);
  }

  Precision precision;
  TensorPool* pool;  // or null
};

/// Weights of a linear layer in the panel order of the active kernels.
template <typename T>
class PackedMatrix {
 public:
  PackedMatrix() = default;
  /// w: [N, K], one row per output, as PyTorch's nn.Linear stores it; gated [2·N, K]. Any strides. Throws Error when w
  /// is not a matrix, or for double in a lower precision.
  explicit PackedMatrix(View<const T> w, Gate gate = Gate::kNone, const Packing& packing = {});
  PackedMatrix(View<const T> w, const Packing& packing) : PackedMatrix(w, Gate::kNone, packing) {}
  /// From the memory of a matrix of this form that was packed under the same ActiveIsa(), possibly by another process.
  /// Throws Error when its shapes are not those of the active kernels.
  PackedMatrix(const PackedForm& form, PackedParts<T> parts);

  PackedForm form() const { return {N_, K_, gate_, precision_}; }
  int64_t outputs() const { return N_; }  // N
  int64_t inputs() const { return K_; }   // K
  Gate gate() const { return gate_; }
  int64_t panel() const { return panels_.rank() == 3 ? panels_.dim(2) : 0; }
  int64_t panels() const { return panels_.rank() == 3 ? panels_.dim(0) : 0; }
  const T* data() const { return panels_.data(); }
  /// [panels][K][panel]; empty in lower precision.
  View<const T> memory() const { return panels_; }
  Precision precision() const { return precision_; }
  /// Memory of the packed form.
  int64_t bytes() const { return panels_.size() * static_cast<int64_t>(sizeof(T)) + low_.bytes(); }
  const internal::LowPanels& low() const { return low_; }
  /// Sets the weights that are multiplied next: a product prefetches their start during its last panel. Only a hint.
  void set_next(const PackedMatrix& next) { next_ = next.first_slice(); }
  internal::CacheLines next() const { return next_; }

 private:
  // The cache lines that a product reads first.
  internal::CacheLines first_slice() const;

  int64_t N_ = 0, K_ = 0;
  Gate gate_ = Gate::kNone;
  Precision precision_ = Precision::kFloat32;
  // [panels][K][panel], zero-padded; panel is the active kernels' width. If gated, the first half of a panel is the
  // gate of the second half.
  Tensor<T> panels_;
  internal::LowPanels low_;  // instead of panels in lower precision
  internal::CacheLines next_;
};

/// Applied to each row of x while it is read: a norm whose gamma and beta are in the weights (w · gamma) and the bias
/// (bias + w · beta).
template <typename T>
struct Prologue {
  std::optional<NormRule<T>> norm;
};

/// Applied to a product before it is stored: y = residual + scale · activation(product + bias).
template <typename T>
struct Epilogue {
  const T* bias = nullptr;  // [N] (gated [2·N], in the order of W's rows) or null
  Activation activation = Activation::kNone;
  const T* scale = nullptr;     // [N] (LayerScale) or null
  const T* residual = nullptr;  // [M, N] with rows residual_stride apart, or null; may be y
  int64_t residual_stride = 0;
};

/// y[M, N] = epilogue(prologue(x[M, K]) Wᵀ). Rows may be strided, columns are dense; x and y must not overlap. y may
/// also be [M, H, E] with H·E = N and any distance from head to head: the layout that attention reads. So may x without
/// a prologue, with E = kRowChunk and rows that are E apart, in float and double; it is not copied then. A row's result
/// does not depend on M, on the other rows, or on the number of threads. Throws Error when the shapes do not fit, when
/// x in chunks has a prologue or a lower precision, when a residual is combined with heads, or when w was packed for
/// another instruction set.
template <typename T>
void Gemm(View<const T> x, const PackedMatrix<T>& w, const Epilogue<T>& epilogue, View<T> y,
          const Prologue<T>& prologue = {});

}  // namespace qkv::simd
