// Runs training of an image or sequence model, from the start or from a checkpoint: the loop (loop.h) with its learner.
// A resumed run gives the same bits as an uninterrupted one: random numbers depend on the seed and the step only, and
// the run's folder keeps all other state (run_folder.h).
#pragma once

#include "qkv/model/config/description.h"
#include "qkv/model/vision/vit.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/loop.h"
#include "qkv/train/run/run_folder.h"
#include "qkv/train/sequences/pairs.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::train {

/// The model that was just evaluated; valid during the callback only.
struct EvaluatedModel {
  const model::Vit<float>& vit;
  const model::Description& description;
  int64_t epoch = 0;
};

/// Trains a Vision Transformer on images in `folder`; resumes from its checkpoint if there is one. With several
/// `processes`, each trains on its part of every batch, and all must call this with the same configuration and data.
/// Throws Error as RunLoop, and if the model does not fit the images.
Outcome Train(const TrainConfig& config, const TrainingData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes = nullptr);

/// The same for a sequence model, decoder or encoder by the configuration, on a task or a text.
Outcome Train(const TrainConfig& config, const SequenceData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes = nullptr);

/// The same for an encoder-decoder, on pairs of texts. The folder holds it in the layout of Marian
/// (model/families/hf_marian.h), with its tokenizer.
Outcome Train(const TrainConfig& config, const PairData& data, RunFolder& folder, const Observer& observer,
              Communicator* processes = nullptr);

}  // namespace qkv::train
