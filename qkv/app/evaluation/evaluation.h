// Accuracy of a model on labelled images or sequences: the numbers of `qkv evaluate`, its pictures and its page. A
// library of its own, qkv_evaluation: it needs the data sets of qkv/train.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/models/any_model.h"
#include "qkv/image/image.h"
#include "qkv/io/json.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/run/evaluation.h"
#include "qkv/train/sequences/evaluation.h"

namespace qkv::app {

/// The images of one split of a data set. Neither copied nor moved: `images` and `split` refer to `dataset`.
struct LabelledImages {
  /// data: as train::OpenDataset; split: as train::ForEvaluation, which also throw.
  LabelledImages(const std::string& data, const std::string& split);
  LabelledImages(const LabelledImages&) = delete;
  LabelledImages& operator=(const LabelledImages&) = delete;

  const train::Dataset dataset;
  const train::Split& split;
  ImageList images;
  std::string description;  // one line
};

/// The results of one class of the data.
struct ClassScore {
  std::string name;
  int64_t images = 0, right = 0;
  int64_t guesses = 0;  // images of any class that are taken for this one
  std::string mistake;  // the class that its images are most often taken for; empty if there is none
  int64_t mistakes = 0;

  // Fractions; 0 where the denominator is 0, as scikit-learn has them.
  double precision() const { return guesses > 0 ? static_cast<double>(right) / static_cast<double>(guesses) : 0; }
  double recall() const { return images > 0 ? static_cast<double>(right) / static_cast<double>(images) : 0; }
  double f1() const {
    const double sum = precision() + recall();
    return sum > 0 ? 2 * precision() * recall() / sum : 0;
  }
};

/// The model's answer for one image.
struct ImagePrediction {
  std::string path, truth, guess;              // names of the classes
  float confidence = 0, true_probability = 0;  // softmax of the guess and of the true class
};

/// A wrong answer, and the model's confidence in it.
struct Mistake {
  std::string path;
  std::string truth, guess;    // names of the classes
  float confidence = 0;        // probability of the guess
  float true_probability = 0;  // of the true class
  image::Image picture;        // small, RGB; without pixels if it cannot be read again
};

struct ImageEvaluation {
  std::string model;  // path, or empty: the built-in digits
  std::string data;   // in words
  train::Evaluation evaluation;
  std::vector<std::string> names;   // of the data's classes, in its order
  std::vector<int64_t> labels;      // the model's class for each of these
  std::vector<ClassScore> classes;  // of each of these
  std::vector<Mistake> worst;       // those of the most confident wrong guesses, most confident first
  int unreadable = 0;               // images left out
};

struct EvaluateOptions {
  std::string model;  // its path, for people; empty: the built-in digits
  PipelineOptions pipeline;
  int64_t worst = 0;                                // mistakes to keep in ImageEvaluation::worst
  std::function<void(const ImagePrediction&)> use;  // receives each image in order; or empty
};

/// Classifies the images and compares with their labels. A note says if the model's classes have no names and were
/// assumed to be the data's. `evaluation` counts no image if none can be read. Throws Error if the model has no
/// classifier, if it does not know a class of the data, and as ForEachBatch.
ImageEvaluation Evaluate(const model::Model& model, const LabelledImages& data, const EvaluateOptions& options);

/// {"path", "truth", "guess", "right", "confidence", "true_probability"}
io::Json ToJson(const ImagePrediction& prediction);

/// {"top1", "top5" for more than five classes, "images", "unreadable", "nll" (null if it is not finite), "ece",
/// "classes": [{"name", "images", "right", "precision", "recall", "f1", "mistake": {"name", "images"} if there is
/// one}], "mean_precision", "mean_recall" and "mean_f1" over the data's classes, "confusion": a row of image counts for
/// each of these, with a column for each and a last one for all other classes of the model (left out above 1,000
/// classes), "calibration": [{"images", "confidence", "accuracy"}]}
io::Json ToJson(const ImageEvaluation& evaluation);

/// The confusion matrix, a row for each true class, in shares of the class's images; the last column, if there is one,
/// is for classes that the data does not have.
std::string ConfusionSvg(const ImageEvaluation& evaluation);
image::Image ConfusionPicture(const ImageEvaluation& evaluation);

/// All results as one self-contained HTML page, with the worst mistakes as pictures.
std::string EvaluationPage(const ImageEvaluation& evaluation);

struct SequenceEvaluation {
  std::string data;   // in words
  bool text = false;  // else a task
  train::SequenceScore score;
};

/// Evaluates a sequence model on "task:NAME" or on a text file; `split` ("train", "val", "all" or empty: all) is the
/// run's split of the file. Throws Error if the model does not fit the data, if a sequence of its length
/// would cost out of all proportion, and if the loss is not finite.
SequenceEvaluation EvaluateSequences(const AnyModel& model, const std::string& data, const std::string& split);

/// {"loss", "perplexity", "top1", "tokens"}, and "bits_per_byte" for a text, or "whole_sequences" and "sequences" for a
/// task.
io::Json ToJson(const SequenceEvaluation& evaluation);

}  // namespace qkv::app
