#include "qkv/train/network/initialise.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "qkv/algebra/parts.h"
#include "qkv/algebra/truncate.h"
#include "qkv/core/hash.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/model/layout/positions.h"

namespace qkv::train {
namespace {

using model::Role;
using model::VitConfig;
using nn::AttentionKind;

// The shapes that the initial values depend on.
struct Shapes {
  nn::BlockConfig block;
  int64_t depth;
  nn::TokenGrid grid;
  int64_t patch_features;  // for images
};

constexpr double kLinear = 0.02;   // standard deviation of timm's linear weights and positions
constexpr double kLambda = 0.1;    // of the vectors of λ (Ye et al. 2024)
constexpr double kNothing = 1e-6;  // and of tensors that timm starts near zero

// A random stream per name, independent of other names.
Rng MakeRng(uint64_t seed, std::string_view name) { return Rng(MixSeed(seed, Fnv1a().Add(name).value())); }

// Standard normal by the ratio of uniforms (Kinderman and Monahan 1977) with Leva's bounds (1992). The logarithm is
// only used, rarely, to accept or reject a number; the number is a quotient, equal on every machine.
double Normal(Rng& rng) {
  for (;;) {
    const double u = 1 - rng.Uniform(), v = 1.7156 * (rng.Uniform() - 0.5);
    const double x = u - 0.449871, y = std::abs(v) + 0.386595;
    const double q = x * x + y * (0.19600 * y - 0.25472 * x);
    if (q < 0.27597 || (q <= 0.27846 && v * v <= -4 * u * u * std::log(u))) return v / u;
  }
}

double Uniform(Rng& rng, double bound) { return bound * (2 * rng.Uniform() - 1); }

// Truncated at two standard deviations.
double TruncatedNormal(Rng& rng) {
  for (;;) {
    const double x = Normal(rng);
    if (std::abs(x) <= 2) return x;
  }
}

// With weights N(0, σ²) and rows of unit variance, a score s Σ_e q_e k_e (s = 1/√E) of separate queries and keys of E
// features has standard deviation σ² D. With r features the deviation is the same if queries and keys are each scaled
// by this factor.
double QueryWidening(const Shapes& c) {
  // Not pow: square roots round identically on every machine.
  return std::sqrt(std::sqrt(static_cast<double>(c.block.attention.head_width) /
                             static_cast<double>(c.block.attention.query_width())));
}

// Standard deviation of a weight, or of the positional tables of queries and keys, in a block's attn.qk.
double QueryKeyDeviation(const Shapes& c, const Slot& slot) {
  if (slot.role == Role::kPosition) return kLinear * std::sqrt(static_cast<double>(c.block.width)) * QueryWidening(c);
  // An entry of W_Qᵀ W_K.
  if (slot.name.ends_with("qk.merged")) {
    return kLinear * kLinear * std::sqrt(static_cast<double>(c.block.attention.head_width));
  }
  return kLinear * QueryWidening(c);
}

// Eigenvalues of alternating sign, so that a token's score with itself is 0 on average, as with separate queries and
// keys.
double Eigenvalue(int64_t i) { return i % 2 == 0 ? 1 : -1; }

// Bandwidths in geometric steps, from one patch to the longer side of the grid.
double Bandwidth(const Shapes& c, int64_t head) {
  const double side = static_cast<double>(std::max(c.grid.height, c.grid.width));
  const int64_t H = c.block.attention.heads;
  return std::pow(side, H == 1 ? 0.5 : static_cast<double>(head) / static_cast<double>(H - 1));
}

template <typename T, typename F>
void Fill(View<T> tensor, F&& f) {
  for (int64_t i = 0; i < tensor.size(); ++i) tensor.data()[i] = static_cast<T>(f(i));
}

bool IsPatchEmbedding(const Slot& slot) { return slot.name.starts_with("patch_embed.proj."); }
bool IsGatedMlp(const Shapes& c, const Slot& slot) {
  return c.block.mlp.gate != simd::Gate::kNone && slot.name.starts_with("blocks.") &&
         slot.name.find(".mlp.fc1.") != std::string::npos;
}

template <typename T>
void InitialiseWeight(const Shapes& c, const Slot& slot, Rng& rng, View<T> tensor) {
  if (IsPatchEmbedding(slot)) {
    const double bound = 1 / std::sqrt(static_cast<double>(c.patch_features));
    return Fill(tensor, [&](int64_t) { return Uniform(rng, bound); });
  }
  const bool gated = IsGatedMlp(c, slot);
  const double deviation = slot.name.find(".attn.qk.") != std::string::npos ? QueryKeyDeviation(c, slot) : kLinear;
  Fill(tensor, [&](int64_t i) { return (gated && i >= tensor.size() / 2 ? kNothing : deviation) * Normal(rng); });
}

template <typename T>
void InitialiseBias(const Shapes& c, const Slot& slot, Rng& rng, View<T> tensor) {
  if (IsPatchEmbedding(slot)) {
    const double bound = 1 / std::sqrt(static_cast<double>(c.patch_features));
    return Fill(tensor, [&](int64_t) { return Uniform(rng, bound); });
  }
  const bool gated = IsGatedMlp(c, slot);
  Fill(tensor, [&](int64_t i) { return gated && i >= tensor.size() / 2 ? 1 : 0; });
}

template <typename T>
void InitialiseScale(const Shapes& c, const Slot& slot, double layer_scale, Rng& rng, View<T> tensor) {
  Fill(tensor, [&](int64_t i) {
    if (slot.name.find("attn.lambda_") != std::string::npos) return kLambda * Normal(rng);
    if (slot.name.ends_with("qk.eigenvalues")) return Eigenvalue(i);
    if (slot.name.ends_with("qk.bandwidth")) return Bandwidth(c, i);
    return layer_scale;
  });
}

template <typename T>
void InitialiseToken(const Shapes& c, const Slot& slot, Rng& rng, View<T> tensor) {
  if (slot.name == "attn_pool.latent") {
    const double deviation = 1 / std::sqrt(static_cast<double>(c.block.width));
    return Fill(tensor, [&](int64_t) { return deviation * TruncatedNormal(rng); });
  }
  const bool embeds = slot.name == "dist_token" || slot.name == "token_embed.weight";
  const double deviation = embeds ? kLinear : kNothing;
  Fill(tensor, [&](int64_t) { return deviation * Normal(rng); });
}

template <typename T>
void InitialiseSlot(const Shapes& c, const Slot& slot, const Initialisation& how, View<T> tensor) {
  Rng rng = MakeRng(how.seed, slot.name);
  switch (slot.role) {
    case Role::kWeight:
    case Role::kPosition:
      return InitialiseWeight(c, slot, rng, tensor);
    case Role::kBias:
      return InitialiseBias(c, slot, rng, tensor);
    case Role::kNorm:
      return Fill(tensor, [&](int64_t) { return slot.name.ends_with(".weight") ? 1 : 0; });
    case Role::kScale:
      return InitialiseScale(c, slot, how.layer_scale, rng, tensor);
    case Role::kToken:
      return InitialiseToken(c, slot, rng, tensor);
  }
}

// --- Mimetic --------------------------------------------------------------------------------------------------------

// α and β of the paper, for queries and keys and for values and projection.
constexpr double kQueryKey = 0.7, kValueOutput = 0.4;

void RequireMimetic(const Shapes& c) {
  const AttentionKind kind = c.block.attention.kind;
  Require(
      !nn::ValuesAreKeys(kind) && !nn::IsPositional(kind),
      "initialise: 'mimetic' is not defined for {} attention, whose queries and keys are not its own weights; it is "
      "for separate, shared, merged, low_rank and symmetric",
      model::Name(kind));
  Require(c.block.attention.maps() == 1, "initialise: 'mimetic' is not defined for {} attention: {}", model::Name(kind),
          model::kTwoMaps);
  Require(!c.block.attention.groups_heads(),
          "initialise: 'mimetic' needs keys and values for each head, and {} heads share {}", c.block.attention.heads,
          c.block.attention.key_heads);
  Require(c.block.attention.projection, "initialise: 'mimetic' needs an output projection, and this model has none");
  Require(c.block.attention.joined_width() <= c.block.width,
          "initialise: 'mimetic' needs heads that together are no wider than the model, {}, got {} of {}",
          c.block.width, c.block.attention.heads, c.block.attention.head_width);
}

// `factor` Z + `diagonal` I, [D, D], Z of N(0, 1/D).
Tensor<double> NoisyIdentity(uint64_t seed, const std::string& name, int64_t D, double factor, double diagonal) {
  Rng rng = MakeRng(seed, name);
  Tensor<double> matrix({D, D});
  Fill(matrix.view(), [&](int64_t) { return factor / std::sqrt(static_cast<double>(D)) * Normal(rng); });
  for (int64_t d = 0; d < D; ++d) matrix[d * D + d] += diagonal;
  return matrix;
}

Tensor<double> Identity(int64_t D) {
  Tensor<double> matrix({D, D});
  for (int64_t d = 0; d < D; ++d) matrix[d * D + d] = 1;
  return matrix;
}

template <typename T>
void Copy(const Tensor<double>& from, View<T> to) {
  Fill(to, [&](int64_t i) { return from[i]; });
}

template <typename T>
class MimeticBlock {
 public:
  MimeticBlock(const Shapes& config, const ParameterLayout& layout, uint64_t seed, int64_t block, View<T> weights)
      : c_(config), layout_(layout), seed_(seed), attn_(fmt::format("blocks.{}.attn.", block)), weights_(weights) {}

  // Sets W_Qᵀ W_K of a head, as closely as the kind of attention can represent it.
  void QueryKey(int64_t head) const {
    const int64_t D = c_.block.width, r = c_.block.attention.query_width();
    const Tensor<double> product =
        NoisyIdentity(seed_, fmt::format("{}mimetic.qk.{}", attn_, head), D, kQueryKey, kQueryKey);
    const Tensor<double> identity = Identity(D);
    const auto rows = [&](const char* name, int64_t begin) { return At(name).slice(0, begin, begin + r); };
    switch (c_.block.attention.kind) {
      case AttentionKind::kMerged:
        return Copy(product, At("qk.merged")[head]);
      case AttentionKind::kShared:
        return Copy(algebra::FitShared(identity, product, r).weight, rows("qk.weight", head * r));
      case AttentionKind::kSymmetric: {
        const algebra::SymmetricFit fit = algebra::FitSymmetric(identity, product, r);
        Copy(fit.weight, rows("qk.weight", head * r));
        return Copy(fit.signs, At("qk.eigenvalues")[head]);
      }
      default: {
        const auto pair = algebra::Truncate({{identity, {}}, {product, {}}}, r, algebra::Terms::kExact);
        const bool separate = c_.block.attention.kind == AttentionKind::kSeparate;
        Copy(pair.query.weight, separate ? rows("qkv.weight", head * r) : rows("qk.query.weight", head * r));
        Copy(pair.key.weight,
             separate ? rows("qkv.weight", (c_.block.attention.heads + head) * r) : rows("qk.key.weight", head * r));
      }
    }
  }

  // Sets W_O W_V of all heads together.
  void ValueOutput() const {
    const int64_t D = c_.block.width, joined = c_.block.attention.joined_width();
    const Tensor<double> product = NoisyIdentity(seed_, attn_ + "mimetic.ov", D, kValueOutput, -kValueOutput);
    const Tensor<double> identity = Identity(D);
    const auto pair = algebra::Truncate({{identity, {}}, {product, {}}}, joined, algebra::Terms::kExact);
    const bool separate = c_.block.attention.kind == AttentionKind::kSeparate;
    Copy(pair.key.weight, separate ? At("qkv.weight").slice(0, 2 * joined, 3 * joined) : At("v.weight"));
    const View<T> output = At("proj.weight");  // [D, joined], the transpose of the first factor
    for (int64_t d = 0; d < D; ++d) {
      for (int64_t e = 0; e < joined; ++e) *output.at(d, e) = static_cast<T>(pair.query.weight[e * D + d]);
    }
  }

 private:
  View<T> At(const char* name) const { return layout_.At(attn_ + name, weights_); }

  const Shapes& c_;
  const ParameterLayout& layout_;
  uint64_t seed_;
  std::string attn_;
  View<T> weights_;
};

// Positions of the grid; prefix tokens have none.
template <typename T>
void SinCosPositions(const VitConfig& c, View<T> positions) {
  std::fill_n(positions.data(), positions.size(), T{0});
  const View<T> all = positions.reshape({c.position_prefix + c.patches(), c.block.width});
  model::SinCosGrid(c.grid_height(), c.grid_width(), all.slice(0, c.position_prefix, all.dim(0)));
}

template <typename T>
void InitialiseMimetic(const Shapes& c, const ParameterLayout& layout, uint64_t seed, View<T> weights) {
  // One decomposition per head for the scores, and one per block for the values.
  const int64_t H = c.block.attention.heads;
  ParallelTasks(c.depth * (H + 1), [&](int64_t task, int) {
    const MimeticBlock<T> block(c, layout, seed, task / (H + 1), weights);
    const int64_t head = task % (H + 1);
    if (head < H) {
      block.QueryKey(head);
    } else {
      block.ValueOutput();
    }
  });
}

bool IsMimetic(const Initialisation& how) { return how.scheme == Initialisation::Scheme::kMimetic; }

// Initialises all tensors except mimetic positions.
template <typename T>
void InitialiseTensors(const Shapes& shapes, const ParameterLayout& layout, const Initialisation& how,
                       View<T> weights) {
  Require(weights.size() == layout.size() && weights.dense(), "initialise: expected {} weights, got {}", layout.size(),
          weights.size());
  if (IsMimetic(how)) RequireMimetic(shapes);
  std::fill_n(weights.data(), weights.size(), T{0});
  ParallelTasks(static_cast<int64_t>(layout.slots().size()), [&](int64_t i, int) {
    const Slot& slot = layout.slots()[static_cast<size_t>(i)];
    InitialiseSlot(shapes, slot, how, View<T>(weights.data() + slot.offset, slot.shape));
  });
  if (IsMimetic(how)) InitialiseMimetic(shapes, layout, how.seed, weights);
}

}  // namespace

template <typename T>
void Initialise(const VitConfig& config, const ParameterLayout& layout, const Initialisation& how, View<T> weights) {
  const bool sines = IsMimetic(how) && config.positions == model::Positions::kLearned;
  Require(!sines || (config.block.width % 4 == 0 && config.block.width >= 8),
          "initialise: 'mimetic' starts positions as sines and cosines, which needs a width of 8 or more, divisible by "
          "4, got {}",
          config.block.width);
  InitialiseTensors({config.block, config.depth, config.grid(), config.patch_features()}, layout, how, weights);
  if (sines) SinCosPositions(config, layout.At("pos_embed", weights));
}

template <typename T>
void Initialise(const model::SequenceConfig& config, const ParameterLayout& layout, const Initialisation& how,
                View<T> weights) {
  using model::SequencePositions;
  InitialiseTensors({config.block, config.depth, config.grid(), 0}, layout, how, weights);
  const bool learned_sines =
      config.positions == SequencePositions::kLearned && IsMimetic(how) && config.block.width % 2 == 0;
  if (learned_sines) {
    model::SinCosSequence(layout.At("pos_embed", weights).reshape({config.length, config.block.width}));
  }
  if (!learned_sines && config.positions != SequencePositions::kSinusoidal) return;
  const View<T> tokens = layout.At("token_embed.weight", weights);
  Fill(tokens, [&](int64_t i) { return std::sqrt(0.5) / kLinear * static_cast<double>(tokens.data()[i]); });
}

#define QKV_INSTANTIATE(T)                                                                            \
  template void Initialise(const VitConfig&, const ParameterLayout&, const Initialisation&, View<T>); \
  template void Initialise(const model::SequenceConfig&, const ParameterLayout&, const Initialisation&, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
