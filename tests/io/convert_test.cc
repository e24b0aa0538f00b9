// Every stored type to float and double, aligned or not, short or long enough for several threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "qkv/io/safetensors.h"
#include "tests/io/support.h"
#include "tests/support/sampler.h"

namespace qkv::io {
namespace {

// The tensor's bytes, `offset` bytes away from an aligned address.
template <typename T>
std::vector<std::byte> Misaligned(const Tensor<T>& tensor, size_t offset) {
  std::vector<std::byte> bytes(offset + sizeof(T) * static_cast<size_t>(tensor.size()));
  if (tensor.size() > 0) std::memcpy(bytes.data() + offset, tensor.data(), bytes.size() - offset);
  return bytes;
}

// Checks both targets against `expected` of each element, bit by bit (NaN apart).
template <typename T, typename Expected>
void Check(const Tensor<T>& tensor, const Expected& expected) {
  for (const size_t offset : {0, 1, 3}) {
    const std::vector<std::byte> bytes = Misaligned(tensor, offset);
    StoredTensor stored = Stored<T>("x", tensor);
    stored.bytes = std::span(bytes).subspan(offset);
    const auto floats = Convert<float>(stored);
    const auto doubles = Convert<double>(stored);
    ASSERT_EQ(floats.shape(), tensor.shape());
    for (int64_t i = 0; i < tensor.size(); ++i) {
      const double want = expected(tensor[i]);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(floats[i]) && std::isnan(doubles[i])) << i;
      } else {
        ASSERT_EQ(std::bit_cast<uint64_t>(doubles[i]), std::bit_cast<uint64_t>(want)) << i;
        ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), std::bit_cast<uint32_t>(static_cast<float>(want))) << i;
      }
    }
  }
}

TEST(Convert, EveryHalf) {
  auto all = Tensor<Half>::Uninitialised({256, 256});
  for (int i = 0; i < 65536; ++i) all[i] = {static_cast<uint16_t>(i)};
  Check(all, [](Half x) { return static_cast<double>(ToFloat(x)); });
}

TEST(Convert, EveryBFloat16) {
  auto all = Tensor<BFloat16>::Uninitialised({65536});
  for (int i = 0; i < 65536; ++i) all[i] = {static_cast<uint16_t>(i)};
  Check(all, [](BFloat16 x) { return static_cast<double>(ToFloat(x)); });
}

TEST(Convert, FloatsAndDoublesOfManySizes) {
  Sampler sampler(2);
  for (const int64_t n : {0, 1, 2, 7, 8, 9, 31, 64, 1000, (1 << 19) + 1, 3 * (1 << 19)}) {
    Check(sampler.Normal<float>({n}), [](float x) { return static_cast<double>(x); });
    Check(sampler.Normal<double>({n}), [](double x) { return x; });
  }
}

TEST(Convert, RefusesIntegersAndWrongSizes) {
  Tensor<int64_t> steps({2});
  EXPECT_MESSAGE(Convert<float>(Stored<int64_t>("steps", steps)), "tensor \"steps\" is I64");
  StoredTensor cut = Stored<int64_t>("steps", steps);
  cut.bytes = cut.bytes.first(15);
  EXPECT_MESSAGE(Convert<float>(cut), "15 bytes");
}

}  // namespace
}  // namespace qkv::io
