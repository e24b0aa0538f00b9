// Models to rewrite, and what they answer in a precision.
#pragma once

#include <map>
#include <string>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/difference.h"
#include "tests/support/goldens.h"
#include "tests/support/tolerance.h"

namespace qkv::lab {

/// Of a golden's own pixels: "logits" and "attention.L" of every block, in float or in double.
template <typename T>
std::map<std::string, Tensor<T>> ComputeOutputs(const model::Checkpoint& checkpoint, const std::string& golden) {
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
    outputs.attention.push_back(
        {block, {0, N, add(fmt::format("attention.{}", block), {B, c.block.attention.heads, N, N})}});
  }
  model::Workspace<T> workspace;
  vit.Forward(pixels, workspace, outputs);
  return results;
}

/// How far a rewriting in precision T may be from the original: rounding grows through the layers as that of the
/// original in float does, which is measured (`rounded` float, `exact` double), times `factor` for what is rounded more
/// often, or in longer sums; and a few roundings of the greatest entry, where a small sample is lucky.
template <typename T>
double RewritingTolerance(const Tensor<float>& rounded, const Tensor<double>& exact, double factor = 8) {
  return UnitRoundoff<T>() * (factor * MaxDifference(rounded, exact) / UnitRoundoff<float>() + 16 * MaxAbs(exact));
}

}  // namespace qkv::lab
