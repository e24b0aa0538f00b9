// qkv qk truncate: fewer query and key features for each head, and the effect on the answers.
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/images.h"
#include "cli/output.h"
#include "cli/qk_rewrite.h"
#include "qkv/app/images/classes.h"
#include "qkv/app/timing/drift.h"
#include "qkv/io/json.h"
#include "qkv/lab/truncate.h"
#include "qkv/train/run/evaluation.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct QkTruncateOptions : RewriteOptions {
  int64_t rank = 1;
  std::string images, calibration;
  int64_t tokens_of = 32;
  bool json = false, quiet = false;
};

// The inputs of the attention for some images of a folder.
lab::BlockTokens ReadBlockTokens(const QkTruncateOptions& options, const std::string& folder,
                                 const model::Checkpoint& checkpoint, const model::Model& model) {
  lab::BlockTokens tokens(checkpoint);
  ImageOptions images;
  images.quiet = options.quiet;
  ForEachBatch(images, app::SampleEvenly(CollectImages({folder}), options.tokens_of), model, Wanted::kPixels,
               [&](const Batch& batch) { tokens.Add(model, batch.values); });
  Require(tokens.images() > 0, "truncate: no image of {} could be read", folder);
  return tokens;
}

struct Predictions {
  std::vector<std::string> paths;
  Tensor<float> logits;  // [images, outputs]
  int failed = 0;
};

Predictions ComputePredictions(const QkTruncateOptions& options, const model::Model& model) {
  Predictions answers;
  std::vector<float> logits;
  ImageOptions images;
  images.quiet = options.quiet;
  answers.failed = ForEachBatch(images, CollectImages({options.images}), model, Wanted::kLogits, [&](const Batch& b) {
    answers.paths.insert(answers.paths.end(), b.paths.begin(), b.paths.end());
    logits.insert(logits.end(), b.values.data(), b.values.data() + b.values.size());
  });
  Require(!answers.paths.empty(), "truncate: no image of {} could be read", options.images);
  answers.logits = Tensor<float>({std::ssize(answers.paths), model.config().outputs()});
  std::ranges::copy(logits, answers.logits.data());
  return answers;
}

double Accuracy(const Tensor<float>& logits, const std::vector<int64_t>& classes) {
  train::Evaluation evaluation(logits.dim(1));
  evaluation.Add(logits, classes);
  return evaluation.top1();
}

void PrintErrors(const std::vector<lab::HeadError>& errors, bool json) {
  if (!json) {
    Print("{:>5} {:>5} {:>14} {:>12} {:>15} {:>14}\n", "block", "head", "logits, rel.", "logits, max",
          "attention, mean", "attention, max");
  }
  for (const auto& [block, head, e] : errors) {
    if (json) {
      PrintJsonLine(io::Json({{"block", block},
                              {"head", head},
                              {"logits_relative", e.logits_relative},
                              {"logits_max", e.logits_max},
                              {"attention_mean", e.attention_mean},
                              {"attention_max", e.attention_max}}));
    } else {
      Print("{:>5} {:>5} {:>14.3g} {:>12.3g} {:>15.3g} {:>14.3g}\n", block, head, e.logits_relative, e.logits_max,
            e.attention_mean, e.attention_max);
    }
  }
}

// Returns the number of unreadable images.
int PrintDrift(const QkTruncateOptions& options, const model::Checkpoint& checkpoint, const model::Model& before,
               const model::Model& after) {
  const Predictions exact = ComputePredictions(options, before), ours = ComputePredictions(options, after);
  Require(exact.paths == ours.paths, "truncate: the images of {} changed meanwhile", options.images);
  const app::Drift drift = app::ComputeDrift(ours.logits, exact.logits);
  const int64_t classes = before.config().classes;
  const auto truth = classes > 0
                         ? app::MatchFolderClasses(exact.paths, options.images, checkpoint.description.labels, classes)
                         : std::optional<std::vector<int64_t>>();
  // A model without a classifier answers with a vector, whose greatest entry is no class.
  io::Json line = {{"images", exact.paths.size()}, {classes > 0 ? "logit_cosine" : "vector_cosine", drift.cosine}};
  if (classes > 0) line["top1_agreement"] = drift.top1;
  if (truth) {
    line["accuracy_before"] = Accuracy(exact.logits, *truth);
    line["accuracy"] = Accuracy(ours.logits, *truth);
  }
  if (options.json) {
    PrintJsonLine(line);
  } else {
    Print("\n{} images: cosine of the {} {:.6f}", exact.paths.size(), classes > 0 ? "logits" : "vectors", drift.cosine);
    if (classes > 0) Print(", same first class {:.2f} %", 100 * drift.top1);
    if (truth) {
      Print(", accuracy {:.2f} % before and {:.2f} % now", 100 * line["accuracy_before"].get<double>(),
            100 * line["accuracy"].get<double>());
    }
    Print("\n");
  }
  return exact.failed;
}

int Truncate(const QkTruncateOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("qk truncate", app::kReplaceMatrices);
  const model::Checkpoint& checkpoint = model.images();
  lab::TruncateOptions request{.rank = options.rank, .write = options.Write()};
  if (options.images.empty() && options.calibration.empty()) {
    PrintSizes(options.output, lab::Truncate(checkpoint, options.output, request));
    return 0;
  }
  const model::Model before(checkpoint);
  std::optional<lab::BlockTokens> calibration;
  if (!options.calibration.empty()) {
    request.calibration = &calibration.emplace(ReadBlockTokens(options, options.calibration, checkpoint, before));
  }
  // Checked before anything is written: there may be no images.
  std::optional<lab::BlockTokens> judged;
  if (!options.images.empty()) judged.emplace(ReadBlockTokens(options, options.images, checkpoint, before));
  PrintSizes(options.output, lab::Truncate(checkpoint, options.output, request));
  const model::Checkpoint written = model::Checkpoint::Open(options.output);
  PrintErrors(lab::CompareHeads(checkpoint, written, judged ? *judged : *calibration), options.json);
  if (!judged) return 0;
  return PrintDrift(options, checkpoint, before, model::Model(written)) > 0 ? 1 : 0;
}

}  // namespace

void RegisterQkTruncate(Command app, int* exit_code) {
  const auto options = std::make_shared<QkTruncateOptions>();
  const Command command = app.AddCommand("truncate", "Write a model with fewer features of queries and keys a head");
  options->AddTo(command);
  command.AddOption("--rank", &options->rank, "Features of a head's queries and keys")
      .Required()
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("R");
  command
      .AddOption("--data-optimal", &options->calibration,
                 "Fit the logits of these images (default: the weights, whatever comes in)")
      .TypeName("FOLDER");
  command
      .AddOption("--images", &options->images,
                 "Measure drift on these images, and accuracy where each class has a subfolder of its name or index")
      .TypeName("FOLDER");
  command.AddOption("--sample", &options->tokens_of, "Images of a folder whose tokens are kept, for fit and errors")
      .ShowDefault()
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("N");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout: one for each head, and one for the drift");
  AddQuiet(command, &options->quiet);
  command.Footer(
      "Errors of each head: of its logits (but for what softmax does not see), and of its attention: the mean over "
      "queries in total variation, and the greatest difference of one weight.\n\n"
      "Examples:\n"
      "  qkv qk truncate -m vit -o small --rank 32\n"
      "  qkv qk truncate -m vit -o small --rank 16 --data-optimal train/ --images val/");
  command.Callback([options, exit_code] { *exit_code = Truncate(*options); });
}

}  // namespace qkv::cli
