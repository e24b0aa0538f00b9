#include "qkv/core/tensor_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "qkv/core/parallel.h"

namespace qkv {
namespace {

TEST(TensorPool, GivesAlignedMemoryThatDoesNotOverlap) {
  TensorPool pool;
  std::vector<Tensor<float>> tensors;
  for (const int64_t size : {3, 1 << 20, 16, 12 << 20, 5}) tensors.push_back(pool.New<float>({size}));  // two blocks
  for (size_t i = 0; i < tensors.size(); ++i) std::ranges::fill(tensors[i].span(), static_cast<float>(i));
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors[i].data()) % kAlignment, 0u);
    EXPECT_TRUE(std::ranges::all_of(tensors[i].span(), [&](float v) { return v == static_cast<float>(i); })) << i;
  }
}

TEST(TensorPool, SmallTensorsShareABlock) {
  TensorPool pool;
  const Tensor<uint8_t> first = pool.New<uint8_t>({1000}), second = pool.New<uint8_t>({1000});
  EXPECT_EQ(second.data() - first.data(), 1024);
}

TEST(TensorPool, TensorsOutliveThePoolAndEachOther) {
  auto pool = std::make_unique<TensorPool>();
  Tensor<double> first = pool->New<double>({100}), second = pool->New<double>({2, 3});
  pool.reset();
  first = {};
  std::ranges::fill(second.span(), 1.5);
  EXPECT_EQ(second.shape(), (Shape{2, 3}));
  EXPECT_EQ(second[5], 1.5);
}

TEST(TensorPool, ManyThreadsMayAsk) {
  TensorPool pool;
  std::vector<Tensor<int64_t>> tensors(200);
  ParallelTasks(200, [&](int64_t i, int) {
    tensors[static_cast<size_t>(i)] = pool.New<int64_t>({1000 + i});
    std::ranges::fill(tensors[static_cast<size_t>(i)].span(), i);
  });
  for (int64_t i = 0; i < 200; ++i) {
    const auto& tensor = tensors[static_cast<size_t>(i)];
    EXPECT_TRUE(std::ranges::all_of(tensor.span(), [&](int64_t v) { return v == i; })) << i;
  }
}

TEST(TensorPool, MoreThanCanBeAddressedIsAnError) {
  TensorPool pool;
  EXPECT_THROW(pool.New<double>({PTRDIFF_MAX / 8}), Error);
}

}  // namespace
}  // namespace qkv
