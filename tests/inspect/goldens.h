// The originals' answers, for what is made from attention.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/vision/vit.h"
#include "tests/support/goldens.h"

namespace qkv::inspect {

/// A model of tests/golden with its pixels in T; the answers are those of its original.
template <typename T>
struct GoldenModel {
  std::filesystem::path folder;
  model::Checkpoint checkpoint;
  model::Vit<T> vit;
  io::SafeTensors expected;
  Tensor<T> pixels;

  explicit GoldenModel(const std::string& name)
      : folder(GoldenFolder(name)),
        checkpoint(model::Checkpoint::Open(folder)),
        vit(checkpoint.description.config, checkpoint.bound),
        expected(io::SafeTensors::Open(folder / "expected.safetensors")),
        pixels(io::Convert<T>(*expected.Find("pixels"))) {}
};

/// How far ours may be from what the original answered in float64 (`exact`; `single` in float32): in double a few
/// roundings, in float by the design's criterion. It bounds the greatest error of the whole tensor; heads fused and
/// rows averaged are not further off than their sources. SimpleViT's own positions are float32 whatever the model's
/// type.
template <typename T>
double Tolerance(const std::string& model, const Tensor<double>& single, const Tensor<double>& exact) {
  if (std::is_same_v<T, double>) return model.find("simple") == std::string::npos ? 1e-13 : 1e-6;
  double own = 0, greatest = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    own = std::max(own, std::abs(single[i] - exact[i]));
    greatest = std::max(greatest, std::abs(exact[i]));
  }
  return 4 * own + 1e-6 * greatest;
}

template <typename T>
void ExpectNear(View<const T> ours, View<const double> exact, double tolerance, const std::string& what) {
  ASSERT_EQ(ours.size(), exact.size()) << what;
  double error = 0;
  for (int64_t i = 0; i < exact.size(); ++i) {
    const double difference = std::abs(static_cast<double>(ours.data()[i]) - exact.data()[i]);
    error = std::isnan(difference) ? INFINITY : std::max(error, difference);
  }
  EXPECT_LE(error, tolerance) << what;
}

}  // namespace qkv::inspect
