// Every option of nn::BlockConfig, in training and inference: gradients against differences of the loss, float against
// double, any number of threads, and the built layers against the training pass.
#include <gtest/gtest.h>

#include <algorithm>

#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/attention.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/parameters.h"
#include "qkv/model/layout/tensor_table.h"
#include "tests/nn/training.h"

namespace qkv::nn {
namespace {

constexpr int64_t kB = 3, kN = 6, kSource = 5;

struct BlockCase {
  std::string name;
  BlockConfig config;
  int64_t rows = kN;
  bool causal = false, mask = false, bias = false, lengths = false;
};
void PrintTo(const BlockCase& c, std::ostream* out) { *out << c.name; }

// Takes the tensors of the declaration from a buffer, one after the other.
template <typename T>
class Taker {
 public:
  explicit Taker(View<T> buffer) : buffer_(buffer) {}

  void Tensor(const model::TensorName& name, const Shape& shape, model::Role, View<T>& view) {
    view = Take(Joined(name), shape);
  }
  void Linear(const model::TensorName& name, int64_t outputs, int64_t inputs, bool bias, LinearParameters<T>& p) {
    p.weight = Take(Joined(name) + ".weight", {outputs, inputs});
    if (bias) p.bias = Take(Joined(name) + ".bias", {outputs});
  }
  void Norm(const model::TensorName& name, int64_t width, const NormConfig& config, NormParameters<T>& p) {
    p = {.kind = config.kind, .eps = config.eps};
    p.gamma = Take(Joined(name) + ".weight", {width});
    if (config.has_bias()) p.beta = Take(Joined(name) + ".bias", {width});
  }

  static std::string Joined(const model::TensorName& name) { return std::string(name.layer) + std::string(name.name); }
  View<T> Take(const std::string& name, const Shape& shape) {
    const View<T> view(buffer_.empty() ? nullptr : buffer_.data() + used, shape);
    used += shape.size();
    named.emplace_back(name, view);
    return view;
  }

  int64_t used = 0;
  std::vector<std::pair<std::string, View<T>>> named;

 private:
  View<T> buffer_;
};

// A block whose weights are a flat buffer, with the source and the bias of its scores behind them.
struct BlockLayer {
  BlockCase c;
  int64_t B = kB, N = kN, rows = c.rows;

  int64_t source_width() const {
    return !c.config.cross ? 0 : c.config.cross->source_width > 0 ? c.config.cross->source_width : c.config.width;
  }
  Shape x() const { return {B, N, c.config.width}; }
  Shape y() const { return {B, rows, c.config.width}; }
  int64_t parameters() const {
    Taker<const double> taker({});
    Bind(taker);
    return taker.used;
  }

  template <typename T>
  struct Bound {
    BlockParameters<T> p;
    View<T> source;
  };
  template <typename T>
  Bound<T> Bind(Taker<T>& taker) const {
    Bound<T> bound;
    model::VisitBlock(c.config, N, bound.p, taker);
    if (c.bias) bound.p.attention.score_bias = taker.Take("bias", {1, c.config.attention.heads, rows, N});
    if (c.config.cross) bound.source = taker.Take("source", {B, kSource, source_width()});
    return bound;
  }
  template <typename T>
  Bound<T> Bind(View<T> buffer) const {
    Taker<T> taker(buffer);
    return Bind(taker);
  }

  // Every image has lost another key, and has fewer of them.
  Tensor<bool> Mask() const {
    Tensor<bool> mask({B, 1, 1, N});
    for (int64_t b = 0; b < B; ++b) {
      for (int64_t j = 0; j < N; ++j) *mask.view().at(b, 0, 0, j) = j != b % (N - 1) + 1;
    }
    return mask;
  }
  Tensor<int64_t> Lengths(int64_t keys) const {
    Tensor<int64_t> lengths({B});
    for (int64_t b = 0; b < B; ++b) lengths[b] = keys - b % keys;
    return lengths;
  }

  // The last one has no source: it adds the projection's bias alone.
  Tensor<int64_t> SourceLengths() const {
    Tensor<int64_t> lengths = Lengths(kSource);
    lengths[B - 1] = 0;
    return lengths;
  }

  template <typename T>
  void Run(View<const T> weights, View<const T> x, View<T> y, const Gradients<T>& g) const {
    const Tensor<bool> mask = Mask();
    const Tensor<int64_t> lengths = Lengths(N), source_lengths = SourceLengths();
    BlockSettings s;
    s.attention.config = c.config.attention, s.attention.causal = c.causal;
    if (c.mask) s.attention.mask = mask;
    if (c.lengths) s.attention.key_lengths = lengths;
    if (c.config.cross) s.cross.config = *c.config.cross;
    if (c.lengths) s.cross.key_lengths = source_lengths;
    s.mlp.config = c.config.mlp, s.norm_place = c.config.norm_place;
    const Bound<const T> bound = Bind<const T>(weights);
    Arena arena;
    BlockCache<T> cache;
    Tensor<T> normed({B * N, c.config.width});
    BlockForward<T>(x, rows, bound.p, s, y, normed, cache, arena, bound.source);
    std::ranges::fill(normed.span(), T(23));  // other blocks write on it
    if (g.dy.empty()) return;
    Tensor<T> dx(this->x());
    std::ranges::fill(dx.span(), T(17));  // what no output depends on is not read
    for (int64_t b = 0; b < B; ++b) std::copy_n(g.dy.at(b), rows * c.config.width, dx.view().at(b));
    const Bound<T> d = Bind<T>(g.d);
    BlockBackward<T>(rows, bound.p, s, cache, dx, d.p, arena, d.source);
    for (int64_t i = 0; i < dx.size(); ++i) g.dx.data()[i] = (g.add ? g.dx.data()[i] : T(0)) + dx[i];
  }

  // The layers of inference, built from the same weights; the source in two ways of reading it.
  template <typename T>
  void RunBuilt(View<const T> weights, View<const T> x, const model::BuildOptions& options, View<T> y) const {
    Taker<const T> taker(weights);
    const Bound<const T> bound = Bind(taker);
    std::vector<io::StoredTensor> stored;
    for (const auto& [name, view] : taker.named) {
      stored.push_back(io::Stored<T>("block." + name, view));
    }
    std::vector<model::BoundTensor> tensors;
    for (const io::StoredTensor& tensor : stored) {
      tensors.push_back({{tensor.name, tensor.shape, model::Role::kWeight}, {&tensor}});
    }
    const model::Weights<T> all(tensors);
    const Block<T> block = model::BuildBlock<T>(c.config, N, options, all, "block.",
                                                {.kind = c.config.attention.kind, .fewer_queries = rows < N});
    const Tensor<bool> mask = Mask();
    const Tensor<int64_t> lengths = Lengths(N), source_lengths = SourceLengths();
    Arena arena;
    AttentionContext<T> context;
    context.causal = c.causal, context.bias = bound.p.attention.score_bias;
    if (c.mask) context.mask = mask;
    if (c.lengths) context.key_lengths = lengths;
    std::optional<KeyValueCache<T>> source;
    if (c.config.cross) {
      source.emplace(block.cross, B, source_width(), kSource, false);
      CrossAttentionFill<T>(bound.source, c.lengths ? source_lengths.view() : View<const int64_t>(), block.cross,
                            *source, arena);
      context.source = source->All();
    }
    Tensor<T> tokens(this->x());
    std::copy_n(x.data(), x.size(), tokens.data());
    BlockForward<T>(tokens, block, rows, arena, context);
    for (int64_t b = 0; b < B; ++b) std::copy_n(tokens.view().at(b), rows * c.config.width, y.at(b));
  }
};

BlockConfig Config() {
  BlockConfig config;
  config.width = 8, config.norm.eps = 1e-3;
  config.attention.heads = 2, config.attention.head_width = 4;
  config.mlp.width = 10;
  return config;
}

std::vector<BlockCase> Cases() {
  std::vector<BlockCase> cases;
  const auto add = [&](const char* name, auto change) {
    BlockCase c{.name = name, .config = Config()};
    change(c);
    cases.push_back(c);
    if (c.config.cross || c.causal) return;
    c.name += "OfFewRows", c.rows = 2;
    cases.push_back(c);
  };
  add("Plain", [](BlockCase&) {});
  add("RmsNorm", [](BlockCase& c) { c.config.norm.kind = simd::NormKind::kRms; });
  add("NormWithoutBias", [](BlockCase& c) { c.config.norm.bias = false; });
  add("RmsNormEverywhere", [](BlockCase& c) {
    c.config.norm.kind = simd::NormKind::kRms;
    c.config.attention.qk_norm = c.config.attention.output_norm = c.config.mlp.norm = true;
  });
  add("NormAfter", [](BlockCase& c) { c.config.norm_place = NormPlace::kAfter; });
  add("RmsNormAfterWithLayerScale", [](BlockCase& c) {
    c.config.norm = {.kind = simd::NormKind::kRms, .eps = 1e-3};
    c.config.norm_place = NormPlace::kAfter, c.config.layer_scale = true;
  });
  add("HeadsOfAnyWidth", [](BlockCase& c) { c.config.attention.heads = 3, c.config.attention.head_width = 5; });
  for (const int64_t heads : {1, 2}) {
    add(heads == 1 ? "OneKeyHead" : "TwoKeyHeads", [&](BlockCase& c) {
      c.config.attention.heads = 4, c.config.attention.head_width = 3, c.config.attention.key_heads = heads;
    });
    add(heads == 1 ? "OneKeyHeadLowRank" : "TwoKeyHeadsSharedKeyValue", [&](BlockCase& c) {
      c.config.attention = {.heads = 4, .head_width = 3, .key_heads = heads};
      c.config.attention.kind = heads == 1 ? AttentionKind::kLowRank : AttentionKind::kSharedKeyValue;
      if (heads == 1) c.config.attention.qk_width = 2;
    });
  }
  add("KeyHeadsWithNorms",
      [](BlockCase& c) { c.config.attention = {.heads = 4, .head_width = 3, .key_heads = 2, .qk_norm = true}; });
  add("Window", [](BlockCase& c) { c.config.attention.window_left = 2, c.config.attention.window_right = 1; });
  add("CausalWindow", [](BlockCase& c) { c.config.attention.window_left = 2, c.causal = true; });
  add("Sinks", [](BlockCase& c) { c.config.attention.sinks = true; });
  for (const AttentionKind kind : {AttentionKind::kShared, AttentionKind::kUnified, AttentionKind::kSharedKeyValue,
                                   AttentionKind::kLowRank, AttentionKind::kSymmetric}) {
    add(kind == AttentionKind::kShared           ? "SinksShared"
        : kind == AttentionKind::kUnified        ? "SinksUnified"
        : kind == AttentionKind::kSharedKeyValue ? "SinksSharedKeyValue"
        : kind == AttentionKind::kLowRank        ? "SinksLowRank"
                                                 : "SinksSymmetric",
        [&](BlockCase& c) {
          c.config.attention.kind = kind, c.config.attention.sinks = true;
          if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) c.config.attention.qk_width = 3;
        });
  }
  add("SinksOfKeyHeadsCausal", [](BlockCase& c) {
    c.config.attention = {.heads = 4, .head_width = 3, .key_heads = 2, .window_left = 2, .sinks = true};
    c.causal = true;
  });
  add("SinksWithEverything", [](BlockCase& c) {
    c.config.attention = {.heads = 4, .head_width = 3, .key_heads = 2, .sinks = true, .qk_norm = true};
    c.mask = c.bias = c.lengths = true;
  });
  add("CrossSinks", [](BlockCase& c) {
    c.config.cross = AttentionConfig{.heads = 2, .head_width = 4, .sinks = true, .of_source = true};
    c.lengths = true;
  });
  add("Mask", [](BlockCase& c) { c.mask = true; });
  add("ScoreBias", [](BlockCase& c) { c.bias = true; });
  add("KeyLengths", [](BlockCase& c) { c.lengths = true; });
  add("MaskBiasAndLengthsOfKeyHeads", [](BlockCase& c) {
    c.config.attention = {.heads = 4, .head_width = 3, .key_heads = 2, .window_left = 4};
    c.mask = c.bias = c.lengths = true;
  });
  add("Differential", [](BlockCase& c) { c.config.attention.kind = AttentionKind::kDifferential; });
  add("DifferentialWithNorms",
      [](BlockCase& c) { c.config.attention.kind = AttentionKind::kDifferential, c.config.attention.qk_norm = true; });
  add("DifferentialCausal", [](BlockCase& c) {
    c.config.attention.kind = AttentionKind::kDifferential, c.config.attention.window_left = 2, c.causal = true;
  });
  add("DifferentialMaskBiasAndLengthsOfKeyHeads", [](BlockCase& c) {
    c.config.attention = {.kind = AttentionKind::kDifferential, .heads = 4, .head_width = 6, .key_heads = 2};
    c.config.attention.output_norm = c.config.layer_scale = true;
    c.mask = c.bias = c.lengths = true;
  });
  add("DifferentialWithoutProjection", [](BlockCase& c) {
    c.config.attention.kind = AttentionKind::kDifferential, c.config.attention.projection = false;
    c.config.attention.bias = false;
  });
  const std::pair<const char*, AttentionKind> kinds[] = {
      {"CrossSeparate", AttentionKind::kSeparate},   {"CrossShared", AttentionKind::kShared},
      {"CrossUnified", AttentionKind::kUnified},     {"CrossSharedKeyValue", AttentionKind::kSharedKeyValue},
      {"CrossMerged", AttentionKind::kMerged},       {"CrossLowRank", AttentionKind::kLowRank},
      {"CrossSymmetric", AttentionKind::kSymmetric}, {"CrossDifferential", AttentionKind::kDifferential},
  };
  for (const auto& [name, kind] : kinds) {
    add(name, [kind = kind](BlockCase& c) {
      c.config.cross = AttentionConfig{.kind = kind, .heads = 2, .head_width = 4, .of_source = true};
      if (kind == AttentionKind::kLowRank || kind == AttentionKind::kSymmetric) c.config.cross->qk_width = 3;
    });
  }
  add("CrossOfAnotherWidth", [](BlockCase& c) {
    c.config.cross = AttentionConfig{.heads = 4, .head_width = 3, .key_heads = 2, .of_source = true, .source_width = 7};
    c.config.cross->qk_norm = true, c.lengths = true, c.causal = true;
  });
  add("CrossMergedOfAnotherWidth", [](BlockCase& c) {
    c.config.cross = AttentionConfig{
        .kind = AttentionKind::kMerged, .heads = 2, .head_width = 4, .of_source = true, .source_width = 7};
  });
  add("CrossWithNormsAfter", [](BlockCase& c) {
    c.config.cross = AttentionConfig{.heads = 2, .head_width = 4, .of_source = true};
    c.config.norm_place = NormPlace::kAfter, c.config.layer_scale = true;
  });
  return cases;
}

class BlockOptions : public testing::TestWithParam<BlockCase> {};
INSTANTIATE_TEST_SUITE_P(Options, BlockOptions, testing::ValuesIn(Cases()),
                         [](const auto& test) { return test.param.name; });

TEST_P(BlockOptions, GradientIsThatOfTheLoss) { CheckFiniteDifferences(BlockLayer{GetParam()}); }
TEST_P(BlockOptions, FloatIsWhatDoubleIs) { CheckFloat(BlockLayer{GetParam()}, 3); }
TEST_P(BlockOptions, SameBitsForAnyNumberOfThreads) { CheckThreads(BlockLayer{.c = GetParam(), .B = 4}); }

// With nothing folded, and with everything.
TEST_P(BlockOptions, InferenceIsTraining) {
  const BlockLayer layer{GetParam()};
  const auto check = [&]<typename T>(double tolerance) {
    const Numbers<T> n(layer);
    Tensor<T> trained(layer.y()), built(layer.y());
    layer.Run<T>(n.weights, n.x, trained, {});
    for (const bool fold : {false, true}) {
      layer.RunBuilt<T>(n.weights, n.x, {.fold_norms = fold, .fold_scales = fold, .fold_key_value_bias = fold}, built);
      double greatest = 0, difference = 0;
      for (int64_t i = 0; i < built.size(); ++i) {
        greatest = std::max(greatest, std::abs(static_cast<double>(trained[i])));
        difference = std::max(difference, std::abs(static_cast<double>(trained[i] - built[i])));
      }
      EXPECT_LE(difference, tolerance * greatest) << "folded: " << fold;
    }
  };
  check.template operator()<double>(3 * LayerTolerance<double>());
  check.template operator()<float>(3 * LayerTolerance<float>());
}

}  // namespace
}  // namespace qkv::nn
