// Creates the model that a run begins with: a new one, or a trained one with a new head and optionally another image
// size. Not here: weight initialisation (initialise.h).
#pragma once

#include <string>
#include <vector>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/train/network/flat_parameters.h"
#include "qkv/train/run/config.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

/// A model described as timm's, whatever library it came from: runs write that format. Models of vit-pytorch that timm
/// cannot describe keep their own.
struct InitialModel {
  std::string config;              // config.json
  model::Description description;  // parsed from `config`
  std::vector<std::string> notes;  // what differs from the request, one sentence each
};

/// A model of the configured shape for these classes. Throws Error if the shape is invalid.
InitialModel NewModel(const TrainConfig& config, const std::vector<std::string>& classes);

/// The checkpoint's model with a classifier for these classes and, if the configuration gives one, another image size;
/// else of the size that its preprocessing gives (model::InputConfig), which a note says if it is not the stored one.
/// Throws Error that lists everything in the model that timm cannot describe.
InitialModel ContinuedModel(const model::Checkpoint& checkpoint, const TrainConfig& config,
                            const std::vector<std::string>& classes);

/// Creates the configured sequences of a task or a text (see IsSequenceData). Throws Error for a preset of images, and
/// if the sequences cannot be made.
SequenceData SequencesForTraining(const std::string& data, const TrainConfig& config);

/// A sequence model of the configured shape for this data. Throws Error if the shape is invalid, or if a text model
/// is not causal and could see the next byte.
model::SequenceConfig NewSequenceModel(const TrainConfig& config, const SequenceData& data);
/// Throws Error, prefixed with `where`, unless the model's length, vocabulary and kind of output fit the data.
void RequireFit(const model::SequenceConfig& config, const SequenceData& data, std::string_view where);

/// Copies the checkpoint's weights, all but the classifier, into the buffer [P]. Interpolates positions to the new grid
/// as the checkpoint's family does; tokens without positions there get zeros. Throws Error if a weight is missing, has
/// another shape or is not finite, or if the family does not resize positions.
void CopyWeights(const model::Checkpoint& checkpoint, const model::VitConfig& target, const ParameterLayout& layout,
                 const std::vector<std::string>& classes, View<float> weights);

}  // namespace qkv::train
