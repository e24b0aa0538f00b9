// How much the logits of two models differ.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::cli {

struct Drift {
  double cosine = 0;  // of the logits, mean over the images
  double top1 = 0;    // share of images with the same first class
};

/// logits, exact: [images, outputs].
Drift ComputeDrift(const Tensor<float>& logits, const Tensor<float>& exact);

}  // namespace qkv::cli
