// How much the logits of two models differ.
#pragma once

#include "qkv/core/tensor.h"

namespace qkv::app {

struct Drift {
  double cosine = 0;  // of the logits, mean over the images
  double top1 = 0;    // share of images with the same first class
};

/// logits, exact: [images, outputs].
Drift ComputeDrift(const Tensor<float>& logits, const Tensor<float>& exact);

}  // namespace qkv::app
