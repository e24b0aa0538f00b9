#include "qkv/core/checksum.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"

namespace qkv {
namespace {

std::vector<std::byte> RandomBytes(size_t count) {
  Rng rng(count);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.Next());
  return bytes;
}

TEST(Checksum, TellsEveryLengthOfZerosApart) {
  std::set<uint64_t> sums;
  const std::vector<std::byte> zeros(1000);
  for (size_t length = 0; length <= zeros.size(); ++length) sums.insert(Checksum(std::span(zeros).first(length)));
  EXPECT_EQ(sums.size(), zeros.size() + 1);
}

TEST(Checksum, SeesEachBit) {
  for (const size_t length : {1, 7, 8, 63, 64, 65, 200}) {
    std::vector<std::byte> bytes = RandomBytes(length);
    const uint64_t sum = Checksum(bytes);
    for (size_t bit = 0; bit < 8 * length; ++bit) {
      bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
      EXPECT_NE(Checksum(bytes), sum) << "bit " << bit << " of " << length << " bytes";
      bytes[bit / 8] ^= std::byte{1} << static_cast<int>(bit % 8);
    }
  }
}

// The signs of two numbers: the highest bits of two words of one lane, which multiplication alone moves nowhere.
TEST(Checksum, SeesTwoSigns) {
  std::vector<std::byte> bytes = RandomBytes(4096);
  const uint64_t sum = Checksum(bytes);
  for (size_t second = 7 + 64; second < bytes.size(); second += 64) {
    bytes[7] ^= std::byte{0x80}, bytes[second] ^= std::byte{0x80};
    EXPECT_NE(Checksum(bytes), sum) << second;
    bytes[7] ^= std::byte{0x80}, bytes[second] ^= std::byte{0x80};
  }
}

TEST(Checksum, DoesNotDependOnThreads) {
  const std::vector<std::byte> bytes = RandomBytes((size_t{5} << 20) + 13);
  const int threads = NumThreads();
  const uint64_t sum = Checksum(bytes);
  SetNumThreads(1);
  EXPECT_EQ(Checksum(bytes), sum);
  SetNumThreads(threads);
}

TEST(Checksum, OrderCounts) {
  EXPECT_NE(CombineChecksums(CombineChecksums(0, 1), 2), CombineChecksums(CombineChecksums(0, 2), 1));
}

}  // namespace
}  // namespace qkv
