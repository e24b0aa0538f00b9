// Merged models and split ones: every golden, in both precisions; what is kept of a checkpoint; what is refused.
#include "qkv/lab/merge.h"

#include <set>

#include "qkv/algebra/logits.h"
#include "qkv/inspect/weights.h"
#include "qkv/io/json.h"
#include "qkv/lab/split.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/layout/translation.h"
#include "tests/lab/models.h"
#include "tests/support/errors.h"

namespace qkv::lab {
namespace {

namespace fs = std::filesystem;
using model::Checkpoint;

// Every golden is merged or refused. Which of them is not asked when tests are listed: each process of a test lists
// all, and to open all goldens takes longer than most tests.
class GoldenMerge : public testing::TestWithParam<std::string> {
 protected:
  // True where queries and keys have no one matrix; then Merge says so and leaves nothing.
  bool IsRefused() {
    const model::VitConfig& c = original_.description.config;
    const bool mergeable = inspect::HasLayerNormBefore(c.block) && !c.block.attention.qk_norm &&
                           c.rotary == model::PatchRotary::kNone && !nn::IsPositional(c.block.attention.kind) &&
                           c.block.attention.kind != nn::AttentionKind::kDifferential &&
                           c.block.attention.kind != nn::AttentionKind::kMerged;
    if (mergeable) return false;
    EXPECT_NE(ErrorMessage([&] { Merge(original_, folder_ / "out", {}); }), "");
    EXPECT_EQ(folder_.Count(), 0);
    return true;
  }

  TemporaryFolder folder_;
  Checkpoint original_ = Checkpoint::Open(GoldenFolder(GetParam()));
};
INSTANTIATE_TEST_SUITE_P(Goldens, GoldenMerge, testing::ValuesIn(GoldenNames()),
                         [](const auto& golden) { return golden.param; });

// M stored in double: the attention and the logits of the original but for rounding in double. Stored in float: but for
// rounding in float.
TEST_P(GoldenMerge, AnswersTheSameAndSplitsBack) {
  if (IsRefused()) return;
  const auto exact = ComputeOutputs<double>(original_, GetParam());
  const auto rounded = ComputeOutputs<float>(original_, GetParam());
  Merge(original_, folder_ / "double", {.dtype = DType::kF64});
  Merge(original_, folder_ / "float", {.dtype = DType::kF32});
  const Checkpoint wide = Checkpoint::Open(folder_ / "double"), narrow = Checkpoint::Open(folder_ / "float");
  EXPECT_EQ(wide.description.config.block.attention.kind, nn::AttentionKind::kMerged);
  Split(wide, 0, folder_ / "back", {.dtype = DType::kF64});
  Split(narrow, 0, folder_ / "back-float", {.dtype = DType::kF32});
  const Checkpoint back = Checkpoint::Open(folder_ / "back"), back_narrow = Checkpoint::Open(folder_ / "back-float");
  const model::VitConfig& c = original_.description.config;
  EXPECT_EQ(model::Differences(model::AsSeparate(c), back.description.config), std::vector<std::string>());

  const auto merged = ComputeOutputs<double>(wide, GetParam()), split = ComputeOutputs<double>(back, GetParam());
  const auto merged_float = ComputeOutputs<float>(narrow, GetParam()),
             split_float = ComputeOutputs<float>(back_narrow, GetParam());
  for (const auto& [name, tensor] : exact) {
    SCOPED_TRACE(name);
    // The factors of a split have norms whose product, the sum of the singular values, is up to √E times that of M.
    const double split_factor = 8 * std::sqrt(static_cast<double>(c.block.attention.head_width));
    EXPECT_LE(MaxDifference(merged.at(name), tensor), RewritingTolerance<double>(rounded.at(name), tensor));
    EXPECT_LE(MaxDifference(merged_float.at(name), tensor), RewritingTolerance<float>(rounded.at(name), tensor));
    // A few logits may be rounded luckily; the merged model's, checked above, are another sample of the same.
    const auto& sample = MaxDifference(merged_float.at(name), tensor) > MaxDifference(rounded.at(name), tensor)
                             ? merged_float.at(name)
                             : rounded.at(name);
    EXPECT_LE(MaxDifference(split.at(name), tensor), RewritingTolerance<double>(sample, tensor, split_factor));
    EXPECT_LE(MaxDifference(split_float.at(name), tensor), RewritingTolerance<float>(sample, tensor, split_factor));
  }
}

// Its own layout, configuration and types; every tensor that is not of queries, keys and values byte for byte.
TEST_P(GoldenMerge, KeepsEverythingElse) {
  if (IsRefused()) return;
  if (original_.description.config.block.attention.kind != nn::AttentionKind::kSeparate) {
    GTEST_SKIP() << "its configuration names a kind of attention already";
  }
  const Written written = Merge(original_, folder_ / "out", {});
  const Checkpoint merged = Checkpoint::Open(folder_ / "out");
  EXPECT_EQ(merged.description.config.family, original_.description.config.family);
  std::set<const io::StoredTensor*> replaced;
  for (const auto& bound : original_.bound) {
    if (bound.spec.name.find(".attn.qkv.") == std::string::npos) continue;
    replaced.insert(bound.parts.begin(), bound.parts.end());
    EXPECT_EQ(written.dtype, bound.parts[0]->dtype);
  }
  size_t kept = 0;
  for (const io::StoredTensor& tensor : original_.tensors->tensors()) {
    if (replaced.contains(&tensor)) continue;
    ++kept;
    const io::StoredTensor* copy = merged.tensors->Find(tensor.name);
    ASSERT_NE(copy, nullptr) << tensor.name;
    EXPECT_EQ(copy->dtype, tensor.dtype);
    EXPECT_TRUE(std::ranges::equal(copy->bytes, tensor.bytes)) << tensor.name;
  }
  const model::VitConfig& c = original_.description.config;
  EXPECT_EQ(merged.tensors->tensors().size(), kept + static_cast<size_t>(c.depth * (c.block.attention.bias ? 4 : 2)));
  // The values' rows are the very ones.
  const auto before = inspect::ReadAttention(original_, 0), after = inspect::ReadAttention(merged, 0);
  EXPECT_TRUE(std::ranges::equal(before.value.weight.span(), after.value.weight.span()));

  const std::string file = model::ConfigFile(GoldenFolder(GetParam())).filename().string();
  io::Json config = io::ReadJson(GoldenFolder(GetParam()) / file);
  config["qkv_attention"] = "merged";
  EXPECT_EQ(io::ReadJson(folder_ / "out" / file), config);
  EXPECT_EQ(written.after.query_key,
            c.depth * c.block.attention.heads * c.block.width * (c.block.width + c.block.attention.bias));
  const nn::AttentionConfig& a = c.block.attention;
  EXPECT_EQ(written.before.query_key,
            c.depth * a.joined_width() * (2 * c.block.width + a.bias + (a.bias && a.key_bias)));
  EXPECT_EQ(written.after.bytes, merged.tensors->bytes());
  EXPECT_EQ(written.after.parameters - written.before.parameters, written.after.query_key - written.before.query_key);
}

// Equal attention, not equal weights: balanced, so that a second round changes nothing but rounding.
TEST_P(GoldenMerge, TheSplitWeightsAreBalanced) {
  if (IsRefused()) return;
  Merge(original_, folder_ / "merged", {.dtype = DType::kF64});
  Split(Checkpoint::Open(folder_ / "merged"), 0, folder_ / "back", {.dtype = DType::kF64});
  const Checkpoint back = Checkpoint::Open(folder_ / "back");
  const model::VitConfig& c = back.description.config;
  for (int64_t block = 0; block < c.depth; ++block) {
    const auto layer = inspect::ReadAttention(back, block);
    for (int64_t row = 0; row < layer.query.weight.dim(0); ++row) {
      const auto squares = [&](const algebra::Projection& p) {
        double sum = p.bias.empty() ? 0 : p.bias[row] * p.bias[row];
        for (int64_t d = 0; d < c.block.width; ++d) sum += std::pow(*p.weight.view().at(row, d), 2);
        return sum;
      };
      EXPECT_NEAR(squares(layer.query), squares(layer.key), 1e-9 * (1 + squares(layer.query)));
      EXPECT_EQ(layer.key.bias.empty() ? 0 : layer.key.bias[row], 0);
    }
  }
}

// --- One model ----------------------------------------------------------------------------------------------------

class Merging : public testing::Test {
 protected:
  TemporaryFolder folder_;
  Checkpoint original_ = Checkpoint::Open(GoldenFolder("timm_vit"));
};

// A trained M, or one of wider heads, is no pair of the values' width.
TEST_F(Merging, AHigherRankIsRefusedOrKeptByAWiderSplit) {
  Merge(original_, folder_ / "merged", {.dtype = DType::kF32});
  const Checkpoint merged = Checkpoint::Open(folder_ / "merged");
  const int64_t E = merged.description.config.block.attention.head_width;
  const std::string message = ErrorMessage([&] { Split(merged, E - 1, folder_ / "narrow", {}); });
  EXPECT_NE(message.find("rank"), std::string::npos) << message;
  EXPECT_NE(message.find("block 0 head"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder_ / "narrow"));

  Split(merged, E + 2, folder_ / "wide", {.dtype = DType::kF64});
  const Checkpoint wide = Checkpoint::Open(folder_ / "wide");
  EXPECT_EQ(wide.description.config.block.attention.kind, nn::AttentionKind::kLowRank);
  EXPECT_EQ(wide.description.config.block.attention.qk_width, E + 2);
  const auto exact = ComputeOutputs<double>(original_, "timm_vit"), split = ComputeOutputs<double>(wide, "timm_vit");
  const auto rounded = ComputeOutputs<float>(original_, "timm_vit");
  for (const auto& [name, tensor] : exact) {
    EXPECT_LE(MaxDifference(split.at(name), tensor), RewritingTolerance<float>(rounded.at(name), tensor)) << name;
  }
}

// Half precision rounds M once, and a split finds the rank behind that rounding.
TEST_F(Merging, HalfPrecisionRoundsAndSplitsAllTheSame) {
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const std::string name(Name(dtype));
    EXPECT_EQ(Merge(original_, folder_ / name, {.dtype = dtype}).dtype, dtype);
    Split(Checkpoint::Open(folder_ / name), 0, folder_ / (name + "-back"), {.dtype = DType::kF32});
    const double u = dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
    const auto before = inspect::ReadAttention(original_, 0);
    for (const std::string& rewritten : {name, name + "-back"}) {
      const auto after = inspect::ReadAttention(Checkpoint::Open(folder_ / rewritten), 0);
      for (int64_t head = 0; head < before.heads; ++head) {
        const auto matrix = [&](const inspect::AttentionWeights& layer) {
          return algebra::Merge(
                     {algebra::Head(layer.query, head, layer.heads), algebra::Head(layer.key, head, layer.heads)},
                     algebra::Terms::kSoftmax)
              .matrix;
        };
        const Tensor<double> a = matrix(before), b = matrix(after);
        double norm = 0, error = 0;
        for (int64_t i = 0; i < a.size(); ++i) norm += a[i] * a[i], error += std::pow(a[i] - b[i], 2);
        EXPECT_LE(std::sqrt(error), 2 * u * std::sqrt(norm));  // once rounded, once cut off within as much
        EXPECT_GT(error, 0);
      }
    }
  }
}

TEST_F(Merging, ShardsAndNewNamesKeepTheirGeneration) {
  for (const char* golden : {"hf_vit_sharded", "hf_vit_new_names", "hf_dinov2_swiglu_new_names"}) {
    const Checkpoint original = Checkpoint::Open(GoldenFolder(golden));
    Merge(original, folder_ / golden, {});
    Split(Checkpoint::Open(folder_ / golden), 0, folder_ / (std::string(golden) + "-back"), {});
    const Checkpoint back = Checkpoint::Open(folder_ / (std::string(golden) + "-back"));
    const auto &before = original.tensors->tensors(), &after = back.tensors->tensors();
    ASSERT_EQ(before.size(), after.size());
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i].name, after[i].name);
  }
}

TEST_F(Merging, ABareFileGetsAConfiguration) {
  fs::create_directory(folder_ / "bare");
  fs::copy(GoldenFolder("timm_vit") / "model.safetensors", folder_ / "bare/model.safetensors");
  const Checkpoint bare = Checkpoint::Open(folder_ / "bare", {.heads = 3, .mean = {0.5}, .std = {0.5}});
  EXPECT_FALSE(Merge(bare, folder_ / "out", {}).notes.empty());
  EXPECT_EQ(Checkpoint::Open(folder_ / "out").description.config.block.attention.kind, nn::AttentionKind::kMerged);
}

TEST_F(Merging, RefusesWhatCannotBe) {
  const auto refused = [&](const auto& f, const char* reason) {
    const std::string message = ErrorMessage(f);
    EXPECT_NE(message.find(reason), std::string::npos) << message;
    EXPECT_EQ(folder_.Count(), 0);
  };
  const Checkpoint normed = Checkpoint::Open(GoldenFolder("timm_qk_norm"));
  refused([&] { Merge(normed, folder_ / "out", {}); }, "QK-norm");
  for (const char* name : {"timm_kind_gaussian", "timm_kind_positional"}) {
    const Checkpoint positional = Checkpoint::Open(GoldenFolder(name));
    refused([&] { Merge(positional, folder_ / "out", {}); }, "do not come from queries and keys");
  }
  const Checkpoint two_maps = Checkpoint::Open(GoldenFolder("timm_differential"));
  refused([&] { Merge(two_maps, folder_ / "out", {}); }, "the difference of two softmaxes");
  refused([&] { Split(original_, 0, folder_ / "out", {}); }, "not merged");
  refused([&] { Merge(original_, "/dev/null/out", {}); }, "cannot create folder");
  Merge(original_, folder_ / "merged", {});
  const Checkpoint merged = Checkpoint::Open(folder_ / "merged");
  EXPECT_NE(ErrorMessage([&] { Merge(merged, folder_ / "again", {}); }).find("merged already"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Merge(original_, folder_ / "merged", {}); }).find("not empty"), std::string::npos);
  Merge(original_, folder_ / "merged", {.force = true});
  EXPECT_EQ(folder_.Count(), 1);
}

}  // namespace
}  // namespace qkv::lab
