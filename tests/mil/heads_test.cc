// Heads of CLAM, MIL-Lab and TRIDENT against PyTorch modules of the same definition (golden/generate.py), and files
// that are refused.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "qkv/core/rng.h"
#include "qkv/io/safetensors.h"
#include "qkv/mil/gated_head.h"
#include "qkv/mil/head.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::mil {
namespace {

namespace fs = std::filesystem;

fs::path HeadGolden(const std::string& name) { return SourceFolder() / "tests/mil/golden" / name; }

// As right as docs/architecture.md asks.
void ExpectAnswer(const io::SafeTensors& golden, const std::string& what, const Tensor<float>& got) {
  ASSERT_NE(golden.Find(what), nullptr) << what;
  const auto single = io::Convert<double>(*golden.Find(what));
  const auto exact = io::Convert<double>(*golden.Find(what + ".float64"));
  ASSERT_EQ(got.shape(), exact.shape()) << what;
  EXPECT_LE(MaxDifference(got, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << what;
}

class GoldenHeads : public testing::TestWithParam<const char*> {};

TEST_P(GoldenHeads, AnswerAsPyTorch) {
  const io::SafeTensors golden = io::SafeTensors::Open(HeadGolden(GetParam()) / "answers.safetensors");
  // answers.safetensors is a second file of weights for a folder without one of the usual names.
  const fs::path pickle = HeadGolden(GetParam()) / "checkpoint.pt";
  const std::unique_ptr<Head> head = OpenHead(fs::exists(pickle) ? pickle : HeadGolden(GetParam()));
  const auto features = io::Convert<float>(*golden.Find("features"));
  EXPECT_EQ(head->width(), features.dim(1));
  const Answer answer = head->Forward(features, {}, 0);
  ExpectAnswer(golden, "scores", answer.scores);
  ExpectAnswer(golden, "weights", answer.weights);
  ExpectAnswer(golden, "vector", answer.vector);
  if (golden.Find("logits") != nullptr) {
    ExpectAnswer(golden, "logits", answer.logits);
  } else {
    EXPECT_TRUE(answer.logits.empty());
  }
  EXPECT_EQ(answer.logits.empty() ? 0 : answer.logits.size(), std::ssize(head->classes()));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenHeads,
                         testing::Values("clam_sb", "clam_sb_no_gate", "clam_sb_old", "clam_mb", "clam_mb_no_gate",
                                         "feather", "feather_deep", "feather_encoder", "trident_encoder",
                                         "trident_classifier", "trident_classes", "trident_bare"));

TEST(Heads, NamesOfClassesComeFromTheConfiguration) {
  EXPECT_EQ(OpenHead(HeadGolden("feather"))->classes().at(2), "tumour 2");
  EXPECT_EQ(OpenHead(HeadGolden("clam_mb") / "checkpoint.pt")->classes().at(2), "class 2");
}

// A bag of several blocks is the sum of its parts: the vector is a mean whatever the order of its tiles.
TEST(Heads, LongBagsAreComputedInBlocks) {
  const std::unique_ptr<Head> head = OpenHead(HeadGolden("clam_sb") / "checkpoint.pt");
  constexpr int64_t kTiles = 5000;
  Rng rng(1);
  Tensor<float> features({kTiles, head->width()}), reversed({kTiles, head->width()});
  for (int64_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(3 * rng.Normal());
  for (int64_t t = 0; t < kTiles; ++t) {
    std::copy_n(features.view().row(t), head->width(), reversed.view().row(kTiles - 1 - t));
  }
  const Answer answer = head->Forward(features, {}, 0), other = head->Forward(reversed, {}, 0);
  EXPECT_LE(MaxDifference(answer.vector, other.vector), 1e-6 * MaxAbs(answer.vector));
  EXPECT_LE(MaxDifference(answer.logits, other.logits), 1e-6 * MaxAbs(answer.logits));
  double sum = 0;
  for (int64_t t = 0; t < kTiles; ++t) {
    sum += answer.weights[t];
    EXPECT_EQ(answer.scores[t], other.scores[kTiles - 1 - t]);
  }
  EXPECT_NEAR(sum, 1, 1e-5);
}

TEST(Heads, RefuseBagsThatDoNotFit) {
  const std::unique_ptr<Head> head = OpenHead(HeadGolden("clam_sb") / "checkpoint.pt");
  const auto message = [&](const Tensor<float>& bag) { return ErrorMessage([&] { head->Forward(bag, {}, 0); }); };
  EXPECT_NE(message(Tensor<float>({2, 7})).find("expected [tiles, 12]"), std::string::npos);
  EXPECT_NE(message(Tensor<float>({0, 12})).find("no tiles"), std::string::npos);
  Tensor<float> bag({2, 12});
  bag[13] = NAN;
  EXPECT_NE(message(bag).find("tile 1"), std::string::npos);
  bag[13] = 0;
  const std::vector<std::array<int64_t, 2>> one(1);
  EXPECT_NE(ErrorMessage([&] { head->Forward(bag, one, 256); }).find("1 coordinates for 2 tiles"), std::string::npos);
}

// What a file of these tensors (all ones) is refused for; empty if it opens.
std::string MessageFor(const std::vector<std::pair<std::string, Shape>>& tensors) {
  const TemporaryFolder folder;
  std::vector<Tensor<float>> values;
  std::vector<io::StoredTensor> stored;
  values.reserve(tensors.size());
  for (const auto& [name, shape] : tensors) {
    Tensor<float>& value = values.emplace_back(shape);
    std::fill_n(value.data(), value.size(), 1.0f);
    stored.push_back(io::Stored<float>(name, value.view()));
  }
  io::WriteSafeTensors(folder / "model.safetensors", stored);
  return ErrorMessage([&] { OpenHead(folder.path()); });
}

using Tensors = std::vector<std::pair<std::string, Shape>>;

Tensors ClamTensors() {
  return {{"attention_net.0.weight", {4, 6}},
          {"attention_net.0.bias", {4}},
          {"attention_net.2.attention_a.0.weight", {3, 4}},
          {"attention_net.2.attention_a.0.bias", {3}},
          {"attention_net.2.attention_b.0.weight", {3, 4}},
          {"attention_net.2.attention_b.0.bias", {3}},
          {"attention_net.2.attention_c.weight", {1, 3}},
          {"attention_net.2.attention_c.bias", {1}},
          {"classifiers.weight", {2, 4}},
          {"classifiers.bias", {2}}};
}

TEST(Heads, AFolderWithoutAHeadIsNamed) {
  const TemporaryFolder folder;
  EXPECT_NE(ErrorMessage([&] { OpenHead(folder.path()); }).find(folder.path().string()), std::string::npos);
}

TEST(Heads, EveryTensorIsUsedOrTheFileIsRefused) {
  EXPECT_EQ(MessageFor(ClamTensors()), "");
  for (size_t i = 0; i < ClamTensors().size(); ++i) {
    Tensors without = ClamTensors(), reshaped = ClamTensors();
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(MessageFor(without), "") << ClamTensors()[i].first;
    const Shape shape = reshaped[i].second;
    reshaped[i].second = shape.rank() == 1 ? Shape({shape[0] + 1}) : Shape({shape[0] + 1, shape[1]});
    EXPECT_NE(MessageFor(reshaped), "") << ClamTensors()[i].first;
    reshaped[i].second = shape.rank() == 1 ? Shape({shape[0], 1}) : Shape({shape[0], shape[1] + 1});
    // Only the first layer says how wide tiles are.
    EXPECT_EQ(MessageFor(reshaped).empty(), i == 0) << ClamTensors()[i].first;
  }
  Tensors more = ClamTensors();
  more.push_back({"extra.weight", {1}});
  EXPECT_NE(MessageFor(more).find("has no tensor \"extra.weight\""), std::string::npos) << MessageFor(more);
}

TEST(Heads, OtherHeadsAreRefusedByName) {
  EXPECT_NE(MessageFor({{"classifier.0.weight", {4, 6}},
                        {"classifier.0.bias", {4}},
                        {"classifier.3.weight", {2, 4}},
                        {"classifier.3.bias", {2}}})
                .find("MIL_fc"),
            std::string::npos);
  EXPECT_NE(MessageFor({{"pos_layer.proj.weight", {4}}, {"_fc1.0.weight", {4, 4}}}).find("TransMIL"),
            std::string::npos);
  EXPECT_NE(MessageFor({{"blocks.0.attn.qkv.weight", {12, 4}}}).find("no known head"), std::string::npos);
}

// Truncated at each length and with flipped bytes: an error or a head, never anything else.
TEST(Heads, DamagedFilesAreErrors) {
  const TemporaryFolder folder;
  for (const char* file : {"clam_mb/checkpoint.pt", "feather/model.safetensors"}) {
    std::ifstream in(HeadGolden(file), std::ios::binary);
    const std::string whole((std::istreambuf_iterator<char>(in)), {});
    ASSERT_FALSE(whole.empty());
    const auto open = [&](const std::string& bytes) {
      const fs::path path = folder / "head";
      std::ofstream(path, std::ios::binary) << bytes;
      return ErrorMessage([&] { OpenHead(path)->Forward(Tensor<float>({3, 12}), {}, 0); });
    };
    EXPECT_EQ(open(whole), "");
    for (size_t length = 0; length < whole.size(); length += 1 + whole.size() / 100) {
      EXPECT_NE(open(whole.substr(0, length)), "") << length;
    }
    Rng rng(2);
    for (int i = 0; i < 200; ++i) {
      std::string bytes = whole;
      bytes[rng.Next() % bytes.size()] ^= static_cast<char>(1 + rng.Next() % 255);
      open(bytes);
    }
  }
}

}  // namespace
}  // namespace qkv::mil
