// The model that a run begins with: a new one, or a trained one with a new head, perhaps at another image size.
// Not here: how new weights are drawn (initialise.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/train/network/flat_parameters.h"
#include "qkv/train/run/config.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

/// A model in timm's words, whatever library it came from: that is how a run writes it. One of vit-pytorch's, which
/// timm has no words for, stays in its own.
struct Start {
  std::string config;              // config.json
  model::Description description;  // as qkv reads it
  std::vector<std::string> notes;  // what differs from what was given, a sentence each
};

/// A model of the configuration's shape for these classes. Throws Error when there is none of this shape.
Start NewModel(const TrainConfig& config, const std::vector<std::string>& classes);

/// The checkpoint's model, with a classifier of these classes and, where the configuration has one, another image size.
/// Throws Error that names everything of the model that timm has no word for.
Start ContinuedModel(const model::Checkpoint& checkpoint, const TrainConfig& config,
                     const std::vector<std::string>& classes);

/// The sequences of a task or a text, as IsSequenceData knows them, that the configuration says. Throws Error for a
/// preset of images, and as the sequences themselves do.
SequenceData SequencesForTraining(const std::string& data, const TrainConfig& config);

/// A sequence model of the configuration's shape for this data. Throws Error when there is none of this shape, or it
/// could see the answers: a text's model is causal.
model::SequenceConfig NewSequenceModel(const TrainConfig& config, const SequenceData& data);
/// Throws Error that begins with `where` unless a model takes the data's sequences, and answers as is asked.
void RequireFit(const model::SequenceConfig& config, const SequenceData& data, std::string_view where);

/// Copies what the checkpoint has of the model's weights into the buffer [P]: all but the classifier. Positions are
/// brought to the new grid as the checkpoint's family interpolates them; tokens that had none get zeros.
/// Throws Error when a weight is missing, of another shape, or not finite, or the family resizes no positions.
void CopyWeights(const model::Checkpoint& checkpoint, const model::VitConfig& target, const ParameterLayout& layout,
                 View<float> weights);

}  // namespace qkv::train
