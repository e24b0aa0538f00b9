#include "qkv/nn/training/mlp.h"

#include "qkv/nn/ranges.h"
#include "qkv/simd/rows/elementwise_backward.h"

namespace qkv::nn {
namespace {

using simd::Gate;

int64_t HiddenWidth(const MlpSettings& settings, int64_t outputs) {
  Require(settings.config.gate == Gate::kNone || outputs % 2 == 0, "mlp: {} outputs are no gates and values", outputs);
  return settings.config.gate == Gate::kNone ? outputs : outputs / 2;
}

// Gates and values in a row of 2·M elements.
template <typename T>
struct Halves {
  Halves(T* row, int64_t M, Gate order)
      : gate(order == Gate::kFirst ? row : row + M), value(order == Gate::kFirst ? row + M : row) {}
  T *gate, *value;
};

// to = the input of the norm or, without one, of fc2.
template <typename T>
void Activate(const MlpSettings& settings, View<const T> hidden, View<T> to) {
  const int64_t M = to.dim(1);
  ForRowRanges(to.dim(0), M, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      if (settings.config.gate == Gate::kNone) {
        simd::Activate<T>(settings.config.activation, hidden.row(r), to.row(r), M);
      } else {
        const Halves<const T> at(hidden.row(r), M, settings.config.gate);
        simd::ApplyGate<T>(settings.config.activation, at.gate, at.value, to.row(r), M);
      }
    }
  });
}

// Replaces hidden by its gradient, given the gradient of the activated values. If `activated` is not empty, it receives
// those values; it may be `gradient`.
template <typename T>
void Differentiate(const MlpSettings& settings, View<T> hidden, View<const T> gradient, View<T> activated) {
  const int64_t M = gradient.dim(1);
  ForRowRanges(gradient.dim(0), M, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      T* const value = activated.empty() ? nullptr : activated.row(r);
      if (settings.config.gate == Gate::kNone) {
        simd::ActivateGradient<T>(settings.config.activation, hidden.row(r), gradient.row(r), hidden.row(r), M, value);
      } else {
        const Halves<T> at(hidden.row(r), M, settings.config.gate);
        simd::GateGradient<T>(settings.config.activation, at.gate, at.value, gradient.row(r), at.gate, at.value, M,
                              value);
      }
    }
  });
}

}  // namespace

template <typename T>
void MlpForward(View<const T> x, const MlpParameters<const T>& p, const MlpSettings& settings, View<const T> residual,
                View<T> y, MlpCache<T>& cache, Arena& arena) {
  const int64_t rows = x.dim(0), outputs = p.fc1.weight.dim(0), M = HiddenWidth(settings, outputs);
  cache.hidden = arena.New<T>({rows, outputs});
  cache.moments = p.norm.empty() ? View<T>() : arena.New<T>({rows, 2});
  const Arena::Scope scope(arena);
  const View<T> activated = arena.New<T>({rows, M});
  LinearForward<T>(x, p.fc1, cache.hidden, {}, settings.precision);
  Activate<T>(settings, cache.hidden, activated);
  if (!p.norm.empty()) NormForward<T>(activated, p.norm, activated, cache.moments);
  LinearForward<T>(activated, p.fc2, y, residual, settings.precision);
}

template <typename T>
void MlpBackward(View<const T> x, const MlpParameters<const T>& p, const MlpSettings& settings,
                 const MlpCache<T>& cache, View<const T> dy, View<T> dx, bool add, const MlpParameters<T>& d,
                 Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t rows = x.dim(0), M = HiddenWidth(settings, cache.hidden.dim(1));
  const View<T> dinner = arena.New<T>({rows, M});  // gradient of fc2's input, then of the activation's output
  if (p.norm.empty()) {
    LinearBackward<T>({}, p.fc2, dy, dinner, false, {}, settings.precision);
    Differentiate<T>(settings, cache.hidden, dinner, dinner);
    LinearBackward<T>(dinner, p.fc2, dy, {}, false, d.fc2, settings.precision);
  } else {
    const View<T> activated = arena.New<T>({rows, M}), normed = arena.New<T>({rows, M});
    Activate<T>(settings, cache.hidden, activated);
    Renormalise<T>(activated, cache.moments, p.norm, normed);
    LinearBackward<T>(normed, p.fc2, dy, dinner, false, d.fc2, settings.precision);
    NormBackward<T>(activated, cache.moments, p.norm, dinner, dinner, false, d.norm);
    Differentiate<T>(settings, cache.hidden, dinner, {});
  }
  LinearBackward<T>(x, p.fc1, cache.hidden, dx, add, d.fc1, settings.precision);
}

#define QKV_INSTANTIATE(T)                                                                                           \
  template void MlpForward(View<const T>, const MlpParameters<const T>&, const MlpSettings&, View<const T>, View<T>, \
                           MlpCache<T>&, Arena&);                                                                    \
  template void MlpBackward(View<const T>, const MlpParameters<const T>&, const MlpSettings&, const MlpCache<T>&,    \
                            View<const T>, View<T>, bool, const MlpParameters<T>&, Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
