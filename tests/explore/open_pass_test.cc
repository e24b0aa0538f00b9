// Open passes against the originals' logits and attention, and each edit against what it means.
#include "qkv/explore/open_pass.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "qkv/algebra/logits.h"
#include "qkv/algebra/truncate.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/explore/edits.h"
#include "qkv/inspect/weights.h"
#include "qkv/lab/pairs.h"
#include "tests/inspect/goldens.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/tolerance.h"

namespace qkv::explore {
namespace {

using inspect::GoldenModel;

std::vector<int64_t> AllBlocks(int64_t depth) {
  std::vector<int64_t> blocks(static_cast<size_t>(depth));
  std::iota(blocks.begin(), blocks.end(), 0);
  return blocks;
}

// A golden with a pass of its first image.
struct OpenGolden {
  GoldenModel<float> golden;
  OpenModel model;
  OpenWorkspace workspace;

  explicit OpenGolden(const std::string& name)
      : golden(name), model(golden.checkpoint, golden.pixels.dim(2), golden.pixels.dim(3)) {}

  View<const float> image() const { return golden.pixels.view().slice(0, 0, 1); }
  struct Result {
    Tensor<float> logits, attention;
  };
  Result Run(const Edits& edits) {
    OpenPass pass(model, edits, workspace);
    const std::vector<int64_t> blocks = AllBlocks(model.config().depth);
    Tensor<float> logits = pass.Forward(image(), blocks);
    return {std::move(logits), pass.TakeAttention()};
  }
  Result Run(const io::Json& list) { return Run(Edits(list, model.config())); }
  // How far a result in float may be from another that is equal in exact arithmetic: as far as the original's own float
  // is from its double, a few times.
  double LogitTolerance() const { return Own("logits"); }
  double AttentionTolerance() const {
    double most = 0;
    for (int64_t l = 0; l < model.config().depth; ++l) most = std::max(most, Own(fmt::format("attention.{}", l)));
    return most;
  }
  double Own(const std::string& name) const {
    return 2 * inspect::Tolerance<float>("", io::Convert<double>(*golden.expected.Find(name)),
                                         io::Convert<double>(*golden.expected.Find(name + ".float64")));
  }
};

TEST(OpenPass, IsTheOriginalsPass) {
  int open = 0;
  std::vector<std::string> closed;
  for (const std::string& name : GoldenNames()) {
    const GoldenModel<float> golden(name);
    if (PossibleEdits(golden.checkpoint.description.config).empty()) {
      closed.push_back(name);
      continue;
    }
    const int64_t height = golden.pixels.dim(2), width = golden.pixels.dim(3);
    const model::VitConfig& c = golden.checkpoint.description.config;
    if (nn::IsPositional(c.block.attention.kind) && (height != c.image_height || width != c.image_width)) continue;
    OpenModel model(golden.checkpoint, height, width);
    OpenWorkspace workspace;
    const Edits none;
    ++open;
    for (int64_t b = 0; b < golden.pixels.dim(0); ++b) {
      OpenPass pass(model, none, workspace);
      const auto blocks = AllBlocks(c.depth);
      const Tensor<float> logits = pass.Forward(golden.pixels.view().slice(0, b, b + 1), blocks);
      const auto check = [&](const std::string& what, View<const float> ours) {
        const auto single = io::Convert<double>(*golden.expected.Find(what));
        const auto exact = io::Convert<double>(*golden.expected.Find(what + ".float64"));
        inspect::ExpectNear<float>(ours, exact.view()[b], inspect::Tolerance<float>(name, single, exact),
                                   name + " " + what);
      };
      check("logits", logits);
      for (int64_t l = 0; l < c.depth; ++l) {
        check(fmt::format("attention.{}", l), View<const float>(pass.attention().view()[l]));
      }
      check("tokens", pass.Tokens(c.depth - 1));
      if (c.depth > 1) check("hidden.1", pass.Tokens(0));
    }
  }
  EXPECT_GE(open, 100);
  for (const std::string& name : closed) {
    EXPECT_TRUE(name.find("beit") != std::string::npos || name.find("data2vec") != std::string::npos ||
                name.find("yolos") != std::string::npos || name.find("eomt") != std::string::npos ||
                name.find("mixed") != std::string::npos || name.find("output_norms") != std::string::npos ||
                name.find("parallel") != std::string::npos || name.find("differential") != std::string::npos)
        << name << " is closed to edits";
  }
}

class EditsOf : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EditsOf,
                         testing::Values("timm_vit", "timm_reg4_gap", "timm_qk_norm", "timm_kind_shared",
                                         "timm_kind_unified", "timm_kind_shared_kv", "timm_kind_merged",
                                         "timm_kind_merged_no_bias", "timm_kind_low_rank", "timm_kind_symmetric",
                                         "timm_kind_shared_qk_norm", "hf_dinov2_registers", "timm_dinov3", "timm_clip",
                                         "timm_eva02", "vit_pytorch_simple", "timm_deit3"));

TEST_P(EditsOf, NothingChangesNothing) {
  OpenGolden golden(GetParam());
  const auto plain = golden.Run(Edits());
  const auto possible = PossibleEdits(golden.model.config());
  for (const std::string& name : possible) {
    if (name == "head" || name == "token") continue;
    io::Json edit = {{"kind", name}};
    if (name == "symmetry") edit["t"] = 1;
    if (name == "gauge") edit["strength"] = 1, edit["seed"] = 7;
    if (name == "rank") {
      const nn::AttentionConfig& attention = golden.model.config().block.attention;
      const int64_t width = golden.model.config().block.width;
      edit["rank"] = attention.kind == nn::AttentionKind::kMerged ? width : std::min(attention.query_width(), width);
    }
    const auto edited = golden.Run(io::Json::array({edit}));
    // A gauge of condition 21 rounds each score that much more coarsely at worst.
    const double factor = name == "gauge" ? 21 : 1;
    EXPECT_LE(MaxDifference(plain.attention, edited.attention), factor * golden.AttentionTolerance()) << name;
    EXPECT_LE(MaxDifference(plain.logits, edited.logits), factor * golden.LogitTolerance()) << name;
  }
}

// The first block's scores, from the weights and the tokens, in double.
TEST_P(EditsOf, AreWhatTheMatricesSay) {
  OpenGolden golden(GetParam());
  const model::VitConfig& c = golden.model.config();
  if (!c.scores_are_bilinear()) return;
  const auto layer = inspect::ReadAttention(model::StoredBlocks(golden.golden.checkpoint), 0,
                                            {.name = "blocks.0.norm1.", .is_stream = false});
  const lab::HeadPairs pairs = lab::MakeHeadPairs(layer);
  // Normalised tokens of the first block.
  const auto hidden = io::Convert<double>(*golden.golden.expected.Find("hidden.0.float64"));
  const int64_t N = hidden.dim(1), D = hidden.dim(2);
  Tensor<double> x({N, D});
  for (int64_t n = 0; n < N; ++n) {
    double mean = 0, square = 0;
    for (int64_t d = 0; d < D; ++d) mean += hidden[n * D + d] / static_cast<double>(D);
    const bool rms = c.block.norm.kind == simd::NormKind::kRms;
    if (rms) mean = 0;
    for (int64_t d = 0; d < D; ++d) square += (hidden[n * D + d] - mean) * (hidden[n * D + d] - mean);
    const double factor = 1 / std::sqrt(square / static_cast<double>(D) + layer.eps);
    for (int64_t d = 0; d < D; ++d) {
      x[n * D + d] = (hidden[n * D + d] - mean) * factor * layer.gamma[d] + (layer.beta.empty() ? 0 : layer.beta[d]);
    }
  }
  for (const double t : {-1.0, 0.0, 0.3}) {
    const auto edited = golden.Run(io::Json::array({{{"kind", "symmetry"}, {"t", t}, {"blocks", {0}}}}));
    for (int64_t h = 0; h < c.block.attention.heads; ++h) {
      Tensor<double> scores = algebra::Logits(pairs[static_cast<size_t>(h)], x, x, layer.scale), mixed = scores.Clone();
      for (int64_t i = 0; i < N; ++i) {
        for (int64_t j = 0; j < N; ++j) {
          mixed[i * N + j] = (1 + t) / 2 * scores[i * N + j] + (1 - t) / 2 * scores[j * N + i];
        }
      }
      inspect::ExpectNear<float>(View<const float>(edited.attention.view()[0])[h], algebra::Softmax(mixed),
                                 4 * golden.AttentionTolerance(), fmt::format("t = {}, head {}", t, h));
    }
  }
  for (const bool data : {false, true}) {
    for (const int64_t rank : {1, 2}) {
      const auto edited = golden.Run(
          io::Json::array({{{"kind", "rank"}, {"rank", rank}, {"by", data ? "data" : "weights"}, {"blocks", {0}}}}));
      for (int64_t h = 0; h < c.block.attention.heads; ++h) {
        const algebra::QueryKey& pair = pairs[static_cast<size_t>(h)];
        Tensor<double> centred = x.Clone();
        for (int64_t d = 0; d < D; ++d) {
          double mean = 0;
          for (int64_t n = 0; n < N; ++n) mean += x[n * D + d] / static_cast<double>(N);
          for (int64_t n = 0; n < N; ++n) centred[n * D + d] -= mean;
        }
        const algebra::QueryKey low = data ? algebra::TruncateForData(pair, x, centred, rank, algebra::Terms::kSoftmax)
                                           : algebra::Truncate(pair, rank, algebra::Terms::kSoftmax);
        inspect::ExpectNear<float>(View<const float>(edited.attention.view()[0])[h],
                                   algebra::Softmax(algebra::Logits(low, x, x, layer.scale)),
                                   16 * golden.AttentionTolerance(),
                                   fmt::format("rank {} by {}, head {}", rank, data ? "data" : "weights", h));
      }
    }
  }
}

// t = −1: queries and keys swap roles, in every block.
TEST(OpenPass, MinusOneSwapsQueriesAndKeys) {
  OpenGolden golden("timm_vit");
  const auto turned = golden.Run(io::Json::array({{{"kind", "symmetry"}, {"t", -1}}}));
  const model::VitConfig& c = golden.model.config();
  // The same by weights: the first third of the rows of qkv and the second change places.
  std::vector<std::pair<std::string, Tensor<float>>> tensors;
  std::vector<io::StoredTensor> stored;
  const auto file = io::SafeTensors::Open(golden.golden.folder / "model.safetensors");
  for (const io::StoredTensor& tensor : file.tensors()) {
    tensors.emplace_back(tensor.name, io::Convert<float>(tensor));
    if (tensor.name.find("attn.qkv.") == std::string::npos) continue;
    Tensor<float>& values = tensors.back().second;
    const int64_t third = values.size() / 3;
    std::swap_ranges(values.data(), values.data() + third, values.data() + third);
  }
  for (const auto& [name, tensor] : tensors) stored.push_back(io::Stored<float>(name, tensor));
  const TemporaryFolder folder;
  io::WriteSafeTensors(folder / "model.safetensors", stored);
  std::filesystem::copy_file(golden.golden.folder / "config.json", folder / "config.json");
  const auto checkpoint = model::Checkpoint::Open(folder.path());
  const model::Vit<float> swapped(checkpoint.description.config, checkpoint.bound);
  model::Workspace<float> workspace;
  Tensor<float> logits({1, c.outputs()});
  swapped.Forward(golden.image(), workspace, {.logits = logits});
  EXPECT_LE(MaxDifference(turned.logits, logits), golden.LogitTolerance());
  // It does change something.
  EXPECT_GT(MaxDifference(turned.logits, golden.Run(Edits()).logits), 100 * golden.LogitTolerance());
}

TEST(OpenPass, HiddenTokensAreSeenByThemselvesAlone) {
  OpenGolden golden("timm_reg4_cls");
  const auto hidden =
      golden.Run(io::Json::array({{{"kind", "token"}, {"token", 6}}, {{"kind", "token"}, {"token", 0}}}));
  const Tensor<float>& weights = hidden.attention;
  for (int64_t row = 0; row < weights.size() / weights.dim(3); ++row) {
    const int64_t q = row % weights.dim(2);
    const float* a = weights.data() + row * weights.dim(3);
    for (const int64_t k : {0, 6}) {
      if (k != q) {
        EXPECT_EQ(a[k], 0);
      }
    }
    EXPECT_NEAR(std::accumulate(a, a + weights.dim(3), 0.0), 1, 1e-5);
  }
  // All of them: each looks at itself.
  io::Json all = io::Json::array();
  for (int64_t n = 0; n < golden.model.config().tokens(); ++n) all.push_back({{"kind", "token"}, {"token", n}});
  const auto alone = golden.Run(all);
  for (int64_t i = 0; i < alone.attention.size(); ++i) {
    const int64_t N = alone.attention.dim(3), k = i % N, q = i / N % N;
    EXPECT_EQ(alone.attention[i], k == q ? 1 : 0);
  }
}

TEST(OpenPass, RemovedHeadsGiveNothing) {
  OpenGolden golden("timm_vit");
  const model::VitConfig& c = golden.model.config();
  io::Json all = io::Json::array();
  for (int64_t l = 0; l < c.depth; ++l) {
    for (int64_t h = 0; h < c.block.attention.heads; ++h) all.push_back({{"kind", "head"}, {"block", l}, {"head", h}});
  }
  const auto without = golden.Run(all);
  // Then attention adds its bias alone: as if the values were 0. The rows of V in qkv become 0.
  std::vector<std::pair<std::string, Tensor<float>>> tensors;
  std::vector<io::StoredTensor> stored;
  const auto file = io::SafeTensors::Open(golden.golden.folder / "model.safetensors");
  for (const io::StoredTensor& tensor : file.tensors()) {
    tensors.emplace_back(tensor.name, io::Convert<float>(tensor));
    if (tensor.name.find("attn.qkv.") == std::string::npos) continue;
    Tensor<float>& values = tensors.back().second;
    std::fill(values.data() + values.size() / 3 * 2, values.data() + values.size(), 0.0f);
  }
  for (const auto& [name, tensor] : tensors) stored.push_back(io::Stored<float>(name, tensor));
  const TemporaryFolder folder;
  io::WriteSafeTensors(folder / "model.safetensors", stored);
  std::filesystem::copy_file(golden.golden.folder / "config.json", folder / "config.json");
  const auto checkpoint = model::Checkpoint::Open(folder.path());
  const model::Vit<float> silent(checkpoint.description.config, checkpoint.bound);
  model::Workspace<float> workspace;
  Tensor<float> logits({1, c.outputs()});
  silent.Forward(golden.image(), workspace, {.logits = logits});
  EXPECT_LE(MaxDifference(without.logits, logits), golden.LogitTolerance());
}

TEST(OpenPass, MemoryIsBounded) {
  OpenGolden golden("timm_vit");
  const Edits none;
  OpenPass pass(golden.model, none, golden.workspace);
  const int64_t limit = MemoryLimit();
  SetMemoryLimit(10000);
  const std::string message = ErrorMessage([&] { pass.Forward(golden.image()); });
  SetMemoryLimit(limit);
  EXPECT_NE(message.find("a pass of 10 tokens"), std::string::npos) << message;
}

// Passes with edits, and those with gradients, ask before each block whether they are still wanted.
TEST(OpenPass, EndsOnceItIsNotWanted) {
  OpenGolden open("timm_vit");
  const int64_t depth = open.model.config().depth;
  const Edits none;
  const auto blocks_until = [&](int64_t wanted, auto work) {
    std::atomic<int64_t> asked = 0;
    const CancelScope scope([&] { return ++asked > wanted; });
    EXPECT_THROW(work(), Cancelled) << wanted;
    return asked.load();
  };
  for (int64_t wanted = 0; wanted < depth; ++wanted) {
    EXPECT_EQ(blocks_until(wanted, [&] { open.Run(none); }), wanted + 1);
  }
  EXPECT_EQ(blocks_until(2 * depth - 1, [&] { OpenPass(open.model, none, open.workspace).Relevance(open.image(), 0); }),
            2 * depth);
}

}  // namespace
}  // namespace qkv::explore
