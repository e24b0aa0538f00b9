// Scratch memory of the engine's passes.
#include "qkv/server/tasks.h"

#include <gtest/gtest.h>

namespace qkv::server {
namespace {

TEST(ServerTasks, ScratchIsKeptWithinABound) {
  const auto model = std::make_shared<const LoadedModel>(app::ModelEntry{.id = "digits"});
  const auto pass = [&] {
    std::vector<Tensor<float>> pixels;
    for (int i = 0; i < 3; ++i) pixels.emplace_back(Shape{1, 1, 28, 28});
    PassTask task(model, app::Wanted::kLogits, std::move(pixels));
    Task* const batch[] = {&task};
    task.Run(batch);
    return task.TakeResults();
  };
  const auto first = pass();
  const int64_t bytes = ScratchBytes();
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, int64_t{256} << 20);
  TrimScratch(bytes);
  EXPECT_EQ(ScratchBytes(), bytes);
  TrimScratch(bytes - 1);
  EXPECT_EQ(ScratchBytes(), 0);
  const auto second = pass();
  for (size_t i = 0; i < first.size(); ++i) {
    for (int64_t c = 0; c < first[i].size(); ++c) EXPECT_EQ(first[i][c], second[i][c]);
  }
}

}  // namespace
}  // namespace qkv::server
