// What difference a kind of attention makes: the same training, once for each variant and seed. Here is what is run;
// ablation_results.h has what came out. Not here: training itself (train/run/image_run.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"

namespace qkv::lab {

/// One variant of what is compared.
struct Arm {
  std::string name;          // "low_rank:rank=8"
  train::Settings settings;  // above those that all arms share
};

/// "shared", "low_rank:rank=8", "separate:qkv-bias=false": a kind of attention, then keys of train::Keys() with values.
/// Where `shared` and the text leave open a rank that the kind needs, it is half a head's width for low_rank and a
/// whole one for symmetric, and the name says so. Throws Error for what is no arm, and for keys in which runs that are
/// compared may not differ (seed, model, preset, val-fraction, length, vocabulary).
Arm ParseArm(std::string_view text, const train::Settings& shared);

/// What arms are compared on.
struct AblationData {
  std::string given;                          // as train::OpenDataset or train::SequencesForTraining takes it
  std::string name;                           // in a word: "copy"
  std::string summary;                        // for people
  std::optional<train::TrainingData> images;  // that all runs share; else sequences, which each run's seed draws
  uint64_t fingerprint = 0;                   // tells it apart from other data of the same name
};

/// What all arms have equally much of.
enum class Budget {
  kSteps,       // steps, whatever they cost
  kParameters,  // steps, and parameters: the MLP is as wide as makes up for those that attention has not
  kFlops,       // multiply-adds of the forward passes: steps are more where a model costs less
};

/// The configuration of a run: `shared`, the arm's settings, the seed, and what the budget changes, compared with the
/// first arm. Throws Error as train::Resolve, and as train::NewModel or train::NewSequenceModel where no model is of
/// this kind, and where no width of the MLP makes up for the parameters.
train::TrainConfig ConfigOf(const train::Settings& shared, const Arm& arm, const Arm& first, Budget budget,
                            int64_t seed, const AblationData& data);

}  // namespace qkv::lab
