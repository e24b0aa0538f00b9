// Building blocks of layers: a checkpoint's tensors by name, and linear layers before they are packed.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "qkv/model/layout/bound_tensor.h"
#include "qkv/nn/linear.h"
#include "qkv/nn/norm.h"
#include "qkv/simd/gemm/matmul.h"

namespace qkv::model {

// A linear layer before packing, and operations that can be folded into it. Each folding is exact up to rounding, and
// rounds once.
template <typename T>
struct Affine {
  Tensor<T> weight;  // [rows, …]
  Tensor<T> bias;    // [rows], or empty
  int64_t rows = 0;
  simd::Packing packing = {};

  int64_t columns() const { return weight.size() / std::max<int64_t>(1, rows); }
  View<const T> matrix() const { return weight.view().reshape({rows, columns()}); }

  /// Folds the norm: y = W (gamma · x + beta) + b of normalised rows x. gamma and beta are removed from the norm.
  void FoldNorm(nn::Norm<T>* norm) {
    if (!norm->beta.empty()) AddToBias(norm->beta);
    for (int64_t n = 0; n < rows; ++n) {
      T* row = weight.data() + n * columns();
      for (int64_t k = 0; k < columns(); ++k) row[k] *= norm->gamma[k];
    }
    *norm = {.eps = norm->eps, .kind = norm->kind, .folded = true};
  }

  /// Folds the scale: y = scale · (W x + b). Empties it.
  void FoldScale(Tensor<T>* scale) {
    ScaleRows(0, rows, *scale);
    *scale = {};
  }

  /// Multiplies rows [begin, end) and their biases by the factors, which repeat cyclically.
  void ScaleRows(int64_t begin, int64_t end, View<const T> factors) {
    for (int64_t n = begin; n < end; ++n) {
      const T factor = factors.data()[(n - begin) % factors.size()];
      T* row = weight.data() + n * columns();
      for (int64_t k = 0; k < columns(); ++k) row[k] *= factor;
      if (!bias.empty()) bias[n] *= factor;
    }
  }

  /// b += W x, summed in double.
  void AddToBias(View<const T> x) {
    constexpr int64_t kLanes = 8;
    if (bias.empty()) bias = Tensor<T>({rows});
    for (int64_t n = 0; n < rows; ++n) {
      const T* row = weight.data() + n * columns();
      double sums[kLanes] = {};
      int64_t k = 0;
      for (; k + kLanes <= columns(); k += kLanes) {
        for (int64_t i = 0; i < kLanes; ++i) sums[i] += static_cast<double>(row[k + i]) * x.data()[k + i];
      }
      double sum = bias[n];
      for (; k < columns(); ++k) sum += static_cast<double>(row[k]) * x.data()[k];
      for (const double partial : sums) sum += partial;
      bias[n] = static_cast<T>(sum);
    }
  }

  /// The layer with only the outputs [begin, end), unpacked.
  Affine Rows(int64_t begin, int64_t end) const {
    Affine part{Tensor<T>::Uninitialised({end - begin, columns()}), {}, end - begin, packing};
    std::copy_n(weight.data() + begin * columns(), part.weight.size(), part.weight.data());
    if (!bias.empty()) {
      part.bias = Tensor<T>::Uninitialised({end - begin});
      std::copy_n(bias.data() + begin, end - begin, part.bias.data());
    }
    return part;
  }

  nn::Linear<T> Pack(simd::Gate gate = simd::Gate::kNone) const { return PackRows(0, rows, gate); }
  /// The layer with only the outputs [begin, end), packed; without a bias if it is 0.
  nn::Linear<T> PackRows(int64_t begin, int64_t end, simd::Gate gate = simd::Gate::kNone) const {
    if (weight.empty()) return {};
    nn::Linear<T> linear{simd::PackedMatrix<T>(matrix().slice(0, begin, end), gate, packing), {}};
    const auto is_zero = [](T b) { return b == 0; };
    if (!bias.empty() && !std::all_of(bias.data() + begin, bias.data() + end, is_zero)) {
      linear.bias = Tensor<T>::Uninitialised({end - begin});
      std::copy(bias.data() + begin, bias.data() + end, linear.bias.data());
    }
    return linear;
  }
  /// The rows from `begin` on as one layer per head: W [width, columns].
  std::vector<nn::Linear<T>> PackHeads(int64_t begin, int64_t width, int64_t heads) const {
    std::vector<nn::Linear<T>> packed;
    for (int64_t h = 0; h < heads; ++h, begin += width) packed.push_back(PackRows(begin, begin + width));
    return packed;
  }
  /// As PackHeads, but transposed and without biases: Wᵀ [columns, width].
  std::vector<nn::Linear<T>> PackTransposedHeads(int64_t begin, int64_t width, int64_t heads) const {
    std::vector<nn::Linear<T>> packed;
    for (int64_t h = 0; h < heads; ++h, begin += width) {
      const View<const T> transposed = simd::Transposed(matrix().slice(0, begin, begin + width));
      packed.push_back({simd::PackedMatrix<T>(transposed, packing), {}});
    }
    return packed;
  }
};

// Converted tensors by canonical name.
template <typename T>
class Weights {
 public:
  explicit Weights(const std::vector<BoundTensor>& tensors) {
    for (const BoundTensor& tensor : tensors) by_name_.emplace(tensor.spec.name, &tensor);
  }

  bool Has(const std::string& name) const { return by_name_.contains(name); }

  /// The tensor in the table's shape; empty if the configuration has no tensor of that name.
  Tensor<T> Get(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? Tensor<T>() : Read<T>(*found->second);
  }

  nn::Norm<T> Norm(const std::string& name, const nn::NormConfig& config) const {
    return {Get(name + ".weight"), Get(name + ".bias"), static_cast<T>(config.eps), config.kind};
  }

  Affine<T> Layer(const std::string& name, simd::Precision precision = simd::Precision::kFloat32) const {
    Tensor<T> weight = Get(name + ".weight");
    const int64_t rows = weight.empty() ? 0 : weight.dim(0);
    return {std::move(weight), Get(name + ".bias"), rows, In(precision)};
  }
  /// Packing of the layers of these weights, all in one memory pool.
  simd::Packing In(simd::Precision precision) const { return {precision, pool_.get()}; }

  nn::Linear<T> Linear(const std::string& name) const { return Layer(name).Pack(); }

 private:
  std::unordered_map<std::string, const BoundTensor*> by_name_;
  std::unique_ptr<TensorPool> pool_ = std::make_unique<TensorPool>();
};

}  // namespace qkv::model
