// qkv evaluate: accuracy on labelled images, a task or a text, where the model errs, and whether its probabilities
// hold; how well a detector finds annotated objects; how well an encoder-decoder translates.
#include <fmt/format.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/rows_file.h"
#include "qkv/app/detection/detection_evaluation.h"
#include "qkv/app/evaluation/evaluation.h"
#include "qkv/app/evaluation/pair_evaluation.h"
#include "qkv/app/texts/cross_rule.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"
#include "qkv/train/sequences/pairs.h"
#include "qkv/train/sequences/sequences.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

// Mistakes on a page: rows of five or six beside each other.
constexpr int64_t kWorstMistakes = 30;

struct EvaluateOptions {
  ModelOptions model;
  ImageOptions images;
  std::string data, split, output, report, predictions;
  std::optional<nn::CrossWeights> cross;
  int64_t beams = 4, lines = 0;
  bool stem = false;
  bool json = false;
};

void PrintText(const app::ImageEvaluation& evaluation) {
  const train::Evaluation& e = evaluation.evaluation;
  Print("{}\n\n", evaluation.data);
  Print("top-1 accuracy     {:7.2f} %\n", 100 * e.top1());
  if (e.has_top5()) Print("top-5 accuracy     {:7.2f} %\n", 100 * e.top5());
  Print("calibration error  {:7.2f} %   (mean gap between confidence and accuracy, {} bins)\n",
        100 * e.calibration_error(), train::kCalibrationBins);
  Print("NLL                {:7.4f}     (mean −log of the true class's probability)\n\n", e.nll());
  report::Table table{
      .columns = {{"class", report::Align::kLeft}, {"images"}, {"accuracy"}, {"taken for", report::Align::kLeft}}};
  for (const app::ClassScore& score : evaluation.classes) {
    table.rows.push_back(
        {score.name, report::WithCommas(score.images),
         score.images > 0
             ? fmt::format("{:.2f} %", 100 * static_cast<double>(score.right) / static_cast<double>(score.images))
             : "–",
         score.mistakes > 0 ? fmt::format("{} ({})", score.mistake, report::WithCommas(score.mistakes)) : ""});
  }
  PrintRaw(report::ToText(table));
}

void WriteConfusion(const std::string& file, const app::ImageEvaluation& evaluation) {
  if (fs::path(file).extension() == ".png") {
    image::WritePng(file, ConfusionPicture(evaluation));
  } else {
    WriteFile(file, ConfusionSvg(evaluation));
  }
}

void PrintText(const app::SequenceEvaluation& evaluation, const std::string& model) {
  const train::SequenceScore& score = evaluation.score;
  Print("{} on {}\n\n", model, evaluation.data);
  Print("{:.2f} % of {} {} right\n", 100 * score.top1(), report::WithCommas(score.tokens.rows),
        evaluation.text ? "bytes" : "answers");
  if (!evaluation.text) Print("{:.2f} % of the sequences right from end to end\n", 100 * score.whole_sequences());
  Print("loss {:.4f}, perplexity {:.3f}", score.loss(), score.perplexity());
  if (evaluation.text) Print(", {:.3f} bits a byte", score.loss() / std::numbers::ln2);
  Print("\n");
}

int EvaluateSequences(const EvaluateOptions& options, const app::AnyModel& model) {
  Require(options.output.empty() && options.report.empty() && options.predictions.empty(),
          "evaluate: sequences have no confusion matrix, no page and no --predictions");
  const app::SequenceEvaluation evaluation = app::EvaluateSequences(model, options.data, options.split);
  if (options.json) {
    PrintJsonLine(ToJson(evaluation));
  } else {
    PrintText(evaluation, options.model.path);
  }
  FlushOutput();
  return 0;
}

void PrintText(const app::PairEvaluation& e, const std::string& model) {
  const std::string cross = app::DescribeCrossWeights(e.cross);
  Print("{} on {}, {}{}{}\n\n", model, e.data, e.beams == 1 ? "greedy" : fmt::format("{} beams", e.beams),
        cross.empty() ? "" : "; ", cross);
  Print("BLEU     {:6.2f}   ({}; brevity penalty {:.3f})\n", e.bleu.score,
        fmt::format("{:.1f}/{:.1f}/{:.1f}/{:.1f}", e.bleu.precisions[0], e.bleu.precisions[1], e.bleu.precisions[2],
                    e.bleu.precisions[3]),
        e.bleu.brevity);
  Print("chrF2    {:6.2f}\n", e.chrf);
  const char* const stems = e.stem ? "   (stems)" : "";
  Print("ROUGE-1  {:6.2f}{}\n", 100 * e.rouge.rouge1, stems);
  Print("ROUGE-2  {:6.2f}{}\n", 100 * e.rouge.rouge2, stems);
  Print("ROUGE-L  {:6.2f}{}\n\n", 100 * e.rouge.rouge_l, stems);
  Print("{:.2f} % of {} tokens right, loss {:.4f}, perplexity {:.3f}\n", 100 * e.score.top1(),
        report::WithCommas(e.score.tokens.rows), e.score.loss(), e.score.perplexity());
  if (e.left_out > 0) {
    Print("{} of the pairs are left out: they have more than the model's {} tokens on a side\n",
          report::WithCommas(e.left_out), e.length);
  }
}

int EvaluatePairs(const EvaluateOptions& options, const app::AnyModel& model) {
  model.Require("evaluate", app::kRewriteText);
  options.images.RequireNone("evaluate");
  Require(options.report.empty() && options.predictions.empty(),
          "evaluate: pairs of texts have no page and no --predictions; give -o FILE or --json");
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(options.data);
  inputs.RequireOutput(options.output);
  std::optional<Progress> progress;
  int64_t shown = 0;
  const auto show = [&](int64_t done, int64_t total) {
    if (!progress) progress.emplace(total, "lines", options.images.quiet);
    progress->Advance(done - std::exchange(shown, done));
  };
  const app::PairEvaluation evaluation = app::EvaluatePairs(model, options.data,
                                                            {.split = options.split,
                                                             .beams = options.beams,
                                                             .stem = options.stem,
                                                             .cross = options.cross.value_or(nn::CrossWeights()),
                                                             .lines = options.lines,
                                                             .progress = show});
  progress.reset();
  if (options.json) {
    PrintJsonLine(ToJson(evaluation));
  } else {
    PrintText(evaluation, options.model.path);
  }
  FlushOutput();
  if (options.output.empty()) return 0;
  std::string text;
  for (const std::string& line : evaluation.translations) text.append(line).append(1, '\n');
  WriteFile(options.output, text);
  return 0;
}

void PrintText(const app::DetectionEvaluation& evaluation) {
  const app::CocoEvaluation& e = evaluation.evaluation;
  const app::CocoScores& s = e.scores;
  const auto share = [](double value) { return value < 0 ? std::string("–") : fmt::format("{:.2f} %", 100 * value); };
  Print("{}: {} photos, {} objects, {} classes\n\n", evaluation.data, report::WithCommas(e.images),
        report::WithCommas(e.annotations), e.categories.size());
  report::Table scores{.columns = {{"", report::Align::kLeft}, {"precision (AP)"}, {"recall (AR)"}}};
  scores.rows = {{"all, IoU 0.50 … 0.95", share(s.ap), share(s.ar100)},
                 {"IoU 0.50", share(s.ap50), ""},
                 {"IoU 0.75", share(s.ap75), ""},
                 {"small objects (up to 32² pixels)", share(s.ap_small), share(s.ar_small)},
                 {"medium objects", share(s.ap_medium), share(s.ar_medium)},
                 {"large objects (from 96² pixels)", share(s.ap_large), share(s.ar_large)},
                 {"1 box an image", "", share(s.ar1)},
                 {"10 boxes an image", "", share(s.ar10)}};
  PrintRaw(report::ToText(scores) + "\n");
  report::Table classes{.columns = {{"class", report::Align::kLeft}, {"objects"}, {"AP"}, {"AP at 0.50"}, {"AR"}}};
  for (const app::CocoCategoryScore& score : e.categories) {
    if (score.annotations == 0) continue;
    classes.rows.push_back({score.category.name, report::WithCommas(score.annotations), share(score.ap),
                            share(score.ap50), share(score.ar100)});
  }
  PrintRaw(report::ToText(classes));
  if (e.unused_annotations > 0) {
    Print("\n{} annotations are left out: the data lacks their image or category\n",
          report::WithCommas(e.unused_annotations));
  }
  if (e.unused_detections > 0) {
    Print("\n{} detections are left out: the data lacks their category\n", report::WithCommas(e.unused_detections));
  }
}

int EvaluateDetector(const EvaluateOptions& options, const app::AnyModel& opened) {
  Require(options.output.empty() || fs::path(options.output).extension() == ".json",
          "evaluate: for a detector -o is a .json of COCO's results, got {}", options.output);
  Require(options.report.empty() && options.predictions.empty(),
          "evaluate: a detector has no page and no --predictions; give --json or -o RESULTS.json");
  const app::AnnotatedPhotos data(options.data, options.split);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(data.annotations);
  inputs.Add(data.images.files);
  inputs.RequireOutput(options.output);
  const model::Model model = opened.BuildImages();
  std::optional<app::DetectionEvaluation> result;
  WithProgress(options.images, data.images, [&](const app::PipelineOptions& pipeline) {
    result = app::EvaluateDetector(model, data, pipeline);
    return result->unreadable;
  });
  if (options.json) {
    PrintJsonLine(ToJson(*result));
  } else {
    PrintText(*result);
  }
  FlushOutput();
  if (!options.output.empty()) app::WriteCocoDetections(options.output, result->detections);
  return result->unreadable > 0 ? 1 : 0;
}

void Add(const app::ImagePrediction& p, RowsFile& rows) {
  if (!rows.is_csv()) return rows.AddLine(ToJson(p));
  rows.AddCells({p.path, p.truth, p.guess, p.truth == p.guess ? "1" : "0", fmt::format("{}", p.confidence),
                 fmt::format("{}", p.true_probability)});
}

int EvaluateImages(const EvaluateOptions& options, const app::AnyModel& opened) {
  const model::Checkpoint& checkpoint = opened.images();
  const model::HeadKind heads = checkpoint.description.config.heads();
  if (heads == model::HeadKind::kBoxes) return EvaluateDetector(options, opened);
  Require(
      heads != model::HeadKind::kMasks,
      "evaluate: {} finds masks, for which there are no scores here; write COCO's results by qkv segment --coco, for "
      "pycocotools or panopticapi",
      checkpoint.source);
  Require(!checkpoint.description.text || checkpoint.description.config.classes > 0,
          "evaluate: {} compares images with texts and has no classifier; qkv classify --prompts \"a cat,a dog\" says "
          "what images show",
          checkpoint.source);
  const fs::path ending = fs::path(options.output).extension();
  Require(options.output.empty() || ending == ".png" || ending == ".svg",
          "evaluate: the confusion matrix is a .svg or a .png, got {}", options.output);
  const model::Model model = opened.BuildImages();
  const app::LabelledImages data(options.data, options.split);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(options.data);
  inputs.Add(data.images.files);
  for (const std::string& file : {options.output, options.report, options.predictions}) inputs.RequireOutput(file);
  std::optional<RowsFile> rows;
  if (!options.predictions.empty()) {
    rows.emplace(options.predictions, "evaluate: --predictions");
    rows->Header({"path", "truth", "guess", "right", "confidence", "true_probability"});
  }
  std::optional<app::ImageEvaluation> result;
  WithProgress(options.images, data.images, [&](const app::PipelineOptions& pipeline) {
    result = app::Evaluate(model, data,
                           {.model = options.model.path,
                            .pipeline = pipeline,
                            .worst = options.report.empty() ? 0 : kWorstMistakes,
                            .use = rows ? [&](const app::ImagePrediction& one) { Add(one, *rows); }
                                        : std::function<void(const app::ImagePrediction&)>()});
    return result->unreadable;
  });
  const app::ImageEvaluation& evaluation = *result;
  Require(evaluation.evaluation.images() > 0, "evaluate: no image of {} could be read", options.data);
  if (options.json) {
    PrintJsonLine(ToJson(evaluation));
  } else {
    PrintText(evaluation);
  }
  FlushOutput();
  if (rows) rows->Save();
  if (!options.output.empty()) WriteConfusion(options.output, evaluation);
  if (!options.report.empty()) WriteFile(options.report, app::EvaluationPage(evaluation));
  return evaluation.unreadable > 0 ? 1 : 0;
}

int Evaluate(const EvaluateOptions& options) {
  const std::string& path = options.model.path;
  const app::AnyModel model = OpenModel(options.model);
  if (model.facts().is_text()) {
    Require(fs::exists(options.data), "evaluate: {}: no such file", options.data);
    Require(train::IsPairs(options.data),
            "evaluate: {} is a text model, and {} is no .tsv whose first line has a source, a tab and a target", path,
            options.data);
    return EvaluatePairs(options, model);
  }
  Require(!path.empty() || !fs::is_regular_file(options.data) || !train::IsPairs(options.data),
          "evaluate: {} has pairs of texts; give the model that translates them by -m", options.data);
  const bool asks_for_pairs = options.cross || options.lines > 0;
  Require(!asks_for_pairs || train::IsPairs(options.data),
          "evaluate: --cross-weights and --lines are for pairs of texts, and {} is no .tsv whose first line has a "
          "source, a tab and a target",
          options.data);
  Require(!asks_for_pairs,
          "evaluate: --cross-weights and --lines are for an encoder-decoder, -m RUN; {} has no cross-attention "
          "to change",
          path.empty() ? "the built-in classifier" : path);
  if (model.kind() == model::ModelKind::kSequences) return EvaluateSequences(options, model);
  // A .json holds a detector's annotations.
  const bool text = train::IsSequenceData(options.data) && fs::path(options.data).extension() != ".json";
  Require(!text, "evaluate: {} needs a sequence model, -m RUN; {} is {}", options.data,
          path.empty() ? "the built-in classifier" : path, Describe(model.kind()));
  return EvaluateImages(options, model);
}

}  // namespace

void RegisterEvaluate(Command app, int* exit_code) {
  const auto options = std::make_shared<EvaluateOptions>();
  const Command command =
      app.AddCommand("evaluate", "Say how often a model is right on labelled images, a task, a text or pairs of texts");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command
      .AddOption("DATA", &options->data,
                 "Image folder (CLASS/…, or train/CLASS/… with val/ or test/), CIFAR's binary or MNIST's IDX files, "
                 "or a CSV of paths and labels; for a detector COCO's annotations, a .json or a folder with one; for a "
                 "sequence model task:NAME or a text file; for an encoder-decoder a .tsv with a source and a "
                 "target a line")
      .Required();
  command
      .AddOption("--split", &options->split, "Which part of the data (default: test, else val, else all; pairs: all)")
      .OneOf({"train", "val", "test", "all"});
  command
      .AddOption(
          "-o,--output", &options->output,
          "Write the confusion matrix, .svg or .png; for a detector COCO's results, .json; for pairs the translations, "
          "a line each")
      .TypeName("FILE");
  command
      .AddOption("--predictions", &options->predictions,
                 "For labelled images: write the answer to each image, .csv or .jsonl: path, truth, guess, right, "
                 "confidence, true_probability")
      .TypeName("FILE");
  command.AddOption("--report", &options->report, "Write a page: tables, confusion matrix, calibration")
      .TypeName("FILE");
  command.AddOption("--beams", &options->beams, "For pairs: beams of the search; 1: always the most probable token")
      .Range(1, 64)
      .TypeName("N")
      .ShowDefault();
  command.AddOption("--lines", &options->lines, "For pairs: only the first N lines")
      .Range(int64_t{1}, int64_t{1} << 40)
      .TypeName("N");
  command
      .AddOption(
          "--cross-weights",
          [options](const std::string& text) { options->cross = app::ParseCrossWeights(text, "--cross-weights"); },
          "For pairs: what replaces cross-attention's softmax: softmax=T (temperature T), hard (all on the "
          "greatest score), uniform, gaussian=H[,SLOPE] (along the diagonal, H source tokens wide; without SLOPE by "
          "the file's lengths); :BLOCK.HEAD,… behind it: in these heads alone")
      .TypeName("RULE|hard|uniform");
  command.AddFlag("--stem", &options->stem, "For pairs: ROUGE compares words without their English endings");
  command.AddFlag("--json", &options->json, "One JSON object on stdout");
  options->images.AddHow(command);
  options->images.AddBatch(command);
  command.Footer(
      "Examples:\n"
      "  qkv evaluate -m vit-base val/ --report page.html      a folder of images for each class\n"
      "  qkv evaluate -m yolos-small coco/                     COCO's precision and recall of a detector\n"
      "  qkv evaluate -m run pairs.tsv --lines 500             BLEU, chrF2 and ROUGE of a translator");
  command.Callback([options, exit_code] { *exit_code = Evaluate(*options); });
}

}  // namespace qkv::cli
