#include "qkv/mil/gated_head.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/simd/rows/elementwise.h"

namespace qkv::mil {
namespace {

// Tiles that are computed together. Their activations, some 2,000 numbers a tile, stay in the last-level cache, and
// memory does not grow with the bag.
constexpr int64_t kBlock = 1024;

Tensor<float> Apply(const Stage& stage, View<const float> x) {
  Tensor<float> y = Tensor<float>::Uninitialised({x.dim(0), stage.outputs()});
  nn::LinearForward<float>(x, stage.linear, y.view(), {.activation = stage.activation});
  return y;
}

int64_t ApplyWidths(const std::vector<Stage>& stages, int64_t width, const std::string& name, const char* what) {
  for (const Stage& stage : stages) {
    Require(stage.inputs() == width, "{}: a layer of {} takes {} numbers, expected {}", name, what, stage.inputs(),
            width);
    width = stage.outputs();
  }
  return width;
}

}  // namespace

void RequireBag(const Head& head, View<const float> features, std::span<const std::array<int64_t, 2>> coords) {
  Require(features.rank() == 2 && features.dim(1) == head.width(),
          "{}: vectors of shape {}, expected [tiles, {}]; use the vectors of the encoder that the head was trained on",
          head.name(), features.shape(), head.width());
  Require(features.dim(0) > 0, "{}: the bag has no tiles", head.name());
  Require(coords.empty() || static_cast<int64_t>(coords.size()) == features.dim(0), "{}: {} coordinates for {} tiles",
          head.name(), coords.size(), features.dim(0));
  for (int64_t tile = 0; tile < features.dim(0); ++tile) {
    const float* const row = features.row(tile);
    Require(std::all_of(row, row + features.dim(1), [](float value) { return std::isfinite(value); }),
            "{}: the vector of tile {} has a value that is no number; embed the slide again", head.name(), tile);
  }
}

// Running sums of Σ exp(s − greatest) h over the blocks so far: exact whatever the order of scores, and no [tiles, F].
struct GatedHead::Sums {
  std::vector<double> greatest, total;  // [K]
  Tensor<double> vectors;               // [K, F]
};

GatedHead::GatedHead(GatedWeights weights) : w_(std::move(weights)) {
  name_ = w_.name;
  classes_ = w_.classes;
  T_ = static_cast<int64_t>(w_.scores.size());
  Require(T_ > 0 && w_.hidden > 0, "{}: no attention head", name_);
  R_ = w_.scores[0].weight.outputs();
  for (const nn::Linear<float>& score : w_.scores) {
    Require(score.weight.outputs() == R_ && score.weight.inputs() == w_.hidden,
            "{}: attention heads of {} and {} scores from {} and {} features, expected equal ones", name_, R_,
            score.weight.outputs(), w_.hidden, score.weight.inputs());
  }
  Require(w_.gates.outputs() == (w_.gated ? 2 : 1) * T_ * w_.hidden, "{}: gates of {} features for {} heads of {}",
          name_, w_.gates.outputs(), T_, w_.hidden);
  width_ = w_.embed.empty() ? w_.gates.inputs() : w_.embed.front().inputs();
  F_ = ApplyWidths(w_.embed, width_, name_, "the tiles' embedding");
  Require(w_.gates.inputs() == F_, "{}: attention reads {} features of a tile, which has {}", name_, w_.gates.inputs(),
          F_);
  const int64_t vector = ApplyWidths(w_.after, T_ * F_, name_, "the slide's vector");
  const int64_t logits = ApplyWidths(w_.classifier, R_ * vector, name_, "the classifier");
  Require(w_.branch_classifiers.empty() || static_cast<int64_t>(w_.branch_classifiers.size()) == R_,
          "{}: {} classifiers for {} branches of attention", name_, w_.branch_classifiers.size(), R_);
  for (const nn::Linear<float>& classifier : w_.branch_classifiers) {
    Require(classifier.weight.outputs() == 1 && classifier.weight.inputs() == vector,
            "{}: the classifier of a branch is [{}, {}], expected [1, {}]", name_, classifier.weight.outputs(),
            classifier.weight.inputs(), vector);
  }
  const int64_t classes = w_.one_logit ? 2 : !w_.branch_classifiers.empty() ? R_ : w_.classifier.empty() ? 0 : logits;
  Require(static_cast<int64_t>(classes_.size()) == classes, "{}: {} names for {} classes", name_, classes_.size(),
          classes);
}

void GatedHead::AddBlock(View<const float> features, int64_t begin, Sums* sums, Answer* answer) const {
  const int64_t n = features.dim(0), Z = w_.hidden, K = R_ * T_;
  Tensor<float> embedded;
  View<const float> h = features;
  for (const Stage& stage : w_.embed) {
    Tensor<float> next = Apply(stage, h);
    embedded = std::move(next);
    h = embedded.view();
  }
  Tensor<float> z = Apply(w_.gates, h);
  if (w_.gated) {
    ParallelFor(n, 64, [&](int64_t first, int64_t end) {
      for (int64_t i = first; i < end; ++i) {
        float* const a = z.data() + i * 2 * T_ * Z;
        for (int64_t f = 0; f < T_ * Z; ++f) a[f] *= 0.5f + 0.5f * a[T_ * Z + f];
      }
    });
  }
  Tensor<float> of_head = Tensor<float>::Uninitialised({n, R_});
  for (int64_t t = 0; t < T_; ++t) {
    nn::LinearForward<float>(z.view().slice(1, t * Z, (t + 1) * Z), w_.scores[static_cast<size_t>(t)], of_head.view());
    for (int64_t r = 0; r < R_; ++r) {
      for (int64_t i = 0; i < n; ++i) *answer->scores.view().at(r * T_ + t, begin + i) = of_head[i * R_ + r];
    }
  }
  Tensor<double> factors({K, n});
  std::vector<double> rescale(static_cast<size_t>(K));
  for (int64_t k = 0; k < K; ++k) {
    const auto at = static_cast<size_t>(k);
    const float* const scores = answer->scores.view().row(k) + begin;
    const double greatest = std::max(sums->greatest[at], static_cast<double>(*std::max_element(scores, scores + n)));
    rescale[at] = std::exp(sums->greatest[at] - greatest);
    sums->greatest[at] = greatest;
    sums->total[at] *= rescale[at];
    for (int64_t i = 0; i < n; ++i) {
      factors[k * n + i] = std::exp(static_cast<double>(scores[i]) - greatest);
      sums->total[at] += factors[k * n + i];
    }
  }
  ParallelFor(F_, 64, [&](int64_t first, int64_t end) {
    for (int64_t k = 0; k < K; ++k) {
      double* const sum = sums->vectors.view().row(k);
      for (int64_t f = first; f < end; ++f) sum[f] *= rescale[static_cast<size_t>(k)];
      for (int64_t i = 0; i < n; ++i) {
        const double factor = factors[k * n + i];
        const float* const row = h.row(i);
        for (int64_t f = first; f < end; ++f) sum[f] += factor * static_cast<double>(row[f]);
      }
    }
  });
}

Answer GatedHead::Forward(View<const float> features, std::span<const std::array<int64_t, 2>> coords,
                          int64_t /*side*/) const {
  RequireBag(*this, features, coords);
  const int64_t N = features.dim(0), K = R_ * T_;
  RequireMemory(2.0 * sizeof(float) * static_cast<double>(K) * static_cast<double>(N), name_ + ": scores of the tiles");
  Answer answer;
  answer.scores = Tensor<float>::Uninitialised({K, N});
  Sums sums{.greatest = std::vector<double>(static_cast<size_t>(K), -std::numeric_limits<double>::infinity()),
            .total = std::vector<double>(static_cast<size_t>(K)),
            .vectors = Tensor<double>({K, F_})};
  for (int64_t begin = 0; begin < N; begin += kBlock) {
    CheckCancelled();
    AddBlock(features.slice(0, begin, std::min(N, begin + kBlock)), begin, &sums, &answer);
  }
  answer.weights = Tensor<float>::Uninitialised({K, N});
  for (int64_t k = 0; k < K; ++k) {
    const auto at = static_cast<size_t>(k);
    Require(std::isfinite(sums.greatest[at]) && std::isfinite(sums.total[at]),
            "{}: scores of the tiles are no numbers; its weights or the vectors are too large", name_);
    for (int64_t i = 0; i < N; ++i) {
      const double score = answer.scores[k * N + i];
      answer.weights[k * N + i] = static_cast<float>(std::exp(score - sums.greatest[at]) / sums.total[at]);
    }
  }
  answer.vector = Tensor<float>::Uninitialised({R_, T_ * F_});
  for (int64_t k = 0; k < K; ++k) {
    for (int64_t f = 0; f < F_; ++f) {
      const double mean = sums.vectors[k * F_ + f] / sums.total[static_cast<size_t>(k)];
      answer.vector[k * F_ + f] = static_cast<float>(mean);
    }
  }
  for (const Stage& stage : w_.after) answer.vector = Apply(stage, answer.vector.view());
  Classify(&answer);
  if (R_ == 1) {
    Tensor<float> flat = Tensor<float>::Uninitialised({answer.vector.size()});
    std::copy_n(answer.vector.data(), flat.size(), flat.data());
    answer.vector = std::move(flat);
  }
  return answer;
}

void GatedHead::Classify(Answer* answer) const {
  if (!w_.branch_classifiers.empty()) {
    answer->logits = Tensor<float>({R_});
    for (int64_t r = 0; r < R_; ++r) {
      const View<float> logit(answer->logits.data() + r, {1, 1});
      nn::LinearForward<float>(answer->vector.view().slice(0, r, r + 1), w_.branch_classifiers[static_cast<size_t>(r)],
                               logit);
    }
    return;
  }
  if (w_.classifier.empty()) return;
  Tensor<float> logits = Apply(w_.classifier.front(), answer->vector.view().reshape({1, answer->vector.size()}));
  for (size_t i = 1; i < w_.classifier.size(); ++i) logits = Apply(w_.classifier[i], logits.view());
  answer->logits = Tensor<float>({static_cast<int64_t>(classes_.size())});
  std::copy_n(logits.data(), logits.size(), answer->logits.data() + (w_.one_logit ? 1 : 0));
}

}  // namespace qkv::mil
