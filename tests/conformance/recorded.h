// A recorded case of another library's tests of attention: parameters, inputs from its seed in a layout of that
// library, and the options of qkv that they are.
#pragma once

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "qkv/attention/attention.h"
#include "qkv/io/json.h"
#include "tests/conformance/seeded.h"

namespace qkv::conformance {

struct Recorded {
  explicit Recorded(const io::Json& p)
      : B(p["B"]),
        H(p["H"]),
        H_kv(p["H_kv"]),
        N_q(p["N_q"]),
        N_k(p["N_k"]),
        E(p["E"]),
        seed(p["seed"]),
        causal(p["causal"]),
        scale(p["scale"]),
        bias(p["bias"]),
        mask(p["mask"]),
        layout(p["layout"]),
        types(p["types"]),
        train(p["train"]) {
    self = p.value("self", false), tril = p.value("tril", false), runs = p.value("runs", 1);
    window = p.value("window", std::array<int64_t, 2>{-1, -1});
    band = p.value("band", std::vector<int64_t>());
    query_lengths = p.value("query_lengths", std::vector<int64_t>());
    key_lengths = p.value("key_lengths", std::vector<int64_t>());
  }

  int64_t B, H, H_kv, N_q, N_k, E;
  uint32_t seed;
  bool causal;
  double scale;                           // 0: 1 / sqrt(E)
  std::vector<int64_t> bias, mask;        // four extents that broadcast, along keys too; or empty
  std::string layout;                     // "heads": [B, H, N, E]; "rows": [B, N, H, E]; "packed": [B, N, 3, H, E]
  std::vector<std::string> types;         // of the library's cases
  std::vector<bool> train;                // whether they run the gradient
  bool self = false;                      // keys and values are the queries
  bool tril = false;                      // a mask in causal order
  int runs = 1;                           // cases that differ only in how the library is called
  std::array<int64_t, 2> window{-1, -1};  // to the left and to the right
  std::vector<int64_t> band;              // distances of visible keys, as a bias of −infinity; or empty
  std::vector<int64_t> query_lengths, key_lengths;  // [B], or empty
};

/// Heads [B, heads, N, E] in memory of a layout.
template <typename T>
class HeadsStorage {
 public:
  /// `part` of `parts` that share the memory of each row.
  HeadsStorage(const Recorded& c, int64_t heads, int64_t N, int64_t parts)
      : shape_({c.B, heads, N, c.E}), storage_({c.B * N * parts * heads * c.E}) {
    const int64_t row = parts * heads * c.E;
    strides_ = {N * row, c.E, row, 1};
    if (c.layout == "heads") strides_ = {heads * N * c.E, N * c.E, c.E, 1};
  }
  View<T> part(int64_t part) { return View<T>(storage_.data() + part * shape_[1] * shape_[3], shape_, strides_); }

 private:
  Shape shape_;
  Tensor<T> storage_;
  typename View<T>::Strides strides_{};
};

/// Queries, keys and values, or their gradients.
template <typename T>
class Operands {
 public:
  explicit Operands(const Recorded& c) : packed_(c.layout == "packed"), queries_(c, c.H, c.N_q, packed_ ? 3 : 1) {
    if (!packed_) keys_.emplace_back(c, c.H_kv, c.N_k, 1), keys_.emplace_back(c, c.H_kv, c.N_k, 1);
  }
  View<T> q() { return queries_.part(0); }
  View<T> k() { return packed_ ? queries_.part(1) : keys_[0].part(0); }
  View<T> v() { return packed_ ? queries_.part(2) : keys_[1].part(0); }

 private:
  bool packed_;
  HeadsStorage<T> queries_;
  std::vector<HeadsStorage<T>> keys_;
};

/// f(element, index) for each element in the order of [B, heads, N, E].
template <typename T, class F>
void ForElements(View<T> x, F&& f) {
  int64_t index = 0;
  for (int64_t b = 0; b < x.dim(0); ++b) {
    for (int64_t h = 0; h < x.dim(1); ++h) {
      for (int64_t n = 0; n < x.dim(2); ++n) {
        for (int64_t e = 0; e < x.dim(3); ++e) f(*x.at(b, h, n, e), index++);
      }
    }
  }
}

template <typename T>
T AtIndex(View<T> x, int64_t index) {
  const int64_t e = index % x.dim(3), row = index / x.dim(3), n = row % x.dim(2), head = row / x.dim(2);
  return *x.at(head / x.dim(1), head % x.dim(1), n, e);
}

template <typename T>
void Fill(View<T> x, uint32_t seed, Purpose purpose) {
  ForElements(x, [&](T& element, int64_t i) { element = static_cast<T>(SeededNumber(seed, purpose, i)); });
}

/// The options of a case, and the memory of their tensors.
template <typename T>
struct RecordedOptions {
  explicit RecordedOptions(const Recorded& c) {
    options.scale = static_cast<T>(c.scale);
    if (c.causal) options.causal = attention::Causal::kTopLeft;
    options.window_left = c.window[0], options.window_right = c.window[1];
    if (!c.key_lengths.empty()) options.key_lengths = View<const int64_t>(c.key_lengths.data(), {c.B});
    if (!c.bias.empty()) {
      bias = Tensor<T>({c.bias[0], c.bias[1], c.bias[2], c.bias[3]});
      Fill(bias.view(), c.seed, Purpose::kBias);
      if (!c.band.empty()) FillBand(c);
      options.bias = AlongKeys<T>(bias, c.N_k);
    }
    if (!c.mask.empty()) {
      mask = Tensor<bool>({c.mask[0], c.mask[1], c.mask[2], c.mask[3]});
      for (int64_t i = 0; i < mask.size(); ++i) mask[i] = SeededMask(c.seed, i);
      options.mask = AlongKeys<bool>(mask, c.N_k);
    } else if (c.tril || !c.query_lengths.empty()) {
      mask = Tensor<bool>({c.B, 1, c.N_q, c.N_k});
      for (int64_t i = 0; i < mask.size(); ++i) {
        const int64_t b = i / (c.N_q * c.N_k), n = i / c.N_k % c.N_q, j = i % c.N_k;
        mask[i] = (!c.tril || j <= n) && (c.query_lengths.empty() || n < c.query_lengths[static_cast<size_t>(b)]);
      }
      options.mask = mask;
    }
  }

  attention::Options<T> options;
  Tensor<T> bias;
  Tensor<bool> mask;

 private:
  // A last axis of 1 is the same for all keys.
  template <typename U>
  static View<const U> AlongKeys(const Tensor<U>& x, int64_t N_k) {
    const View<const U> view = x;
    auto strides = view.strides();
    if (view.dim(3) == 1) strides[3] = 0;
    return View<const U>(view.data(), {view.dim(0), view.dim(1), view.dim(2), N_k}, strides);
  }
  void FillBand(const Recorded& c) {
    for (int64_t i = 0; i < bias.size(); ++i) {
      const int64_t distance = i % c.N_k - i / c.N_k;
      bias[i] = distance < c.band[0] || distance > c.band[1] ? -std::numeric_limits<T>::infinity() : T{0};
    }
  }
};

}  // namespace qkv::conformance
