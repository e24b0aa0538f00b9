#include "qkv/simd/isa.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "qkv/core/error.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::simd {
namespace {

constexpr int kRefused = 77, kOther = 78;

// Which kernels ran, seen from what only they do: the width of the panels they pack.
int PanelWidth() {
  Tensor<float> w({1, 1});
  return static_cast<int>(PackedMatrix<float>(w.view()).panel());
}

int ExpectedWidth(Isa isa) { return isa >= Isa::kAvx512 ? 32 : isa >= Isa::kAvx2 ? 16 : 8; }

// Not a test by itself: RunReport runs it in a new process, since QKV_ISA is read once.
TEST(Isa, DISABLED_Report) {
  try {
    const char* expected = std::getenv("QKV_ISA");
    const bool named = *expected == '\0' ? ActiveIsa() == AvailableIsas().back() : Name(ActiveIsa()) == expected;
    _exit(named ? PanelWidth() : kOther);
  } catch (const Error& error) {
    _exit(std::string(error.what()).find("QKV_ISA") != std::string::npos ? kRefused : kOther);
  }
}

int RunReport(const std::string& isa) {
  // Cross-compiled, the program needs the emulator again.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status = std::system(
      fmt::format(
          "unset GTEST_TOTAL_SHARDS GTEST_SHARD_INDEX; QKV_ISA={} exec {} '{}' --gtest_filter=Isa.DISABLED_Report "
          "--gtest_also_run_disabled_tests",
          isa, QKV_TEST_EMULATOR, program)
          .c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : kOther;
}

TEST(Isa, EnvironmentForcesTheKernels) {
  for (const Isa isa : AvailableIsas()) EXPECT_EQ(RunReport(std::string(Name(isa))), ExpectedWidth(isa)) << Name(isa);
}

TEST(Isa, BestIsTheDefault) { EXPECT_EQ(RunReport(""), ExpectedWidth(AvailableIsas().back())); }

TEST(Isa, UnknownNamesAreRefused) { EXPECT_EQ(RunReport("sse9"), kRefused); }

TEST(Isa, SetIsaTakesEffect) {
  const Isa before = ActiveIsa();
  for (const Isa isa : AvailableIsas()) {
    SetIsa(isa);
    EXPECT_EQ(ActiveIsa(), isa);
    EXPECT_EQ(PanelWidth(), ExpectedWidth(isa));
  }
  SetIsa(before);
}

TEST(Isa, WeightsOfAnotherInstructionSetAreRefused) {
  if (AvailableIsas().size() < 2) GTEST_SKIP();
  const Isa before = ActiveIsa();
  SetIsa(AvailableIsas()[0]);
  Tensor<float> w({3, 4}), x({2, 4}), y({2, 3});
  const PackedMatrix<float> packed(w.view());
  SetIsa(AvailableIsas()[1]);
  EXPECT_THROW(Gemm<float>(x, packed, {}, y), Error);
  SetIsa(before);
}

}  // namespace
}  // namespace qkv::simd
