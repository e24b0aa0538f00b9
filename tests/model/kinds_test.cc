// Kinds of attention in whole models of every family: each gives what separate queries, keys and values of the same
// weights give; places follow the grid; what makes no sense is refused, by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <span>

#include "qkv/core/file.h"
#include "qkv/model/checkpoint/convert.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/checkpoints.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/isas.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;
using enum nn::AttentionKind;

Checkpoint Golden(const std::string& name) { return Checkpoint::Open(GoldenFolder(name)); }

using Tensors = std::vector<std::pair<std::string, Tensor<double>>>;

// `golden` with attention of another kind, made of `tensors`: those of blocks that separate attention has not got.
Checkpoint Exchange(const Checkpoint& golden, nn::AttentionKind kind, int64_t rank, const Tensors& tensors,
                    const fs::path& folder) {
  fs::create_directories(folder);
  io::Json config = io::ReadJson(fs::path(golden.source) / "config.json");
  config["qkv_attention"] = Name(kind);
  if (rank > 0) config["qkv_attention_rank"] = rank;
  WriteFile(folder / "config.json", config.dump());
  std::vector<io::StoredTensor> stored = golden.tensors->tensors();
  for (const BoundTensor& bound : golden.bound) {
    if (bound.spec.name.find("attn.qkv") == std::string::npos) continue;
    for (const io::StoredTensor* part : bound.parts) {
      std::erase_if(stored, [&](const io::StoredTensor& tensor) { return tensor.name == part->name; });
    }
  }
  for (const auto& [name, tensor] : tensors) stored.push_back(io::Stored<double>(name, tensor));
  io::WriteSafeTensors(folder / "model.safetensors", stored);
  return Checkpoint::Open(folder);
}

// Random tensors for a kind.
Tensors RandomTensors(const Checkpoint& golden, nn::AttentionKind kind, int64_t rank) {
  VitConfig config = golden.description.config;
  config.block.attention.kind = kind, config.block.attention.qk_width = rank;
  Sampler sampler(5);
  Tensors tensors;
  for (const TensorSpec& spec : TensorTable(config)) {
    if (spec.name.find(".attn.qk.") == std::string::npos && spec.name.find(".attn.v.") == std::string::npos) continue;
    tensors.emplace_back(spec.name, sampler.Normal<double>(spec.shape, 0, 0.3));
  }
  return tensors;
}

template <typename T>
struct Predictions {
  Tensor<T> logits, attention;  // [2, C], [2, H, N, N] of the first block
};

template <typename T>
Predictions<T> ComputePredictions(const Checkpoint& checkpoint, const BuildOptions& options = {}) {
  const VitConfig& c = checkpoint.description.config;
  const Vit<T> vit(c, checkpoint.bound, options);
  const Tensor<T> pixels = Cast<T>(Sampler(7).Normal<double>({2, c.channels, c.image_height, c.image_width}));
  Predictions<T> answers{Tensor<T>({2, c.outputs()}), Tensor<T>({2, c.block.attention.heads, c.tokens(), c.tokens()})};
  Workspace<T> workspace;
  vit.Forward(pixels, workspace,
              {.logits = answers.logits,
               .attention = {{0, {.row_begin = 0, .row_end = c.tokens(), .out = answers.attention, .visit = {}}}}});
  return answers;
}

template <typename T>
double Difference(const Tensor<T>& a, const Tensor<T>& b) {
  double difference = 0, greatest = 1e-300;
  for (int64_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    greatest = std::max(greatest, std::abs(static_cast<double>(b[i])));
  }
  return difference / greatest;
}

// Two blocks of a few products each, as in savings_test.
template <typename T>
constexpr double kTolerance = 64 * std::numeric_limits<T>::epsilon();

template <typename T>
void ExpectSame(const Checkpoint& a, const Checkpoint& b, double condition = 1) {
  const Predictions<T> of_a = ComputePredictions<T>(a), of_b = ComputePredictions<T>(b);
  EXPECT_LE(Difference(of_a.logits, of_b.logits), condition * kTolerance<T>);
  EXPECT_LE(Difference(of_a.attention, of_b.attention), condition * kTolerance<T>);
}

constexpr const char* kGoldens[] = {
    "timm_vit", "timm_scale_norms",    "timm_qkv_bias_off", "timm_distilled",       "timm_map",
    "hf_vit",   "hf_dinov2_registers", "vit_pytorch_vit",   "vit_pytorch_one_head", "vit_pytorch_simple"};

class KindsInModels : public IsaTest {
 protected:
  TemporaryFolder folder_;
};
QKV_FOR_ALL_ISAS(KindsInModels);

TEST_P(KindsInModels, AreSeparateOnesOfTheSameWeights) {
  constexpr std::pair<nn::AttentionKind, int64_t> kKinds[] = {
      {kShared, 0}, {kUnified, 0}, {kSharedKeyValue, 0}, {kLowRank, 3}, {kSymmetric, 5}};
  for (const char* name : kGoldens) {
    const Checkpoint golden = Golden(name);
    for (const auto& [kind, rank] : kKinds) {
      SCOPED_TRACE(fmt::format("{} {}", name, Name(kind)));
      const fs::path folder = folder_ / fmt::format("{}-{}", name, Name(kind));
      const Checkpoint model = Exchange(golden, kind, rank, RandomTensors(golden, kind, rank), folder / "kind");
      EXPECT_EQ(model.description.config.block.attention.kind, kind);
      Convert(model, folder / "separate", {.layout = model.description.config.family});
      const Checkpoint separate = Checkpoint::Open(folder / "separate");
      EXPECT_EQ(separate.description.config.block.attention.kind, kSeparate);
      EXPECT_EQ(separate.tensors->tensors().size(), golden.tensors->tensors().size());
      ExpectSame<double>(model, separate);
      ExpectSame<float>(model, separate);
    }
  }
}

// M = W_Qᵀ W_K and u = W_Kᵀ b_Q of every head, in double.
Tensors MergedTensors(const Checkpoint& golden) {
  const VitConfig& c = golden.description.config;
  const int64_t H = c.block.attention.heads, E = c.block.attention.head_width, D = c.block.width;
  Tensors tensors;
  for (int64_t block = 0; block < c.depth; ++block) {
    QueryKeyValue<double> pair = ReadQueryKeyValue<double>(golden, block);
    Tensor<double> merged({H, D, D}), term({H, D});
    for (int64_t row = 0; row < H * E; ++row) {
      for (int64_t j = 0; j < D; ++j) {
        const double key = pair.key[row * D + j];
        if (!pair.query_bias.empty()) term[row / E * D + j] += key * pair.query_bias[row];
        for (int64_t i = 0; i < D; ++i) *merged.view().at(row / E, i, j) += pair.query[row * D + i] * key;
      }
    }
    const std::string attn = fmt::format("blocks.{}.attn.", block);
    tensors.emplace_back(attn + "qk.merged", std::move(merged));
    if (c.block.attention.bias) tensors.emplace_back(attn + "qk.key_term", std::move(term));
    tensors.emplace_back(attn + "v.weight", std::move(pair.value));
    if (c.block.attention.bias) tensors.emplace_back(attn + "v.bias", std::move(pair.value_bias));
  }
  return tensors;
}

TEST_P(KindsInModels, MergedIsTheProductOfQueriesAndKeys) {
  for (const char* name : kGoldens) {
    SCOPED_TRACE(name);
    const Checkpoint golden = Golden(name);
    const Checkpoint merged = Exchange(golden, kMerged, 0, MergedTensors(golden), folder_ / name);
    // A score is a sum of D² products x_i M_ij x_j instead of E products of sums: their magnitudes are up to D / E
    // times those of the factors' (Cauchy and Schwarz, head by head), which is how much more of them rounds away.
    const VitConfig& c = golden.description.config;
    const double condition =
        std::max(1.0, static_cast<double>(c.block.width) / static_cast<double>(c.block.attention.head_width));
    ExpectSame<double>(merged, golden, condition);
    ExpectSame<float>(merged, golden, condition);
  }
}

// The lower precisions round weights of every kind; the drift is of the order of theirs for separate ones.
TEST(Kinds, RunInLowerPrecisions) {
  for (const char* kind : {"kind_shared", "kind_unified", "kind_shared_kv", "kind_merged", "kind_low_rank",
                           "kind_symmetric", "kind_gaussian", "kind_positional", "differential"}) {
    const Checkpoint golden = Golden(fmt::format("timm_{}", kind));
    const Predictions<float> exact = ComputePredictions<float>(golden);
    EXPECT_LE(
        Difference(ComputePredictions<float>(golden, {.precision = simd::Precision::kBfloat16}).logits, exact.logits),
        0.06)
        << kind;
    EXPECT_LE(Difference(ComputePredictions<float>(golden, {.precision = simd::Precision::kInt8}).logits, exact.logits),
              0.12)
        << kind;
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Places

class Places : public testing::Test {
 protected:
  // A timm model of this image size; all but the tables of places are the same for every size.
  Checkpoint Make(int64_t height, int64_t width, const char* kind, Tensors tables = {}) {
    io::Json json = TinyConfig();
    json["model_args"].update({{"img_size", {height, width}}, {"pos_embed", "none"}});
    json["pretrained_cfg"]["input_size"] = {1, height, width};
    json["qkv_attention"] = kind;
    if (std::string_view(kind) == "positional") json["qkv_attention_rank"] = 3;
    const VitConfig config = Describe(json, {}, io::SafeTensors()).config;
    VitConfig square = config;
    square.image_height = square.image_width = 16;
    TensorSet set(config), reference(square);
    for (size_t i = 0; i < set.tensors.size(); ++i) {
      if (set.tensors[i].second.shape() == reference.tensors[i].second.shape())
        set.tensors[i] = std::move(reference.tensors[i]);
    }
    for (auto& [name, tensor] : set.tensors) {
      if (!name.ends_with("bandwidth")) continue;
      for (float& h : tensor.span()) h = 0.4f + std::abs(h);
    }
    for (auto& [name, table] : tables) set.at(name) = Cast<float>(table);
    const fs::path folder = folder_ / fmt::format("{}-{}x{}", kind, height, width);
    fs::create_directories(folder);
    WriteFile(folder / "config.json", json.dump());
    set.Write(folder / "model.safetensors");
    return Checkpoint::Open(folder);
  }
  // At the given size, with the attention of both blocks.
  static std::array<Tensor<float>, 3> RunAt(const Checkpoint& checkpoint, int64_t height, int64_t width,
                                            Workspace<float>& workspace) {
    const Vit<float> vit(checkpoint.description.config, checkpoint.bound);
    const int64_t N = vit.TokensFor(height, width);
    std::array<Tensor<float>, 3> out{Tensor<float>({2, 3}), Tensor<float>({2, 4, N, N}), Tensor<float>({2, 4, N, N})};
    Tensor<float> hidden({2, N, 16}), again({2, 4, N, N});
    vit.Forward(Sampler(2).Normal<float>({2, 1, height, width}), workspace,
                {.logits = out[0],
                 .hidden = {{1, hidden}},
                 .attention = {{0, {.row_begin = 0, .row_end = N, .out = out[1], .visit = {}}},
                               {1, {.row_begin = 0, .row_end = N, .out = out[2], .visit = {}}}}});
    const std::vector<nn::WeightsRequest<float>> request = {{.row_begin = 0, .row_end = N, .out = again, .visit = {}}};
    vit.BlockWeights(hidden, 1, workspace, request);  // of the grid of the pass before
    EXPECT_TRUE(std::ranges::equal(again.span(), out[2].span()));
    return out;
  }
  static void ExpectSameBits(const std::array<Tensor<float>, 3>& a, const std::array<Tensor<float>, 3>& b) {
    for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(std::ranges::equal(a[i].span(), b[i].span())) << i;
  }
  TemporaryFolder folder_;
};

TEST_F(Places, GaussianKnowsDistancesOnAnyGrid) {
  const Checkpoint trained = Make(8, 8, "gaussian");
  Workspace<float> workspace;
  const auto before = RunAt(trained, 8, 8, workspace);
  // 2x8 and 4x4 patches are as many; both are not what was trained.
  for (const auto& [height, width] : {std::pair(8, 32), {16, 16}, {20, 12}}) {
    Workspace<float> fresh;
    ExpectSameBits(RunAt(trained, height, width, workspace),
                   RunAt(Make(height, width, "gaussian"), height, width, fresh));
  }
  Workspace<float> fresh;
  const auto after = RunAt(trained, 8, 8, fresh);
  ExpectSameBits(before, after);
}

TEST_F(Places, PositionalTablesAreInterpolatedAsPositionsAre) {
  const Checkpoint trained = Make(16, 16, "positional");
  const VitConfig& c = trained.description.config;
  Workspace<float> workspace;
  for (const auto& [height, width] : {std::pair(8, 32), {20, 12}}) {
    const int64_t grid_h = height / 4, grid_w = width / 4, N = 1 + grid_h * grid_w;
    Tensors tables;
    for (const BoundTensor& bound : trained.bound) {
      if (!bound.spec.name.ends_with("attn.qk.query") && !bound.spec.name.ends_with("attn.qk.key")) continue;
      const auto from = Read<float>(bound);  // [H, 17, 3]
      Tensor<float> to({4, N, 3});
      for (int64_t h = 0; h < 4; ++h) {
        std::copy_n(from.view().at(h), 3, to.view().at(h));
        ResampleGrid<float>(from.view()[h].slice(0, 1, 17), 4, 4, c.interpolation, grid_h, grid_w,
                            to.view()[h].slice(0, 1, N));
      }
      tables.emplace_back(bound.spec.name, Cast<double>(to));
    }
    Workspace<float> fresh;
    ExpectSameBits(RunAt(trained, height, width, workspace),
                   RunAt(Make(height, width, "positional", std::move(tables)), height, width, fresh));
  }
}

TEST_F(Places, AreNotGuessed) {
  const Checkpoint trained = Make(8, 8, "gaussian");
  const Vit<float> vit(trained.description.config, trained.bound);
  Workspace<float> workspace;
  Tensor<float> out({1, 4, 7, 7});
  const std::vector<nn::WeightsRequest<float>> request = {{.row_begin = 0, .row_end = 7, .out = out, .visit = {}}};
  EXPECT_THROW(vit.BlockWeights(Tensor<float>({1, 7, 16}), 0, workspace, request), Error);  // six patches: 2x3, 3x2, …
}

// ---------------------------------------------------------------------------------------------------------------------
// What is refused

std::string ErrorMessage(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Kinds, RefuseWhatMakesNoSense) {
  const auto describe = [](const io::Json& entries, bool qk_norm = false) {
    io::Json json = TinyConfig();
    json.update(entries);
    json["model_args"]["qk_norm"] = qk_norm;
    return ErrorMessage([&] { Describe(json, {}, io::SafeTensors()); });
  };
  const struct {
    io::Json entries;
    bool qk_norm;
    const char* message;
  } kCases[] = {
      {{{"qkv_attention", "merge"}}, false, "\"merge\", expected separate, shared"},
      {{{"qkv_attention", 7}}, false, "qkv_attention"},
      {{{"qkv_attention", "low_rank"}}, false, "the rank of low_rank attention is 0, expected 1 to 16"},
      {{{"qkv_attention", "symmetric"}, {"qkv_attention_rank", 17}}, false, "symmetric attention is 17, expected 1 to"},
      {{{"qkv_attention", "low_rank"}, {"qkv_attention_rank", -3}}, false, "is -3, expected"},
      {{{"qkv_attention", "positional"}, {"qkv_attention_rank", 1 << 20}}, false, "4 heads of rank 1048576"},
      {{{"qkv_attention", "merged"}, {"qkv_attention_rank", 3}}, false, "merged attention has no rank of its own"},
      {{{"qkv_attention_rank", 3}}, false, "separate attention has no rank of its own"},
      {{{"qkv_attention", "merged"}}, true, "neither is there to be normalised"},
      {{{"qkv_attention", "symmetric"}, {"qkv_attention_rank", 2}}, true, "neither is there to be normalised"},
      {{{"qkv_attention", "unified"}}, true, "its keys are its values too"},
      {{{"qkv_attention", "shared_kv"}}, true, "its keys are its values too"},
      {{{"qkv_attention", "gaussian"}}, true, "its scores do not come from tokens"},
      {{{"qkv_attention", "positional"}}, true, "its scores do not come from tokens"},
      {{{"qkv_attention", "differential"}, {"qkv_attention_rank", 2}}, false, "has no rank of its own"},
  };
  for (const auto& c : kCases) {
    const std::string message = describe(c.entries, c.qk_norm);
    EXPECT_NE(message.find(c.message), std::string::npos) << c.entries.dump() << ": " << message;
  }
  EXPECT_EQ(describe({{"qkv_attention", "shared"}}, true), "");
  EXPECT_EQ(describe({{"qkv_attention", "differential"}}, true), "");
  nn::BlockConfig two_maps{.width = 10, .attention = {.kind = kDifferential, .heads = 2, .head_width = 5}};
  EXPECT_NE(ErrorMessage([&] { Validate(two_maps); }).find("expected an even number"), std::string::npos);
  two_maps.attention.head_width = 4, two_maps.attention.sinks = true;
  EXPECT_NE(ErrorMessage([&] { Validate(two_maps); }).find("differential attention with sinks"), std::string::npos);
  EXPECT_EQ(describe({{"qkv_attention", "low_rank"}, {"qkv_attention_rank", 2}}, true), "");
}

TEST(Kinds, AreNotLoadedFromWhatDoesNotFit) {
  const TemporaryFolder folder;
  const Checkpoint golden = Golden("timm_kind_merged");
  fs::copy_file(fs::path(golden.source) / "model.safetensors", folder / "model.safetensors");
  // A bare file does not tell its kind.
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder / "model.safetensors"); }).find("only a config.json tells"),
            std::string::npos);
  io::Json config = io::ReadJson(fs::path(golden.source) / "config.json");
  const auto message_for = [&](const char* kind) {
    config["qkv_attention"] = kind;
    WriteFile(folder / "config.json", config.dump());
    return ErrorMessage([&] { Checkpoint::Open(folder.path()); });
  };
  EXPECT_NE(message_for("separate").find("blocks.0.attn.qkv.weight [72, 24]"), std::string::npos);
  EXPECT_NE(message_for("gaussian").find("blocks.0.attn.qk.bandwidth [3]"), std::string::npos);
  EXPECT_NE(message_for("gaussian").find("left over"), std::string::npos);
  EXPECT_EQ(message_for("merged"), "");
}

TEST(Kinds, RefuseABandwidthThatIsNone) {
  const TemporaryFolder folder;
  const Checkpoint golden = Golden("timm_vit");
  for (const double h : {0.0, -1.0, 1e-30}) {
    Tensors tensors = RandomTensors(golden, kGaussian, 0);
    for (auto& [name, tensor] : tensors) {
      if (name == "blocks.1.attn.qk.bandwidth") tensor[1] = h;
      if (name == "blocks.0.attn.qk.bandwidth") std::fill_n(tensor.data(), tensor.size(), 1.0);
    }
    const Checkpoint gaussian = Exchange(golden, kGaussian, 0, tensors, folder / "model");
    EXPECT_NE(ErrorMessage([&] { ComputePredictions<float>(gaussian); }).find("blocks.1.attn.qk.bandwidth holds"),
              std::string::npos);
  }
}

TEST(Kinds, CountWhatTheySave) {
  VitConfig c = Golden("timm_vit").description.config;  // D = 24, H = 3, E = 8, two blocks
  const int64_t all = Parameters(c);
  const double flops = Flops(c);
  const auto with = [&](nn::AttentionKind kind, int64_t rank = 0) {
    VitConfig other = c;
    other.block.attention.kind = kind, other.block.attention.qk_width = rank;
    return other;
  };
  EXPECT_EQ(all - Parameters(with(kShared)), 2 * (24 * 24 + 24));
  EXPECT_EQ(all - Parameters(with(kSharedKeyValue)), 2 * (24 * 24 + 24));
  EXPECT_EQ(all - Parameters(with(kUnified)), 2 * 2 * (24 * 24 + 24));
  EXPECT_EQ(all - Parameters(with(kLowRank, 2)), 2 * 2 * 18 * (24 + 1));
  EXPECT_EQ(all - Parameters(with(kSymmetric, 8)), 2 * (24 * 24 + 2 * 24 - 24));
  EXPECT_EQ(all - Parameters(with(kMerged)), 2 * (2 * 24 * 24 + 2 * 24 - 3 * 24 * 24 - 3 * 24));
  EXPECT_EQ(all - Parameters(with(kGaussian)), 2 * (2 * (24 * 24 + 24) - 3));
  EXPECT_EQ(all - Parameters(with(kPositional)), 2 * (2 * (24 * 24 + 24) - 2 * 24 * 10));
  const double product = 2 * 2 * 10 * 24 * 24;  // one projection of 10 tokens in both blocks
  EXPECT_EQ(flops - Flops(with(kShared)), product);
  EXPECT_EQ(flops - Flops(with(kUnified)), 2 * product);
  EXPECT_EQ(flops - Flops(with(kMerged)), 2 * product - 3 * product - 2.0 * 2 * 10 * 10 * (3 * 24 - 24));
}

}  // namespace
}  // namespace qkv::model
