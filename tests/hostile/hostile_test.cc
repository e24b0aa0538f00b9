// Thousands of hostile files for every reader, made by rule (mutate.h) out of honest ones: each is read, or refused
// with an Error that can be shown; none crashes, throws anything else, or takes much time or memory. Under sanitizers
// in .ci/run. `--gtest_filter=*Png_Flipped` runs one kind of file on one reader; a failure prints the number of the
// input, and QKV_HOSTILE_KEEP=FOLDER keeps its bytes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "tests/hostile/heap.h"
#include "tests/hostile/reader.h"

namespace qkv::hostile {
namespace {

std::vector<Reader> Readers() {
  std::vector<Reader> all;
  for (const auto& list : {ImageReaders(), TensorReaders(), ModelReaders(), DataReaders(), RunReaders()}) {
    all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

using Case = std::tuple<Reader, Mutation>;

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  const auto& [reader, mutation] = info.param;
  return fmt::format("{}_{}", reader.name, Name(mutation));
}

class Hostile : public testing::TestWithParam<Case> {};

void Keep(const Reader& reader, Mutation mutation, size_t index, const std::string& bytes) {
  const char* const folder = std::getenv("QKV_HOSTILE_KEEP");
  if (folder == nullptr) return;
  WriteFile(std::filesystem::path(folder) / fmt::format("{}_{}_{}", reader.name, Name(mutation), index), bytes);
}

TEST_P(Hostile, FilesAreReadOrRefused) {
  constexpr int64_t kBytes = 48 << 20;
  constexpr int kFailures = 5;  // as many as are shown
  SetMemoryLimit(kBytes);
  const auto& [reader, mutation] = GetParam();
  const Reading reading = reader.open();
  // The honest ones are read, or nothing is tested.
  for (const Seed& seed : reading.seeds) {
    const Verdict verdict = Judge(reader, reading, {&seed, seed.bytes});
    ASSERT_EQ(verdict.message, "") << seed.name;
    ASSERT_EQ(verdict.complaint, "") << seed.name;
  }
  const size_t count = CountMutants(reading.seeds, mutation, reader.inputs);
  size_t refused = 0;
  int failures = 0;
  for (size_t i = 0; i < count && failures < kFailures; ++i) {
    const Mutant mutant = Mutate(reading.seeds, mutation, i, count);
    const Verdict verdict = Judge(reader, reading, mutant);
    refused += verdict.refused;
    if (verdict.complaint.empty()) continue;
    Keep(reader, mutation, i, mutant.bytes);
    ADD_FAILURE() << "input " << i << " of " << mutant.seed->name << ": " << verdict.complaint;
    ++failures;
  }
  std::cout << fmt::format("hostile: {} inputs, {} refused\n", count, refused);
}

INSTANTIATE_TEST_SUITE_P(Of, Hostile, testing::Combine(testing::ValuesIn(Readers()), testing::ValuesIn(kMutations)),
                         CaseName);

TEST(HostileInputs, AreAtLeastFiveThousand) {
  size_t all = 0;
  for (const Reader& reader : Readers()) {
    const std::vector<Seed> seeds = reader.open().seeds;
    for (const Mutation mutation : kMutations) all += CountMutants(seeds, mutation, reader.inputs);
  }
  std::cout << fmt::format("hostile: {} inputs in all\n", all);
  EXPECT_GE(all, 5000u);
}

// A watch that sees nothing would find nothing.
TEST(HostileInputs, MemoryIsCounted) {
  if (!CountsHeap()) GTEST_SKIP() << "only AddressSanitizer counts";
  const HeapWatch heap;
  { const std::vector<char> memory(3 << 20); }
  EXPECT_GE(heap.Peak(), size_t{3} << 20);
  EXPECT_LT(heap.Peak(), size_t{4} << 20);
}

}  // namespace
}  // namespace qkv::hostile
