// qkv slide, as users run it.
#include <algorithm>
#include <map>

#include "qkv/core/rng.h"
#include "tests/app/slides/small_slide.h"
#include "tests/cli/program.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

// Results that must not depend on how often a run was stopped: all but times, in which states and summaries have them.
std::map<std::string, std::string> Results(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (!entry.is_regular_file() || name.starts_with("slides/") || name.starts_with("summary.")) continue;
    files[name] = ReadFile(entry.path());
  }
  return files;
}

class Slides : public testing::Test {
 protected:
  Slides() {
    WriteSmallSlide(folder_ / "one.tif", {.width = 2048, .height = 1024});
    WriteSmallSlide(folder_ / "two.tif", {.width = 1024, .height = 768, .damaged_tile = 5});
  }

  // With the folder `at` as the working folder: names in results are relative.
  CommandOutput Run(const std::string& at, const std::string& more, const std::string& before = "") {
    fs::create_directories(folder_ / at);
    return Qkv("slide embed ../one.tif ../two.tif -m digits -o out --tile 32 " + more,
               "cd " + (folder_ / at).string() + " && " + before);
  }

  const TemporaryFolder folder_;
};

TEST_F(Slides, KilledAtAnyInstantTheResultIsTheSame) {
  constexpr int kKills = 20;
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_EQ(Run("whole", "").exit_code, 0);
  const std::chrono::duration<double> whole = std::chrono::steady_clock::now() - begin;
  Rng rng(7);
  for (int i = 0; i < kKills; ++i) {
    Run("killed", "", fmt::format("timeout -s KILL {:.3f}", 0.02 + 0.7 * rng.Uniform() * whole.count()));
  }
  const CommandOutput said = Run("killed", "");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto expected = Results(folder_ / "whole/out"), got = Results(folder_ / "killed/out");
  for (const auto& [name, bytes] : expected) {
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name), bytes) << name;
  }
  EXPECT_EQ(got.size(), expected.size());
}

TEST_F(Slides, ShardsMakeOneSummary) {
  ASSERT_EQ(Run("whole", "").exit_code, 0);
  for (const char* part : {"--shard 2/2", "--shard 1/2"}) {
    const CommandOutput said = Run("parts", part);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(JsonLines(said.out).size(), 1);
  }
  EXPECT_EQ(Results(folder_ / "parts/out"), Results(folder_ / "whole/out"));
  const std::string summary = ReadFile(folder_ / "parts/out/summary.csv");
  EXPECT_TRUE(Contains(summary, "\none,done,")) << summary;
  EXPECT_TRUE(Contains(summary, "\ntwo,damaged,")) << summary;
  fs::remove(folder_ / "parts/out/summary.csv");
  const CommandOutput said = Qkv("slide summary " + (folder_ / "parts/out").string());
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(ReadFile(folder_ / "parts/out/summary.csv"), summary);
}

TEST_F(Slides, SayWhatTheyAre) {
  const CommandOutput said = Qkv("slide info --json " + folder_.path().string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 2);
  EXPECT_EQ(lines[0]["name"], "one");
  EXPECT_EQ(lines[0]["levels"][0]["width"], 2048);
  EXPECT_NEAR(lines[0]["mpp_x"].get<double>(), 0.5, 1e-6);
}

TEST_F(Slides, ASlideThatFailsDoesNotEndTheRun) {
  WriteFile(folder_ / "zero.svs", "");
  const CommandOutput said = Qkv("slide tile " + folder_.path().string() + " -o " + (folder_ / "out").string());
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_EQ(JsonLines(said.out).size(), 3);
  EXPECT_TRUE(Contains(said.err, "zero.svs")) << said.err;
  EXPECT_TRUE(Contains(said.err, "1 of 3 slides failed")) << said.err;
}

TEST_F(Slides, RefuseOptionsThatContradictEachOther) {
  for (const char* options : {"--tile 64 --overlap 64", "--mag 20 --mpp 0.5", "--shard 3/2", "--min-tissue 2",
                              "--mag 0", "--head nowhere.pt"}) {
    const CommandOutput said = Qkv("slide run " + (folder_ / "two.tif").string() + " -m digits -o " +
                                   (folder_ / "out").string() + " " + options);
    EXPECT_NE(said.exit_code, 0) << options;
    EXPECT_FALSE(said.err.empty()) << options;
    EXPECT_FALSE(fs::exists(folder_ / "out/slides")) << options;
  }
}

}  // namespace
}  // namespace qkv
