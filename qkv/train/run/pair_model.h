// The encoder-decoder that a run on pairs of texts trains: its data, its configuration, and the conversion between the
// flat buffer of weights and a model's files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/train/network/pair_network.h"
#include "qkv/train/run/config.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::train {

/// Reads the pairs and their validation part, and opens or learns the tokenizer. begun: folder of the latest model of a
/// run that is resumed, whose tokenizer is taken; or empty. Throws Error if the data or the tokenizer cannot be used.
PairData PairsForTraining(const std::filesystem::path& file, const TrainConfig& config,
                          const std::filesystem::path& begun = {});

/// A pair of the configured shape. Throws Error if the shape is invalid.
PairConfig NewPair(const TrainConfig& config, const PairData& data);

/// The configuration of a checkpoint, which may have a bias of the logits. Throws Error if it is no encoder-decoder, or
/// cannot be trained.
PairConfig PairOfCheckpoint(const model::TextCheckpoint& checkpoint);
/// The tokens that its files name. Throws Error if they do not.
model::TextTokens TokensOfCheckpoint(const model::TextCheckpoint& checkpoint);
/// Copies its weights into the buffer [P].
void CopyPairWeights(const model::TextCheckpoint& checkpoint, const PairNetwork<float>& network, View<float> weights);

/// config.json in Marian's layout.
std::string PairConfigJson(const PairConfig& config, const model::TextTokens& tokens);
/// The tensors in Marian's layout; they point into the weights, and to zeros, of `outputs` at least.
std::vector<io::StoredTensor> PairTensors(const PairNetwork<float>& network, View<const float> weights,
                                          const Tensor<float>& zeros);

/// The model for inference. The weights are copied.
model::TextModel MakeTextModel(const PairNetwork<float>& network, View<const float> weights);

}  // namespace qkv::train
