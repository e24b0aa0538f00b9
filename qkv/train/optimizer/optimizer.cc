#include "qkv/train/optimizer/optimizer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "qkv/core/parallel.h"
#include "qkv/simd/rows/optimizer.h"

namespace qkv::train {
namespace {

// Elements per piece: its five float buffers take 160 KB and stay in L2 from the update to the average.
constexpr int64_t kPiece = 8192;

// torch adds this to the norm before dividing by it.
constexpr double kClipEps = 1e-6;

const std::string kStepName = "optimizer.step";

template <typename U>
const io::StoredTensor& Find(const io::SafeTensors& from, const std::string& name, int64_t size) {
  const io::StoredTensor* stored = from.Find(name);
  Require(stored != nullptr, "optimizer: the state has no tensor '{}'", name);
  Require(stored->dtype == DTypeFor<U>() && stored->shape == Shape{size},
          "optimizer: expected '{}' as {} {}, got {} {}", name, Name(DTypeFor<U>()), Shape{size}, Name(stored->dtype),
          stored->shape);
  return *stored;
}

}  // namespace

void Validate(const OptimizerSettings& s) {
  const auto fraction = [](double x) { return x >= 0 && x < 1; };
  Require(s.weight_decay >= 0, "optimizer: expected a weight decay of 0 or more, got {}", s.weight_decay);
  Require(fraction(s.beta1) && fraction(s.beta2), "optimizer: expected betas in [0, 1), got {} and {}", s.beta1,
          s.beta2);
  Require(s.eps > 0, "optimizer: expected an eps above 0, got {}", s.eps);
  Require(fraction(s.momentum), "optimizer: expected a momentum in [0, 1), got {}", s.momentum);
  Require(s.clip_norm >= 0, "optimizer: expected a norm to clip at of 0 (none) or more, got {}", s.clip_norm);
  Require(fraction(s.average_decay), "optimizer: expected a decay of the average in [0, 1), got {}", s.average_decay);
}

double AverageDecay(const OptimizerSettings& settings, int64_t step) {
  if (step <= 1) return 0;
  if (!settings.average_warmup) return settings.average_decay;
  return std::min(settings.average_decay, 1 - std::pow(static_cast<double>(step), -2.0 / 3));
}

template <typename T>
void SumGradients(std::span<const View<T>> buffers, int64_t begin, int64_t end) {
  if (buffers.size() < 2) return;
  ParallelFor(end - begin, kPiece, [&](int64_t first, int64_t last) {
    for (size_t b = 1; b < buffers.size(); ++b) {
      T* from = buffers[b].data() + begin + first;
      simd::AddTo(from, buffers[0].data() + begin + first, last - first);
      std::fill_n(from, last - first, T{0});
    }
  });
}

template <typename T>
Optimizer<T>::Optimizer(const ParameterLayout& layout, const OptimizerSettings& settings)
    : settings_(settings), moment1_({layout.size()}) {
  Validate(settings);
  // Padding after a tensor joins that tensor's run: it stays zero in any case.
  for (const Slot& slot : layout.slots()) {
    if (!runs_.empty() && runs_.back().decays != slot.decays) runs_.back().end = slot.offset;
    if (runs_.empty() || runs_.back().decays != slot.decays) runs_.push_back({0, slot.decays});
  }
  if (!runs_.empty()) runs_.back().end = layout.size();
  if (settings.kind == OptimizerSettings::Kind::kAdamW) moment2_ = Tensor<T>({layout.size()});
  if (settings.average_decay > 0) average_ = Tensor<T>({layout.size()});
  squares_.resize(static_cast<size_t>((layout.size() + kPiece - 1) / kPiece));
}

template <typename T>
double Optimizer<T>::Norm(View<const T> gradients) {
  ParallelFor(gradients.size(), kPiece, [&](int64_t begin, int64_t end) {
    squares_[static_cast<size_t>(begin / kPiece)] = simd::SumOfSquares(gradients.data() + begin, end - begin);
  });
  double sum = 0;
  for (const double square : squares_) sum += square;
  return std::sqrt(sum);
}

// Updates elements [begin, end), which all decay or all do not.
template <typename T>
void Optimizer<T>::Update(int64_t begin, int64_t end, bool decays, double learning_rate, double scale, T* weights,
                          T* gradients) {
  const OptimizerSettings& s = settings_;
  const double decay = decays ? s.weight_decay : 0;
  const int64_t n = end - begin;
  T *w = weights + begin, *g = gradients + begin, *m = moment1_.data() + begin;
  if (s.kind == OptimizerSettings::Kind::kAdamW) {
    const double t = static_cast<double>(steps_);
    simd::AdamWFactors<T> f;
    f.gradient = static_cast<T>(scale);
    f.rate1 = static_cast<T>(1 - s.beta1);
    f.beta2 = static_cast<T>(s.beta2);
    f.rate2 = static_cast<T>(1 - s.beta2);
    f.keep = static_cast<T>(1 - learning_rate * decay);
    f.step = static_cast<T>(learning_rate / (1 - std::pow(s.beta1, t)));
    f.root_correction = static_cast<T>(std::sqrt(1 - std::pow(s.beta2, t)));
    f.eps = static_cast<T>(s.eps);
    simd::AdamW(f, g, m, moment2_.data() + begin, w, n);
  } else {
    simd::SgdFactors<T> f;
    f.gradient = static_cast<T>(scale);
    f.decay = static_cast<T>(decay);
    f.momentum = static_cast<T>(s.momentum);
    f.learning_rate = static_cast<T>(learning_rate);
    f.nesterov = s.nesterov;
    simd::Sgd(f, g, m, w, n);
  }
  std::fill_n(g, n, T{0});
  if (!average_.empty()) {
    simd::UpdateAverage(static_cast<T>(1 - AverageDecay(s, steps_)), w, average_.data() + begin, n);
  }
}

template <typename T>
double Optimizer<T>::Step(double learning_rate, View<T> weights, View<T> gradients, double scale) {
  const int64_t size = moment1_.size();
  Require(weights.size() == size && gradients.size() == size && weights.dense() && gradients.dense(),
          "optimizer: expected {} weights and gradients, got {} and {}", size, weights.size(), gradients.size());
  const double norm = std::abs(scale) * Norm(gradients);
  Require(std::isfinite(norm), "optimizer: the norm of the gradients of step {} is {}: training has diverged",
          steps_ + 1, norm);
  ++steps_;
  if (settings_.clip_norm > 0) scale *= std::min(1.0, settings_.clip_norm / (norm + kClipEps));
  ParallelFor(size, kPiece, [&](int64_t begin, int64_t end) {
    auto run = std::upper_bound(runs_.begin(), runs_.end(), begin,
                                [](int64_t place, const Run& candidate) { return place < candidate.end; });
    for (; begin < end; ++run) {
      const int64_t stop = std::min(end, run->end);
      Update(begin, stop, run->decays, learning_rate, scale, weights.data(), gradients.data());
      begin = stop;
    }
  });
  return norm;
}

// The state's tensors and their names, except the step.
template <typename T>
template <typename Self>
auto Optimizer<T>::Parts(Self& self) {
  const bool adam = self.settings_.kind == OptimizerSettings::Kind::kAdamW;
  std::vector<std::pair<std::string, decltype(&self.moment1_)>> parts;
  parts.emplace_back(adam ? "optimizer.moment1" : "optimizer.momentum", &self.moment1_);
  if (adam) parts.emplace_back("optimizer.moment2", &self.moment2_);
  if (!self.average_.empty()) parts.emplace_back("optimizer.average", &self.average_);
  return parts;
}

template <typename T>
std::vector<io::StoredTensor> Optimizer<T>::Store() const {
  std::vector<io::StoredTensor> state = {io::Stored(kStepName, View<const int64_t>(&steps_, {1}))};
  for (const auto& [name, tensor] : Parts(*this)) state.push_back(io::Stored(name, tensor->view()));
  return state;
}

template <typename T>
void Optimizer<T>::Restore(const io::SafeTensors& from) {
  const auto parts = Parts(*this);
  const io::StoredTensor& step = Find<int64_t>(from, kStepName, 1);
  for (const auto& [name, tensor] : parts) Find<T>(from, name, tensor->size());
  std::memcpy(&steps_, step.bytes.data(), sizeof steps_);
  for (const auto& [name, tensor] : parts) {
    const std::span<const std::byte> bytes = Find<T>(from, name, tensor->size()).bytes;
    if (!bytes.empty()) std::memcpy(tensor->data(), bytes.data(), bytes.size());
  }
}

#define QKV_INSTANTIATE(T)                                                \
  template void SumGradients(std::span<const View<T>>, int64_t, int64_t); \
  template class Optimizer<T>;
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
