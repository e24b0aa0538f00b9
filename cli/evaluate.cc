// qkv evaluate: how often a model is right on labelled images, where it errs, and whether its probabilities hold.
#include "cli/evaluate.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/classes.h"
#include "qkv/app/input_files.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/io/json.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelOptions model;
  ImageOptions images;
  std::string data, split, output, report;
  bool json = false;
};

// The images of a split as the pipeline takes them.
ImageList ListOf(const train::Split& split) {
  ImageList images{.files = split.files};
  if (!split.files.empty()) return images;
  images.pixels = split.pixels;
  for (int64_t i = 0; i < split.size(); ++i) images.files.emplace_back(split.NameOf(i));
  return images;
}

Assessment Assess(const Options& options, const model::Model& model) {
  Require(model.config().classes > 0, "evaluate: the model has no classifier");
  const train::Dataset dataset = train::OpenDataset(options.data);
  const train::Split& split = train::ForEvaluation(dataset, options.split);
  const ImageList images = ListOf(split);
  app::InputFiles inputs(options.model.path);
  inputs.Add(options.data);
  inputs.Add(images.files);
  for (const std::string& file : {options.output, options.report}) inputs.RequireOutput(file);
  bool by_order = false;
  Assessment assessment{
      .model = options.model.path.empty() ? "built-in digits" : options.model.path,
      .data = fmt::format("{} ({}): {} {} of {} classes, {}", options.data, dataset.format,
                          report::WithCommas(split.size()), split.size() == 1 ? "image" : "images",
                          dataset.classes.size(), split.name == "all" ? "not in splits" : "split " + split.name),
      .evaluation = train::Evaluation(model.config().classes),
      .names = dataset.classes};
  assessment.labels = app::MatchClasses(dataset.classes, model, &by_order);
  if (by_order) {
    PrintMessage("qkv: the model's classes have no names: taken to be the data's, in their order\n");
  }
  std::vector<int64_t> truth;
  assessment.unreadable = ForEachBatch(options.images, images, model, Wanted::kLogits, [&](const Batch& batch) {
    truth.clear();
    for (const size_t i : batch.files) {
      truth.push_back(assessment.labels[static_cast<size_t>(split.labels[i])]);
    }
    assessment.evaluation.Add(batch.values, truth);
  });
  Require(assessment.evaluation.images() > 0, "evaluate: no image of {} could be read", options.data);
  return assessment;
}

// null for what is not finite: a model of broken weights.
io::Json Finite(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(nullptr); }

void PrintJson(const Assessment& assessment, const std::vector<ClassScore>& scores) {
  const train::Evaluation& e = assessment.evaluation;
  io::Json line = {{"top1", e.top1()},
                   {"top5", e.top5()},
                   {"images", e.images()},
                   {"unreadable", assessment.unreadable},
                   {"nll", Finite(e.nll())},
                   {"ece", e.calibration_error()},
                   {"classes", io::Json::array()},
                   {"calibration", io::Json::array()}};
  for (const ClassScore& score : scores) {
    io::Json entry = {{"name", score.name}, {"images", score.images}, {"right", score.right}};
    if (score.mistakes > 0) entry["mistake"] = {{"name", score.mistake}, {"images", score.mistakes}};
    line["classes"].push_back(std::move(entry));
  }
  for (const train::CalibrationBin& bin : e.bins()) {
    if (bin.images == 0) continue;
    const auto images = static_cast<double>(bin.images);
    line["calibration"].push_back({{"images", bin.images},
                                   {"confidence", bin.confidence / images},
                                   {"accuracy", static_cast<double>(bin.right) / images}});
  }
  PrintJsonLine(line);
}

void PrintText(const Assessment& assessment, const std::vector<ClassScore>& scores) {
  const train::Evaluation& e = assessment.evaluation;
  Print("{}\n\n", assessment.data);
  Print("top-1 accuracy     {:7.2f} %\n", 100 * e.top1());
  Print("top-5 accuracy     {:7.2f} %\n", 100 * e.top5());
  Print("calibration error  {:7.2f} %   (mean gap between confidence and accuracy, {} bins)\n",
        100 * e.calibration_error(), train::kCalibrationBins);
  Print("NLL                {:7.4f}     (mean −log of the true class's probability)\n\n", e.nll());
  report::Table table{
      .columns = {{"class", report::Align::kLeft}, {"images"}, {"accuracy"}, {"taken for", report::Align::kLeft}}};
  for (const ClassScore& score : scores) {
    table.rows.push_back(
        {score.name, report::WithCommas(score.images),
         score.images > 0
             ? fmt::format("{:.2f} %", 100 * static_cast<double>(score.right) / static_cast<double>(score.images))
             : "–",
         score.mistakes > 0 ? fmt::format("{} ({})", score.mistake, report::WithCommas(score.mistakes)) : ""});
  }
  PrintRaw(report::ToText(table));
}

void WriteConfusion(const std::string& file, const Assessment& assessment) {
  if (fs::path(file).extension() == ".png") {
    image::WritePng(file, ConfusionPicture(assessment));
  } else {
    WriteFile(file, ConfusionSvg(assessment));
  }
}

int Evaluate(const Options& options) {
  const bool has_model = !options.model.path.empty();
  if (train::IsSequenceData(options.data) || (has_model && model::IsSequenceModel(options.model.path))) {
    Require(has_model, "evaluate: {} wants a model of sequences, -m RUN", options.data);
    Require(options.output.empty() && options.report.empty(),
            "evaluate: of sequences there is no confusion matrix and no page");
    return EvaluateSequences(options.model, options.data, options.split, options.json);
  }
  const fs::path ending = fs::path(options.output).extension();
  Require(options.output.empty() || ending == ".png" || ending == ".svg",
          "evaluate: the confusion matrix is a .svg or a .png, got {}", options.output);
  const model::Model model = LoadModel(options.model);
  const Assessment assessment = Assess(options, model);
  const std::vector<ClassScore> scores = ScoresOf(assessment, model.labels());
  if (options.json) {
    PrintJson(assessment, scores);
  } else {
    PrintText(assessment, scores);
  }
  FlushOutput();
  if (!options.output.empty()) WriteConfusion(options.output, assessment);
  if (!options.report.empty()) WriteFile(options.report, Html(assessment, scores));
  return assessment.unreadable > 0 ? 1 : 0;
}

}  // namespace

std::string Assessment::NameOf(int64_t label, const std::vector<std::string>& model_labels) const {
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == label) return names[i];
  }
  return label < std::ssize(model_labels) ? model_labels[static_cast<size_t>(label)] : fmt::format("class {}", label);
}

std::vector<ClassScore> ScoresOf(const Assessment& assessment, const std::vector<std::string>& model_labels) {
  std::vector<ClassScore> scores;
  for (size_t i = 0; i < assessment.names.size(); ++i) {
    const int64_t label = assessment.labels[i], mistake = assessment.evaluation.most_frequent_mistake(label);
    ClassScore& score = scores.emplace_back(ClassScore{.name = assessment.names[i],
                                                       .images = assessment.evaluation.images_of(label),
                                                       .right = assessment.evaluation.confusion(label, label)});
    if (mistake < 0) continue;
    score.mistake = assessment.NameOf(mistake, model_labels);
    score.mistakes = assessment.evaluation.confusion(label, mistake);
  }
  return scores;
}

void RegisterEvaluate(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command =
      app.AddCommand("evaluate", "Say how often a model is right on labelled images, a task or a text");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command
      .AddOption("DATA", &options->data,
                 "Image folder (CLASS/…, or train/CLASS/… with val/ or test/), CIFAR's binary or MNIST's IDX files, "
                 "or a CSV of paths and labels; for a model of sequences task:NAME or a text file")
      .Required();
  command.AddOption("--split", &options->split, "Which part of the data (default: test, else val, else all)")
      .OneOf({"train", "val", "test", "all"});
  command.AddOption("-o,--output", &options->output, "Write the confusion matrix, .svg or .png").TypeName("FILE");
  command.AddOption("--report", &options->report, "Write a page: tables, confusion matrix, calibration")
      .TypeName("FILE");
  command.AddFlag("--json", &options->json, "One JSON object on stdout");
  options->images.AddHow(command);
  options->images.AddBatch(command);
  command.Callback([options, exit_code] { *exit_code = Evaluate(*options); });
}

}  // namespace qkv::cli
