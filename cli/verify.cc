// qkv verify: compares the results with those of a reference file, tensor by tensor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/capture/capture.h"
#include "qkv/app/capture/text_capture.h"
#include "qkv/app/capture/towers.h"
#include "qkv/io/json.h"

namespace qkv::cli {
namespace {

struct VerifyOptions {
  ModelOptions model;
  std::string reference;
  std::optional<double> tolerance;
  bool json = false;
};

// The model's outputs for the reference's inputs.
struct Answers {
  app::Captured captured;
  std::string names;                                              // of the outputs, for messages
  std::function<void(const std::string&, Tensor<double>*)> hide;  // zeroes values that mean nothing; or empty
};

struct Comparison {
  std::string name;
  Shape shape;
  double difference = 0, allowed = 0, greatest = 0;
  std::string failure;  // why the numbers cannot be compared, or empty
  bool holds() const { return failure.empty() && difference <= allowed; }  // false for NaN
};

double MaxAbs(const Tensor<double>& x) {
  double greatest = 0;
  for (const double v : x.span()) greatest = std::max(greatest, std::abs(v));
  return greatest;
}

// NaN anywhere makes the difference NaN.
template <typename A>
double MaxDifference(const Tensor<A>& a, const Tensor<double>& b) {
  double greatest = 0;
  for (int64_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a[i]) - b[i]);
    if (std::isnan(difference)) return difference;
    greatest = std::max(greatest, difference);
  }
  return greatest;
}

constexpr double kDefaultTolerance = 1e-4;
constexpr const char* kPixels = "pixels";
constexpr std::string_view kExact = ".float64";

// "logits.float64" belongs to "logits".
std::string_view WithoutPrecision(std::string_view name) {
  return name.ends_with(kExact) ? name.substr(0, name.size() - kExact.size()) : name;
}

// The place of the first infinity or NaN, if there is one: compared with it, any difference would be "allowed", or
// none.
template <typename T>
std::string NotFinite(std::string_view whose, const Tensor<T>& values) {
  const auto at = std::ranges::find_if(values.span(), [](T v) { return !std::isfinite(v); });
  if (at == values.span().end()) return "";
  return FormatShown("{} holds {} (element {})", whose, *at, at - values.span().begin());
}

// Allows `tolerance` times the greatest entry if it is given. Otherwise, if the reference has both precisions of the
// original ("logits" and "logits.float64"), four times the original's own float error.
Comparison Compare(const std::string& name, const Tensor<float>& ours, const Answers& answers,
                   const io::SafeTensors& reference, std::optional<double> tolerance) {
  const io::StoredTensor* single = reference.Find(name);
  const io::StoredTensor* exact = reference.Find(name + std::string(kExact));
  Tensor<double> expected = io::Convert<double>(exact ? *exact : *single);
  Require(expected.shape() == ours.shape(), "verify: \"{}\" is {} in the reference, the model gives {}", name,
          expected.shape(), ours.shape());
  if (answers.hide) answers.hide(name, &expected);
  Comparison comparison{name, ours.shape()};
  comparison.failure = NotFinite("the reference", expected);
  comparison.difference = MaxDifference(ours, expected);
  comparison.greatest = MaxAbs(expected);
  comparison.allowed = tolerance.value_or(kDefaultTolerance) * comparison.greatest;
  if (exact && single && !tolerance) {
    Tensor<double> rounded = io::Convert<double>(*single);
    Require(rounded.shape() == expected.shape(), "verify: \"{}\" is {} in the reference, and {} in float64", name,
            rounded.shape(), expected.shape());
    if (answers.hide) answers.hide(name, &rounded);
    if (comparison.failure.empty()) comparison.failure = NotFinite("the reference", rounded);
    comparison.allowed = 4 * MaxDifference(rounded, expected) + 1e-6 * comparison.greatest;
  }
  if (comparison.failure.empty()) comparison.failure = NotFinite("the model's answer", ours);
  return comparison;
}

// Names in the reference that the model has no output for: a misspelt name is not compared and must not count as
// agreement.
std::vector<std::string> UnknownNames(const io::SafeTensors& reference, const app::Captured& captured) {
  std::vector<std::string> unknown;
  for (const io::StoredTensor& tensor : reference.tensors()) {
    const std::string name(WithoutPrecision(tensor.name));
    const bool known = tensor.name == kPixels || app::IsTokenInput(name) || name.starts_with("generated.");
    if (!known && !captured.contains(name)) unknown.push_back(tensor.name);
  }
  return unknown;
}

// The layers L for which the reference has "kind.L".
std::vector<int64_t> Layers(const io::SafeTensors& reference, const std::string& kind, int64_t last) {
  std::vector<int64_t> layers;
  for (int64_t layer = 0; layer <= last; ++layer) {
    const std::string name = fmt::format("{}.{}", kind, layer);
    if (reference.Find(name) || reference.Find(name + std::string(kExact))) layers.push_back(layer);
  }
  return layers;
}

// The blocks of which the reference has any part's weights.
std::vector<int64_t> LayersOfParts(const io::SafeTensors& reference, int64_t last) {
  std::vector<int64_t> layers = Layers(reference, "attention", last);
  for (const char* kind : {"encoder_attention", "cross_attention"}) {
    for (const int64_t layer : Layers(reference, kind, last)) {
      if (std::ranges::find(layers, layer) == layers.end()) layers.push_back(layer);
    }
  }
  return layers;
}

std::string NamesOf(const app::Captured& captured) {
  std::string names;
  for (const auto& [name, tensor] : captured) names += (names.empty() ? "" : ", ") + name;
  return names;
}

Answers AnswerCaptions(const VerifyOptions& options, const app::AnyModel& opened, const io::SafeTensors& reference) {
  const model::CaptionModel model = opened.BuildCaptions();
  const int64_t last = app::CaptionDepth(opened.images().description) - 1;
  Answers answers{.captured =
                      app::CaptureCaptions(model, reference, options.reference, LayersOfParts(reference, last))};
  answers.names = NamesOf(answers.captured);
  return answers;
}

Answers AnswerPixels(const VerifyOptions& options, const app::AnyModel& opened, const io::SafeTensors& reference) {
  const model::Model model = opened.BuildImages();
  const int64_t depth = model.config().depth;
  const Tensor<float> pixels = app::ReadPixels(reference, options.reference, model.config());
  const app::CaptureRequest request = {Layers(reference, "hidden", depth), Layers(reference, "attention", depth - 1)};
  Answers answers{
      .names = fmt::format("logits, tokens, hidden.0 to hidden.{} and attention.0 to attention.{}", depth, depth - 1)};
  answers.captured = app::Allocate(model, request, pixels.dim(0), pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  app::CaptureBatch(model, pixels, request, 0, workspace, answers.captured);
  app::AddEmbeddings(opened.images(), opened.entry().build, &reference, options.reference, &answers.captured);
  // A reference of an original, or of an earlier release, has a vector of the image as "logits".
  if (const auto pooled = answers.captured.find("pooled");
      pooled != answers.captured.end() && reference.Find("pooled") == nullptr) {
    answers.captured["logits"] = std::move(pooled->second);
    answers.captured.erase(pooled);
  }
  return answers;
}

Answers AnswerTexts(const VerifyOptions& options, const app::AnyModel& opened, const io::SafeTensors& reference) {
  const model::TextModel model = opened.BuildTexts();
  const model::TextDescription& description = model.description();
  const int64_t last = app::TextDepth(description) - 1;
  Answers answers{.captured = app::CaptureText(model, reference, options.reference, LayersOfParts(reference, last))};
  for (auto& [name, tensor] : answers.captured) {
    app::HidePadding(name, description, reference, options.reference, &tensor);
  }
  answers.names = NamesOf(answers.captured);
  answers.hide = [&reference, description, path = options.reference](const std::string& name, Tensor<double>* values) {
    app::HidePadding(name, description, reference, path, values);
  };
  return answers;
}

Answers AnswerAny(const VerifyOptions& options, const app::AnyModel& model, const io::SafeTensors& reference) {
  model.Require("verify", app::kCaptureTensors);
  if (model.facts().is_text()) return AnswerTexts(options, model, reference);
  if (model.kind() == model::ModelKind::kCaptions) return AnswerCaptions(options, model, reference);
  return AnswerPixels(options, model, reference);
}

int Verify(const VerifyOptions& options) {
  const auto reference = io::SafeTensors::Open(options.reference);
  const Answers answers = AnswerAny(options, OpenModel(options.model), reference);
  const app::Captured& captured = answers.captured;

  int compared = 0, failed = 0;
  if (!options.json)
    Print("{:<14} {:<20} {:>12} {:>12} {:>12}\n", "tensor", "shape", "max|diff|", "allowed", "max|ref|");
  for (const auto& [name, tensor] : captured) {
    if (!reference.Find(name) && !reference.Find(name + std::string(kExact))) continue;
    const Comparison c = Compare(name, tensor, answers, reference, options.tolerance);
    ++compared;
    failed += !c.holds();
    if (options.json) {
      PrintJsonLine(io::Json({{"tensor", name},
                              {"max_difference", c.difference},
                              {"allowed", c.allowed},
                              {"max_reference", c.greatest},
                              {"holds", c.holds()},
                              {"failure", c.failure}}));
    } else {
      Print("{:<14} {:<20} {:>12.3e} {:>12.3e} {:>12.3e}  {}\n", name, c.shape, c.difference, c.allowed, c.greatest,
            c.holds()           ? "ok"
            : c.failure.empty() ? "BEYOND"
                                : c.failure);
    }
  }
  Require(compared > 0, "verify: {} holds none of {}", options.reference, answers.names);
  const std::vector<std::string> unknown = UnknownNames(reference, captured);
  for (const std::string& name : unknown) {
    PrintMessage("qkv: the reference's \"{}\" is not compared: the model gives {}\n", name, answers.names);
  }
  PrintMessage("{} of {} tensors agree\n", compared - failed, compared + std::ssize(unknown));
  if (failed > 0 && options.model.build.precision != simd::Precision::kFloat32 && !options.tolerance) {
    PrintMessage(
        "qkv: the limits are those of fp32 arithmetic, {} rounds weights and activations: say how much may differ "
        "(--tolerance 0.05), or measure the drift of the answers on images (qkv bench -m MODEL photos/)\n",
        PrecisionName(options.model.build.precision));
  }
  return failed > 0 || !unknown.empty() ? 1 : 0;
}

}  // namespace

void RegisterVerify(Command app, int* exit_code) {
  const auto options = std::make_shared<VerifyOptions>();
  const Command command = app.AddCommand("verify", "Compare with a reference that the original library made");
  options->model.AddModel(command);
  options->model.AddCompute(command);
  command
      .AddOption("REFERENCE", &options->reference, "Safetensors file: pixels or input_ids, and what they should give")
      .Required();
  command
      .AddOption(
          "--tolerance", &options->tolerance,
          "Allowed difference, relative to the greatest entry (default: four times the original's own error where "
          "the reference has NAME.float64, else 1e-4)")
      .Range(0.0, 1.0)
      .TypeName("X");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  command.Callback([options, exit_code] { *exit_code = Verify(*options); });
}

}  // namespace qkv::cli
