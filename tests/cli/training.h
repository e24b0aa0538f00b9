// What is trained on: images that a model learns to tell apart in seconds. And by two processes, where there is MPI.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/core/rng.h"
#include "qkv/image/encode.h"
#include "tests/cli/program.h"

namespace qkv {

// Three classes that differ by where they are bright, in noise.
inline void DrawImages(const std::filesystem::path& folder, int per_class, uint64_t seed) {
  constexpr const char* kClasses[] = {"left", "middle", "right"};
  Rng rng(seed);
  for (int label = 0; label < 3; ++label) {
    std::filesystem::create_directories(folder / kClasses[label]);
    for (int i = 0; i < per_class; ++i) {
      image::Image image{Tensor<uint8_t>({8, 8, 1})};
      for (int64_t y = 0; y < 8; ++y) {
        for (int64_t x = 0; x < 8; ++x) {
          const bool bright = x / 3 == label;
          image.pixels[8 * y + x] = static_cast<uint8_t>((bright ? 150 : 50) + 100 * rng.Uniform());
        }
      }
      WriteFile(folder / kClasses[label] / fmt::format("{}.png", i), image::EncodePng(image));
    }
  }
}

inline std::vector<io::Json> ReadEvaluations(const std::filesystem::path& run) {
  std::vector<io::Json> lines = JsonLines(ReadFile(run / "log.jsonl"));
  std::erase_if(lines, [](const io::Json& line) { return line["event"] != "evaluation"; });
  return lines;
}

/// Two runs came to the same bits.
inline void ExpectSameResult(const std::filesystem::path& one, const std::filesystem::path& other) {
  for (const char* file : {"model.safetensors", "config.json", "best/model.safetensors", "best/config.json",
                           "last/model.safetensors", "checkpoint/training.safetensors"}) {
    EXPECT_TRUE(ReadFile(one / file) == ReadFile(other / file)) << file << " differs";
  }
  EXPECT_EQ(ReadEvaluations(one), ReadEvaluations(other));
}

#ifdef QKV_MPIRUN
// As root too, where there is but one core, and by sanitizers that know nothing of MPI's own memory.
inline constexpr const char* kTwo =
    "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 ASAN_OPTIONS=detect_leaks=0 " QKV_MPIRUN
    " --oversubscribe --bind-to none -n 2";

inline CommandOutput Two(const std::string& arguments) { return Qkv(arguments, kTwo); }

/// Two processes take `whole`, and `resumed`, which is killed three times on its way.
inline void RunTwoAndKillTwo(const std::string& whole, const std::string& resumed) {
  const auto begin = std::chrono::steady_clock::now();
  const CommandOutput said = Two(whole);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  for (const double part : {0.5, 0.7, 0.9}) Qkv(resumed, fmt::format("{} timeout -s KILL {}", kTwo, part * seconds));
  const CommandOutput again = Two(resumed);
  ASSERT_EQ(again.exit_code, 0) << again.err;
}

/// All weights of the latest model of a run.
inline std::vector<float> ReadWeights(const std::filesystem::path& run) {
  const io::SafeTensors file = io::SafeTensors::Open(run / "last/model.safetensors");
  std::vector<float> weights;
  for (const io::StoredTensor& stored : file.tensors()) {
    const Tensor<float> tensor = io::Convert<float>(stored);
    weights.insert(weights.end(), tensor.data(), tensor.data() + tensor.size());
  }
  return weights;
}

/// The same batches, the same chances, and gradients that are summed in another order: the run `two` of two processes
/// is about as far from that of one as `halves`, whose batches one process takes half by half. For SGD, whose steps are
/// as small as the gradients' errors; AdamW's are not where a gradient is about 0.
inline void ExpectAsOneProcess(const std::filesystem::path& one, const std::filesystem::path& halves,
                               const std::filesystem::path& two, size_t evaluations) {
  const std::vector<float> weights = ReadWeights(one);
  const auto distance = [&](const std::filesystem::path& run) {
    const std::vector<float> others = ReadWeights(run);
    EXPECT_EQ(others.size(), weights.size());
    double greatest = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      greatest = std::max(greatest, std::abs(double{others[i]} - weights[i]));
    }
    return greatest;
  };
  double largest = 0;
  for (const float weight : weights) largest = std::max(largest, double{std::abs(weight)});
  EXPECT_LE(distance(two), 4 * distance(halves) + 1e-6 * largest);

  const std::vector<io::Json> a = ReadEvaluations(one), b = ReadEvaluations(two);
  ASSERT_EQ(a.size(), evaluations);
  ASSERT_EQ(b.size(), evaluations);  // one writer
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i]["loss"], b[i]["loss"], 1e-4);
    EXPECT_NEAR(a[i]["train_loss"], b[i]["train_loss"], 1e-4);
    EXPECT_EQ(a[i]["train_accuracy"], b[i]["train_accuracy"]);
  }
}
#endif

}  // namespace qkv
