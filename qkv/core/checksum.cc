// Lanes of 64-bit words, each mixed by steps that can be undone: (sum ^ word) · odd, rotated, so that what only reaches
// the highest bit of a product returns to the low ones. Pieces of a fixed size are summed on all threads.
#include "qkv/core/checksum.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "qkv/core/parallel.h"

namespace qkv {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr size_t kLanes = 8;  // hide the latency of a multiplication

uint64_t SumOfPiece(std::span<const std::byte> bytes) {
  uint64_t lanes[kLanes];
  for (size_t i = 0; i < kLanes; ++i) lanes[i] = bytes.size() + i;
  const auto add = [&lanes](const std::byte* words) {
    for (size_t i = 0; i < kLanes; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, words + i * sizeof(word), sizeof(word));
      lanes[i] = CombineChecksums(lanes[i], word);
    }
  };
  constexpr size_t kStep = sizeof(lanes);
  size_t at = 0;
  for (; at + kStep <= bytes.size(); at += kStep) add(bytes.data() + at);
  if (at < bytes.size()) {
    std::byte rest[kStep] = {};
    std::memcpy(rest, bytes.data() + at, bytes.size() - at);
    add(rest);
  }
  uint64_t sum = 0;
  for (const uint64_t lane : lanes) sum = CombineChecksums(sum, lane);
  return sum;
}

}  // namespace

uint64_t Checksum(std::span<const std::byte> bytes) {
  std::vector<uint64_t> sums((bytes.size() + kPiece - 1) / kPiece);
  ParallelTasks(static_cast<int64_t>(sums.size()), [&](int64_t piece, int) {
    const size_t begin = static_cast<size_t>(piece) * kPiece;
    sums[static_cast<size_t>(piece)] = SumOfPiece(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)));
  });
  uint64_t all = bytes.size();
  for (const uint64_t sum : sums) all = CombineChecksums(all, sum);
  return all;
}

}  // namespace qkv
