// A training run from beginning to end, or from where it was stopped: the loop (loop.h) with what learns in it. It goes
// on to the same bits as if it had never been stopped: whatever is random depends on the seed and the step alone, and
// everything else is in the run's folder (save.h).
#pragma once

#include "qkv/model/config/description.h"
#include "qkv/model/vit.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/loop.h"
#include "qkv/train/run/run_folder.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

/// The model whose answers were just rated; it is there for the length of the call.
struct EvaluatedModel {
  const model::Vit<float>& vit;
  const model::Description& description;
  int64_t epoch = 0;
};

/// Trains a Vision Transformer on images in `folder`, from its checkpoint where it has one.
/// Several `processes` train one model together, each on its part of every batch: all call this with the same
/// configuration and data. Throws Error as RunLoop, and for a model that does not fit the images.
Outcome Train(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes = nullptr);

/// The same of a sequence model on a task or a text: the decoder or encoder that the configuration says.
Outcome Train(const TrainConfig& config, const SequenceData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes = nullptr);

}  // namespace qkv::train
