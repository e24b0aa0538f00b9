// Models to rewrite, and what they answer in a precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint.h"
#include "qkv/model/vit.h"
#include "tests/support/files.h"
#include "tests/support/tolerance.h"

namespace qkv::lab {

/// All of tests/golden.
inline std::vector<std::string> GoldenNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(SourceFolder() / "tests/golden")) {
    if (std::filesystem::exists(entry.path() / "expected.safetensors")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::filesystem::path GoldenFolder(const std::string& name) { return SourceFolder() / "tests/golden" / name; }

/// Of a golden's own pixels: "logits" and "attention.L" of every block, in float or in double.
template <typename T>
std::map<std::string, Tensor<T>> Answers(const model::Checkpoint& checkpoint, const std::string& golden) {
  const model::Vit<T> vit(checkpoint.description.config, checkpoint.bound);
  const auto expected = io::SafeTensors::Open(GoldenFolder(golden) / "expected.safetensors");
  const Tensor<T> pixels = io::Convert<T>(*expected.Find("pixels"));
  const model::VitConfig& c = vit.config();
  const int64_t B = pixels.dim(0), N = vit.TokensFor(pixels.dim(2), pixels.dim(3));
  std::map<std::string, Tensor<T>> results;
  const auto add = [&](const std::string& name, const Shape& shape) -> View<T> {
    return results.emplace(name, Tensor<T>(shape)).first->second;
  };
  model::Outputs<T> outputs;
  outputs.logits = add("logits", {B, c.outputs()});
  for (int64_t block = 0; block < c.depth; ++block) {
    outputs.attention.push_back({block, {0, N, add(fmt::format("attention.{}", block), {B, c.heads, N, N})}});
  }
  model::Workspace<T> workspace;
  vit.Forward(pixels, workspace, outputs);
  return results;
}

template <typename A, typename B>
double MaxDifference(const Tensor<A>& a, const Tensor<B>& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    greatest = std::isnan(difference) ? INFINITY : std::max(greatest, difference);
  }
  return greatest;
}

template <typename T>
double MaxAbs(const Tensor<T>& x) {
  double greatest = 0;
  for (const T v : x.span()) greatest = std::max(greatest, std::abs(static_cast<double>(v)));
  return greatest;
}

/// How far a rewriting in precision T may be from the original: rounding grows through the layers as that of the
/// original in float does, which is measured (`rounded` float, `exact` double), times `factor` for what is rounded more
/// often, or in longer sums; and a few roundings of the greatest entry, where a small sample is lucky.
template <typename T>
double RewritingTolerance(const Tensor<float>& rounded, const Tensor<double>& exact, double factor = 8) {
  return UnitRoundoff<T>() * (factor * MaxDifference(rounded, exact) / UnitRoundoff<float>() + 16 * MaxAbs(exact));
}

}  // namespace qkv::lab
