// Query tokens before the block that they enter: what the pass leaves out, every output has.
#include "qkv/model/vision/waiting_queries.h"

#include <gtest/gtest.h>

#include <numeric>

#include "qkv/model/model.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

Tensor<float> Counting(const Shape& shape) {
  Tensor<float> tensor(shape);
  std::iota(tensor.data(), tensor.data() + tensor.size(), 1.0f);
  return tensor;
}

TEST(WaitingQueries, AreInsertedAndTakenOut) {
  const Tensor<float> x = Counting({2, 3, 2}), queries = Counting({2, 2});
  Tensor<float> all({2, 5, 2});
  InsertQueries<float>(x, queries, 1, all);
  const std::vector<float> expected = {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 9, 10, 11, 12};
  EXPECT_EQ(std::vector<float>(all.data(), all.data() + all.size()), expected);
  Arena arena;
  const View<float> others = WithoutQueries<float>(all, {1, 2}, arena);
  EXPECT_TRUE(std::equal(x.data(), x.data() + x.size(), others.data()));
  EXPECT_NE(ErrorMessage([&] { InsertQueries<float>(x, queries, 1, Tensor<float>({2, 4, 2})); }), "");
}

// All rows that a request for [begin, end) of 6 tokens gets, if tokens 2 and 3 wait and the others' weights are
// 10 · row + key. They come `piece` rows at a time.
std::vector<std::vector<float>> Visited(int64_t begin, int64_t end, int64_t piece) {
  constexpr int64_t kOthers = 4;
  std::vector<std::vector<float>> rows;
  int64_t due = begin;
  const auto visit = [&](int64_t row, View<const float> weights) {
    EXPECT_EQ(row, due);
    EXPECT_EQ(weights.dim(3), 6);
    for (int64_t r = 0; r < weights.dim(2); ++r, ++due) {
      rows.emplace_back(weights.at(0, 0, r), weights.at(0, 0, r) + 6);
    }
  };
  std::vector<nn::WeightsRequest<float>> all(1);
  all[0].row_begin = begin, all[0].row_end = end, all[0].visit = visit;
  for (const auto& request : RequestsWithoutQueries<float>(all, 1, 1, {2, 2}, 6)) {
    for (int64_t row = request.row_begin; row < request.row_end; row += piece) {
      const int64_t count = std::min(piece, request.row_end - row);
      Tensor<float> weights({1, 1, count, kOthers});
      for (int64_t i = 0; i < weights.size(); ++i) {
        weights[i] = static_cast<float>(10 * (row + i / kOthers) + i % kOthers);
      }
      request.visit(row, weights);
    }
  }
  EXPECT_EQ(due, end);
  return rows;
}

TEST(WaitingQueries, EveryRowIsVisitedOnceInItsOrder) {
  const std::vector<std::vector<float>> expected = {{0, 1, 0, 0, 2, 3}, {10, 11, 0, 0, 12, 13}, {0, 0, 1, 0, 0, 0},
                                                    {0, 0, 0, 1, 0, 0}, {20, 21, 0, 0, 22, 23}, {30, 31, 0, 0, 32, 33}};
  for (int64_t begin = 0; begin < 6; ++begin) {
    for (int64_t end = begin + 1; end <= 6; ++end) {
      for (const int64_t piece : {1, 2, 3, 4}) {
        const std::vector<std::vector<float>> part(expected.begin() + begin, expected.begin() + end);
        EXPECT_EQ(Visited(begin, end, piece), part) << begin << " to " << end << " by " << piece;
      }
    }
  }
}

// The weights of a block from its input alone are those of the pass, before and after the queries enter.
TEST(WaitingQueries, WeightsOfABlockAreThoseOfThePass) {
  for (const char* name : {"hf_eomt", "hf_eomt_dinov3"}) {
    const Model model = Model::Load(GoldenFolder(name));
    const VitConfig& c = model.config();
    const int64_t N = c.tokens(), H = c.block.attention.heads;
    Tensor<float> pixels({1, c.channels, c.image_height, c.image_width});
    for (int64_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i % 7) / 3 - 1;
    Workspace<float> workspace;
    for (int64_t block = 0; block < c.depth; ++block) {
      Tensor<float> hidden({1, N, c.block.width}), passed({1, H, N, N}), alone({1, H, N, N});
      Outputs<float> outputs;
      outputs.hidden.push_back({block, hidden});
      nn::WeightsRequest<float> request;
      request.row_end = N, request.out = passed;
      outputs.attention.push_back({block, request});
      model.Forward(pixels, workspace, outputs);
      request.out = alone;
      model.vit().BlockWeights(hidden, block, workspace, {&request, 1});
      EXPECT_TRUE(std::equal(passed.data(), passed.data() + passed.size(), alone.data())) << name << " " << block;
      const int64_t query = c.query_begin();
      EXPECT_EQ(*passed.view().at(0, 0, query, query) == 1, c.queries_wait(block)) << name << " " << block;
    }
  }
}

TEST(WaitingQueries, MaskedAttentionIsRefused) {
  const TemporaryFolder folder;
  std::filesystem::copy(GoldenFolder("hf_eomt"), folder.path());
  const auto file = io::SafeTensors::Open(folder / "model.safetensors");
  const auto write = [&](const Tensor<float>* probabilities) {
    std::vector<io::StoredTensor> tensors;
    for (const io::StoredTensor& tensor : file.tensors()) {
      if (tensor.name != "attn_mask_probs") tensors.push_back(tensor);
    }
    if (probabilities != nullptr) tensors.push_back(io::Stored<float>("attn_mask_probs", *probabilities));
    io::WriteSafeTensors(folder / "new.safetensors", tensors, {});
    std::filesystem::rename(folder / "new.safetensors", folder / "model.safetensors");
    return ErrorMessage([&] { Checkpoint::Open(folder.path()); });
  };
  Tensor<float> probabilities({2});
  EXPECT_EQ(write(&probabilities), "");
  probabilities[1] = 0.5f;
  EXPECT_NE(write(&probabilities).find("attn_mask_probs holds 0.5, expected 0"), std::string::npos);
  EXPECT_NE(write(nullptr).find("no attn_mask_probs"), std::string::npos);
  const Tensor<float> longer({3});
  EXPECT_NE(write(&longer).find("expected [2]"), std::string::npos);
}

}  // namespace
}  // namespace qkv::model
