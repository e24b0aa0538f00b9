// A forward pass that keeps intermediate results.
#pragma once

#include <string>
#include <vector>

#include "qkv/app/capture/activations.h"
#include "qkv/app/capture/captured.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/model.h"

namespace qkv::app {

struct CaptureRequest {
  std::vector<int64_t> hidden, attention;
  ActivationRequest activations = {};  // of all images at once
};

/// Tensors for `images` images of the given size. Throws Error if they need more than MemoryLimit().
Captured Allocate(const model::Model& model, const CaptureRequest& request, int64_t images, int64_t height,
                  int64_t width);

/// Runs pixels [B, channels, height, width] and writes rows first … first + B − 1 of every tensor. With activations,
/// B is the number of all images.
void CaptureBatch(const model::Model& model, View<const float> pixels, const CaptureRequest& request, int64_t first,
                  model::Workspace<float>& workspace, Captured& captured);

/// The tensor "pixels" of a safetensors file: [B, channels, height, width], finite. Throws Error otherwise.
Tensor<float> ReadPixels(const io::SafeTensors& file, const std::string& path, const model::VitConfig& config);

}  // namespace qkv::app
