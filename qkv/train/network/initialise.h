// The weights that training begins with.
#pragma once

#include <cstdint>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/train/network/flat_parameters.h"

namespace qkv::train {

struct Initialisation {
  enum class Scheme {
    // What timm's VisionTransformer begins with (weight_init=''): linear weights and positions N(0, 0.02²), their
    // truncation at ±2 being none at that width; the patch embedding as PyTorch's convolutions, uniform in
    // ±1/√fan_in, its bias too; other biases 0; class token and registers N(0, 10⁻¹²); the half of a gated MLP's first
    // layer that multiplies the other N(0, 10⁻¹²) with biases of 1.
    // Weights of the other kinds of attention are such that scores vary as those of separate queries and keys do.
    kTimm,
    // Of Trockman and Kolter 2023, "Mimetic Initialization of Self-Attention Layers", on top of that: in each head
    // W_Qᵀ W_K ≈ 0.7 Z + 0.7 I and W_O W_V ≈ 0.4 Z − 0.4 I with Z of N(0, 1/D), split by SVD; learned positions start
    // as
    // sines and cosines.
    kMimetic,
  };
  Scheme scheme = Scheme::kTimm;
  uint64_t seed = 0;
  double layer_scale = 1e-5;  // what LayerScale starts with; timm's default
};

/// Fills weights [P], what lies between tensors with zeros. A tensor depends on the seed, its name and its shape only,
/// so that models of different kinds of attention begin alike where they are alike; kTimm gives the same bits on every
/// machine, kMimetic up to the rounding of the SVD. Throws Error where kMimetic is not defined: for kinds whose queries
/// and keys are also values or come from places alone, without an output projection, or for heads that together are
/// wider than the model.
template <typename T>
void Initialise(const model::VitConfig& config, const ParameterLayout& layout, const Initialisation& how,
                View<T> weights);

/// The same for a sequence model. Embedded tokens are N(0, 0.02²) as positions are; where positions are sines and
/// cosines, they vary as much as these, N(0, 1/2).
template <typename T>
void Initialise(const model::SequenceConfig& config, const ParameterLayout& layout, const Initialisation& how,
                View<T> weights);

}  // namespace qkv::train
