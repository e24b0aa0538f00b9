#include "qkv/core/tensor.h"

#include <gtest/gtest.h>

namespace qkv {
namespace {

TEST(Shape, CountsItsElements) {
  EXPECT_EQ(Shape({}).size(), 1);
  EXPECT_EQ(Shape({2, 3, 4}).size(), 24);
  EXPECT_EQ(Shape({2, 0, 4}).size(), 0);
  EXPECT_EQ(fmt::format("{}", Shape({2, 3})), "[2, 3]");
  EXPECT_EQ(fmt::format("{:<8}|{}", Shape({2, 3}), Shape()), "[2, 3]  |[]");
}

TEST(Shape, RefusesOverflowNegativesAndTooManyAxes) {
  EXPECT_THROW(Shape({int64_t{1} << 32, int64_t{1} << 32}), Error);
  EXPECT_THROW(Shape({0, int64_t{1} << 62, 4}), Error);
  EXPECT_THROW(Shape({-1}), Error);
  EXPECT_THROW(Shape({1, 1, 1, 1, 1, 1, 1}), Error);
}

TEST(View, StridesAndSlices) {
  Tensor<int> tensor({2, 3, 4});
  for (int i = 0; i < 24; ++i) tensor[i] = i;
  const View<const int> view = tensor;
  EXPECT_EQ(*view.at(1, 2, 3), 23);
  EXPECT_EQ(*view[1].at(2, 3), 23);
  const View<const int> column = view.slice(2, 1, 3);  // [2, 3, 2]
  EXPECT_EQ(column.shape(), Shape({2, 3, 2}));
  EXPECT_EQ(*column.at(1, 1, 1), 18);
  EXPECT_FALSE(column.dense());
  EXPECT_THROW(column.reshape({12}), Error);
  EXPECT_EQ(*view.reshape({6, 4}).at(5, 3), 23);
  EXPECT_THROW(view.reshape({5, 5}), Error);
}

TEST(Tensor, ReuseKeepsMemoryThatSuffices) {
  Tensor<float> tensor({4, 5});
  const float* const memory = tensor.data();
  tensor.Reuse({3, 2, 2});
  EXPECT_EQ(tensor.shape(), Shape({3, 2, 2}));
  tensor.Reuse({20});
  EXPECT_EQ(tensor.data(), memory);
  tensor.Reuse({21});
  tensor[20] = 1;  // sanitizers see whether there is room
  EXPECT_EQ(tensor.size(), 21);
  Tensor<float> taken = std::move(tensor);
  tensor.Reuse({2});  // of a tensor whose memory went away
  tensor[1] = 1;
  EXPECT_EQ(taken.size(), 21);
}

TEST(Tensor, StartsAtZeroAlignedAndClones) {
  Tensor<float> tensor({3, 5});
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % kAlignment, 0u);
  for (const float x : tensor.span()) EXPECT_EQ(x, 0.f);
  tensor[7] = 2;
  const Tensor<float> copy = tensor.Clone();
  EXPECT_EQ(copy[7], 2.f);
  EXPECT_EQ(copy.shape(), tensor.shape());
}

TEST(Tensor, SaysThatMemoryIsMissing) { EXPECT_THROW(Tensor<float>::Uninitialised({int64_t{1} << 60}), Error); }

TEST(Tensor, BorrowsWhatTheOwnerKeepsAlive) {
  auto owner = std::make_shared<Tensor<float>>(Tensor<float>({4, 4}));
  const float* data = owner->data();
  auto borrowed = Tensor<float>::Borrowed(data, {4, 4}, owner);
  const std::weak_ptr<Tensor<float>> alive = owner;
  owner.reset();
  Tensor<float> moved = std::move(borrowed);
  EXPECT_EQ(moved.data(), data);
  EXPECT_FALSE(alive.expired());
  moved.Reuse({2});  // room for it is there, but it is not ours
  EXPECT_TRUE(alive.expired());
  EXPECT_FALSE(moved.empty());
  EXPECT_THROW(Tensor<float>::Borrowed(moved.data() + 1, {1}, std::make_shared<int>()), Error);
}

}  // namespace
}  // namespace qkv
