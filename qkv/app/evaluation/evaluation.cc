#include "qkv/app/evaluation/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>

#include "qkv/app/images/classes.h"
#include "qkv/app/images/image_reader.h"
#include "qkv/app/images/thumbnail.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// Pixels of the picture of a mistake.
constexpr int64_t kMistakeSide = 224;

// The images of a split as the pipeline takes them.
ImageList ListImages(const train::Split& split) {
  ImageList images{.files = split.files};
  if (!split.files.empty()) return images;
  images.read = [pixels = View<const uint8_t>(split.pixels)](size_t index, const image::DecodeOptions&,
                                                             image::Workspace&, image::Image& image) {
    const View<const uint8_t> one = pixels[static_cast<int64_t>(index)];
    image.pixels.Reuse(one.shape());
    std::copy_n(one.data(), one.size(), image.pixels.data());
  };
  for (int64_t i = 0; i < split.size(); ++i) images.files.emplace_back(split.SampleName(i));
  return images;
}

// The name of a class of the model: the data's, if it has one.
std::string ClassName(const ImageEvaluation& evaluation, int64_t label, const std::vector<std::string>& model_labels) {
  for (size_t i = 0; i < evaluation.labels.size(); ++i) {
    if (evaluation.labels[i] == label) return evaluation.names[i];
  }
  return label < std::ssize(model_labels) ? model_labels[static_cast<size_t>(label)] : fmt::format("class {}", label);
}

std::vector<ClassScore> ComputeClassScores(const ImageEvaluation& evaluation,
                                           const std::vector<std::string>& model_labels) {
  std::vector<ClassScore> scores;
  const std::vector<int64_t> guesses = evaluation.evaluation.guesses();
  for (size_t i = 0; i < evaluation.names.size(); ++i) {
    const int64_t label = evaluation.labels[i], mistake = evaluation.evaluation.most_frequent_mistake(label);
    ClassScore& score = scores.emplace_back(ClassScore{.name = evaluation.names[i],
                                                       .images = evaluation.evaluation.images_of(label),
                                                       .right = evaluation.evaluation.confusion(label, label)});
    score.guesses = guesses[static_cast<size_t>(label)];
    if (mistake < 0) continue;
    score.mistake = ClassName(evaluation, mistake, model_labels);
    score.mistakes = evaluation.evaluation.confusion(label, mistake);
  }
  return scores;
}

// Keeps the `most` wrong answers with the greatest probability.
class WorstMistakes {
 public:
  // What naming and reading it later needs.
  struct Candidate {
    size_t file = 0;
    int64_t truth = 0, guess = 0;
    float confidence = 0, true_probability = 0;
  };

  // logits: [classes] of one image.
  static Candidate Judge(size_t file, int64_t truth, std::span<const float> logits) {
    const int64_t guess = std::max_element(logits.begin(), logits.end()) - logits.begin();
    double sum = 0;
    const double greatest = logits[static_cast<size_t>(guess)];
    for (const float x : logits) sum += std::exp(x - greatest);
    const double true_share = std::exp(logits[static_cast<size_t>(truth)] - greatest) / sum;
    return {file, truth, guess, static_cast<float>(1 / sum), static_cast<float>(true_share)};
  }

  explicit WorstMistakes(int64_t most) : most_(static_cast<size_t>(most)) {}

  // logits: [classes] of one image.
  void Add(size_t file, int64_t truth, std::span<const float> logits) {
    if (most_ == 0) return;
    const Candidate candidate = Judge(file, truth, logits);
    if (candidate.guess == truth) return;
    kept_.push_back(candidate);
    if (kept_.size() >= 2 * most_ + kRoom) Shrink();
  }

  std::vector<Candidate> Take() {
    Shrink();
    return std::move(kept_);
  }

 private:
  static constexpr size_t kRoom = 64;  // so that few additions sort

  void Shrink() {
    std::ranges::sort(kept_, [](const Candidate& a, const Candidate& b) {
      return a.confidence > b.confidence || (a.confidence == b.confidence && a.file < b.file);
    });
    if (kept_.size() > most_) kept_.resize(most_);
  }

  size_t most_;
  std::vector<Candidate> kept_;
};

// A small picture of an image in memory.
image::Image StoredPicture(const ImageList& images, size_t index) {
  image::Workspace workspace;
  image::Image image;
  ReadImage(images, index, {}, workspace, image);
  return Thumbnail(image, kMistakeSide);
}

std::vector<Mistake> DescribeMistakes(const std::vector<WorstMistakes::Candidate>& worst, const LabelledImages& data,
                                      const ImageEvaluation& evaluation, const model::Model& model,
                                      const image::DecodeOptions& decode) {
  std::vector<std::filesystem::path> files;
  for (const WorstMistakes::Candidate& one : worst) files.push_back(data.images.files[one.file]);
  const auto stored = static_cast<bool>(data.images.read);
  std::vector<image::Image> pictures(worst.size());
  if (!stored) pictures = ReadThumbnails(files, decode, kMistakeSide);
  std::vector<Mistake> mistakes;
  for (size_t i = 0; i < worst.size(); ++i) {
    const WorstMistakes::Candidate& one = worst[i];
    mistakes.push_back({.path = files[i].string(),
                        .truth = ClassName(evaluation, one.truth, model.labels()),
                        .guess = ClassName(evaluation, one.guess, model.labels()),
                        .confidence = one.confidence,
                        .true_probability = one.true_probability,
                        .picture = stored ? StoredPicture(data.images, one.file) : std::move(pictures[i])});
  }
  return mistakes;
}

void AddMeans(const std::vector<ClassScore>& classes, io::Json* json) {
  const auto mean = [&](double (ClassScore::*score)() const) {
    double sum = 0;
    for (const ClassScore& one : classes) sum += (one.*score)();
    return classes.empty() ? 0 : sum / static_cast<double>(classes.size());
  };
  (*json)["mean_precision"] = mean(&ClassScore::precision);
  (*json)["mean_recall"] = mean(&ClassScore::recall);
  (*json)["mean_f1"] = mean(&ClassScore::f1);
}

io::Json ConfusionRows(const ImageEvaluation& evaluation) {
  io::Json rows = io::Json::array();
  for (const int64_t truth : evaluation.labels) {
    io::Json& row = rows.emplace_back(io::Json::array());
    int64_t rest = evaluation.evaluation.images_of(truth);
    for (const int64_t guess : evaluation.labels) {
      const int64_t images = evaluation.evaluation.confusion(truth, guess);
      row.push_back(images);
      rest -= images;
    }
    row.push_back(rest);
  }
  return rows;
}

// null for what is not finite: a model of broken weights.
io::Json Finite(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(nullptr); }

}  // namespace

LabelledImages::LabelledImages(const std::string& data, const std::string& split_name)
    : dataset(train::OpenDataset(data)),
      split(train::ForEvaluation(dataset, split_name)),
      images(ListImages(split)),
      description(fmt::format("{} ({}): {} {} of {} classes, {}", data, dataset.format,
                              report::WithCommas(split.size()), split.size() == 1 ? "image" : "images",
                              dataset.classes.size(), split.name == "all" ? "not in splits" : "split " + split.name)) {}

ImageEvaluation Evaluate(const model::Model& model, const LabelledImages& data, const EvaluateOptions& options) {
  Require(model.config().classes > 0,
          "evaluate: the model has no classifier; qkv train -m trains one on top of it, qkv embed gives its vectors");
  ImageEvaluation evaluation{.model = options.model,
                             .data = data.description,
                             .evaluation = train::Evaluation(model.config().classes),
                             .names = data.dataset.classes};
  bool by_order = false;
  evaluation.labels = MatchClasses(evaluation.names, model, &by_order);
  if (by_order) {
    Notify(options.pipeline.note, "the model's classes have no names: taken to be the data's, in their order");
  }
  std::vector<int64_t> truth;
  WorstMistakes worst(options.worst);
  evaluation.unreadable = ForEachBatch(options.pipeline, data.images, model, Wanted::kLogits, [&](const Batch& batch) {
    truth.clear();
    for (const size_t i : batch.files) {
      truth.push_back(evaluation.labels[static_cast<size_t>(data.split.labels[i])]);
    }
    evaluation.evaluation.Add(batch.values, truth);
    for (size_t b = 0; b < truth.size(); ++b) {
      const View<const float> logits = batch.values[static_cast<int64_t>(b)];
      const std::span<const float> row(logits.data(), static_cast<size_t>(logits.size()));
      worst.Add(batch.files[b], truth[b], row);
      if (!options.use) continue;
      const auto judged = WorstMistakes::Judge(batch.files[b], truth[b], row);
      options.use({.path = batch.paths[b],
                   .truth = ClassName(evaluation, judged.truth, model.labels()),
                   .guess = ClassName(evaluation, judged.guess, model.labels()),
                   .confidence = judged.confidence,
                   .true_probability = judged.true_probability});
    }
  });
  evaluation.worst = DescribeMistakes(worst.Take(), data, evaluation, model, options.pipeline.decode);
  evaluation.classes = ComputeClassScores(evaluation, model.labels());
  return evaluation;
}

io::Json ToJson(const ImagePrediction& prediction) {
  return {{"path", prediction.path},
          {"truth", prediction.truth},
          {"guess", prediction.guess},
          {"right", prediction.truth == prediction.guess},
          {"confidence", prediction.confidence},
          {"true_probability", prediction.true_probability}};
}

io::Json ToJson(const ImageEvaluation& evaluation) {
  const train::Evaluation& e = evaluation.evaluation;
  io::Json json = {{"top1", e.top1()},
                   {"images", e.images()},
                   {"unreadable", evaluation.unreadable},
                   {"nll", Finite(e.nll())},
                   {"ece", e.calibration_error()},
                   {"classes", io::Json::array()},
                   {"calibration", io::Json::array()}};
  if (e.has_top5()) json["top5"] = e.top5();
  for (const ClassScore& score : evaluation.classes) {
    io::Json entry = {{"name", score.name},       {"images", score.images},
                      {"right", score.right},     {"precision", score.precision()},
                      {"recall", score.recall()}, {"f1", score.f1()}};
    if (score.mistakes > 0) entry["mistake"] = {{"name", score.mistake}, {"images", score.mistakes}};
    json["classes"].push_back(std::move(entry));
  }
  AddMeans(evaluation.classes, &json);
  constexpr size_t kMostClasses = 1000;
  if (evaluation.labels.size() <= kMostClasses) json["confusion"] = ConfusionRows(evaluation);
  for (const train::CalibrationBin& bin : e.bins()) {
    if (bin.images == 0) continue;
    const auto images = static_cast<double>(bin.images);
    json["calibration"].push_back({{"images", bin.images},
                                   {"confidence", bin.confidence / images},
                                   {"accuracy", static_cast<double>(bin.right) / images}});
  }
  return json;
}

}  // namespace qkv::app
