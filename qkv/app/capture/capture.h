// A forward pass that keeps intermediate results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/model.h"

namespace qkv::app {

/// Tensors by the names of `qkv run`: "logits" (without a classifier "pooled", the model's vector of the image),
/// "tokens", "hidden.L", "attention.L"; for a detector "logits" [B, T, classes + 1] and "pred_boxes" [B, T, 4] of its
/// detection tokens; for a model of masks "class_queries_logits" [B, Q, classes + 1] and "masks_queries_logits" [B, Q,
/// height, width] of its query tokens.
using Captured = std::map<std::string, Tensor<float>>;

struct CaptureRequest {
  std::vector<int64_t> hidden, attention;
};

/// Tensors for `images` images of the given size. Throws Error if they need more than MemoryLimit().
Captured Allocate(const model::Model& model, const CaptureRequest& request, int64_t images, int64_t height,
                  int64_t width);

/// Runs pixels [B, channels, height, width] and writes rows first … first + B − 1 of every tensor.
void CaptureBatch(const model::Model& model, View<const float> pixels, const CaptureRequest& request, int64_t first,
                  model::Workspace<float>& workspace, Captured& captured);

/// The tensor "pixels" of a safetensors file: [B, channels, height, width], finite. Throws Error otherwise.
Tensor<float> ReadPixels(const io::SafeTensors& file, const std::string& path, const model::VitConfig& config);

}  // namespace qkv::app
