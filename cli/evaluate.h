// What qkv evaluate has found out, and the pictures of it.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/image/image.h"
#include "qkv/train/run/evaluation.h"

namespace qkv::cli {

/// On a task or a text; `split` may be empty. Prints, and returns the exit code.
int EvaluateSequences(const ModelOptions& options, const std::string& data, const std::string& split, bool json);

struct Assessment {
  std::string model, data;  // in words
  train::Evaluation evaluation;
  // The data's classes, in its order: names, and what the model calls them.
  std::vector<std::string> names;
  std::vector<int64_t> labels;
  int unreadable = 0;

  /// Of any class of the model, the data's name where it has one.
  std::string NameOf(int64_t label, const std::vector<std::string>& model_labels) const;
};

/// One line of the table: a class of the data.
struct ClassScore {
  std::string name;
  int64_t images = 0, right = 0;
  std::string mistake;  // the most frequent one; empty where there is none
  int64_t mistakes = 0;
};
std::vector<ClassScore> ScoresOf(const Assessment& assessment, const std::vector<std::string>& model_labels);

/// The confusion matrix, true classes downwards, in shares of a class's images; the last column, where there is one, is
/// for classes that the data has not.
std::string ConfusionSvg(const Assessment& assessment);
image::Image ConfusionPicture(const Assessment& assessment);

/// Everything as a page.
std::string Html(const Assessment& assessment, const std::vector<ClassScore>& scores);

}  // namespace qkv::cli
