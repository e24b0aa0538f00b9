// How far a model's answers are from another's, and how often they are right.
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
Drift DriftOf(const Tensor<float>& logits, const Tensor<float>& exact);

/// The class of each file, where `folder` has a subfolder for each: named by the class's label, or its index. Nothing
/// when a file is in no such folder.
std::optional<std::vector<int64_t>> ClassesOf(const std::vector<std::string>& files,
                                              const std::filesystem::path& folder,
                                              const std::vector<std::string>& labels, int64_t classes);

/// The share of rows whose greatest logit is that of its class.
double Accuracy(const Tensor<float>& logits, const std::vector<int64_t>& classes);

}  // namespace qkv::cli
