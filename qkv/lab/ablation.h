// Plans an ablation of attention kinds: the same training for every variant and seed. ablation_results.h holds the
// results. Not here: training itself (train/run/image_run.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/pair_model.h"

namespace qkv::lab {

/// One variant of the comparison.
struct Arm {
  std::string name;          // "low_rank:rank=8"
  train::Settings settings;  // override the settings shared by all arms
};

/// The attention whose kind an arm names.
enum class Varied {
  kLayers,  // that of the layers
  kCross,   // in pairs: the decoder's attention to the encoder
  kBoth,
};
/// "attention", "cross-attention", "both"
std::string_view Name(Varied varied);

/// Parses "shared", "low_rank:rank=8", "separate:qkv-bias=false": a kind of attention, then keys of train::Keys() with
/// values. If the kind needs a rank and neither the text nor `shared` gives one, it is half a head's width for low_rank
/// and a whole one for symmetric, and the name includes it. Throws Error if the text is not an arm, and for keys that
/// must be equal in all compared runs (seed, model, preset, val-fraction, length, vocabulary, tokenizer, valid,
/// valid-lines).
Arm ParseArm(std::string_view text, const train::Settings& shared, Varied varied = Varied::kLayers);

/// A data set of the comparison.
struct AblationData {
  std::string given;                          // argument of OpenDataset, SequencesForTraining or PairsForTraining
  std::string name;                           // short name: "copy"
  std::string summary;                        // for display
  std::optional<train::TrainingData> images;  // shared by all runs
  std::optional<train::PairData> pairs;       // likewise; without both sequences, drawn by each run's seed
  uint64_t fingerprint = 0;                   // distinguishes data of the same name
};

/// Cost of a run's model.
struct Cost {
  int64_t parameters = 0;
  double flops = 0;  // one image, sequence or pair of average lengths, forward
};
Cost PairCost(const train::PairConfig& model, const train::PairData& data);

/// The quantity that all arms share.
enum class Budget {
  kSteps,       // steps, at any cost per step
  kParameters,  // steps and parameters: a wider MLP compensates for fewer attention parameters
  kFlops,       // multiply-adds of the forward passes: cheaper models take more steps
};

/// The configuration of a run: `shared`, the arm's settings, the seed, and the changes that equalise the budget with
/// the first arm. Throws Error as train::Resolve, as train::NewModel, NewSequenceModel or NewPair if the model
/// does not support this kind, and if no MLP width equalises the parameters.
train::TrainConfig MakeConfig(const train::Settings& shared, const Arm& arm, const Arm& first, Budget budget,
                              int64_t seed, const AblationData& data);

}  // namespace qkv::lab
