// Weight initialisation.
#pragma once

#include <cstdint>

#include "qkv/model/config/sequence_config.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/train/network/flat_parameters.h"

namespace qkv::train {

struct Initialisation {
  enum class Scheme {
    // timm's VisionTransformer (weight_init=''): linear weights and positions N(0, 0.02²), whose truncation at ±2 never
    // applies at that deviation; patch embedding as PyTorch's convolutions, uniform in ±1/√fan_in, with its bias; other
    // biases 0; class token and registers N(0, 10⁻¹²); in a gated MLP's first layer, the half that gates N(0, 10⁻¹²)
    // with biases of 1.
    // For the other kinds of attention, weights give scores the variance that separate queries and keys give.
    kTimm,
    // Trockman and Kolter 2023, "Mimetic Initialization of Self-Attention Layers", on top of kTimm: in each head W_Qᵀ
    // W_K ≈ 0.7 Z + 0.7 I and W_O W_V ≈ 0.4 Z − 0.4 I with Z of N(0, 1/D), factored by SVD; learned positions start as
    // sines and cosines.
    kMimetic,
  };
  Scheme scheme = Scheme::kTimm;
  uint64_t seed = 0;
  double layer_scale = 1e-5;  // initial value of LayerScale; timm's default
};

/// Fills weights [P]; padding between tensors becomes zero. A tensor depends on the seed, its name and its shape only,
/// so models of different kinds of attention share the initial values of the tensors that they share. kTimm gives the
/// same bits on every machine; kMimetic differs by the rounding of the SVD. Throws Error if kMimetic is not defined for
/// the model: queries and keys also serve as values or depend on positions only, there is no output projection, or the
/// heads together are wider than the model.
template <typename T>
void Initialise(const model::VitConfig& config, const ParameterLayout& layout, const Initialisation& how,
                View<T> weights);

/// The same for a sequence model. Token embeddings are N(0, 0.02²), like positions. With sine and cosine positions they
/// are N(0, 1/2), the variance of those.
template <typename T>
void Initialise(const model::SequenceConfig& config, const ParameterLayout& layout, const Initialisation& how,
                View<T> weights);

}  // namespace qkv::train
