// qkv run: writes all intermediate results for tensors or images.
#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/capture/capture.h"
#include "qkv/app/capture/text_capture.h"
#include "qkv/app/capture/towers.h"
#include "qkv/io/json.h"
#include "qkv/model/blocks/finite.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

// Images of --input computed together.
constexpr int64_t kPixelsBatch = 8;

struct RunOptions {
  ModelOptions model;
  ImageOptions images;
  std::string input, output, attention, hidden;
};

struct Result {
  std::vector<std::string> paths;
  Tensor<float> pixels;
  app::Captured captured;
};

Result RunPixels(const RunOptions& options, const model::Model& model, const app::CaptureRequest& request,
                 const io::SafeTensors& file) {
  Result result;
  result.pixels = app::ReadPixels(file, options.input, model.config());
  const View<const float> pixels = result.pixels;
  result.captured = app::Allocate(model, request, pixels.dim(0), pixels.dim(2), pixels.dim(3));
  model::Workspace<float> workspace;
  const int64_t batch = options.images.batch > 0 ? options.images.batch : kPixelsBatch;
  for (int64_t first = 0; first < pixels.dim(0); first += batch) {
    const int64_t end = std::min(pixels.dim(0), first + batch);
    app::CaptureBatch(model, pixels.slice(0, first, end), request, first, workspace, result.captured);
  }
  return result;
}

app::CaptureRequest ParseRequest(const RunOptions& options, const model::VitConfig& config) {
  return {ParseList(options.hidden, 0, config.depth, "--hidden"),
          ParseList(options.attention, 0, config.depth - 1, "--attention")};
}

// Runs a model that writes about images on pixels and ids in a file.
Result RunCaptions(const RunOptions& options, const app::AnyModel& opened) {
  const model::Checkpoint& checkpoint = opened.images();
  Require(
      !options.input.empty(),
      "run: {} has a decoder, whose ids have to be given: \"pixels\" and \"decoder_input_ids\" by --input FILE; qkv "
      "caption writes texts about images",
      checkpoint.source);
  Require(options.hidden.empty(), "run: --hidden is for image models without a decoder");
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(options.input);
  inputs.RequireOutput(options.output);
  const auto file = io::SafeTensors::Open(options.input);
  const model::CaptionModel model = opened.BuildCaptions();
  const int64_t last = app::CaptionDepth(checkpoint.description) - 1;
  Result result;
  result.captured =
      app::CaptureCaptions(model, file, options.input, ParseList(options.attention, 0, last, "--attention"));
  return result;
}

Result RunFile(const RunOptions& options, const app::AnyModel& opened) {
  const model::Checkpoint& checkpoint = opened.images();
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(options.input);
  inputs.RequireOutput(options.output);
  const auto file = io::SafeTensors::Open(options.input);
  const bool has_texts = file.Find("input_ids") != nullptr;
  Result result;
  if (!has_texts || file.Find("pixels") != nullptr) {
    const model::Model model = opened.BuildImages();
    result = RunPixels(options, model, ParseRequest(options, checkpoint.description.config), file);
  }
  app::AddEmbeddings(checkpoint, options.model.build, &file, options.input, &result.captured);
  return result;
}

// Runs a text model on ids in a file.
Result RunTexts(const RunOptions& options, const app::AnyModel& opened) {
  Require(!options.input.empty(), "run: {} is a text model; give ids by --input FILE, see qkv tokenize",
          options.model.path);
  Require(options.hidden.empty(), "run: --hidden is for images");
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(options.input);
  inputs.RequireOutput(options.output);
  const model::TextModel model = opened.BuildTexts();
  const int64_t last = app::TextDepth(model.description()) - 1;
  Result result;
  result.captured = app::CaptureText(model, io::SafeTensors::Open(options.input), options.input,
                                     ParseList(options.attention, 0, last, "--attention"));
  return result;
}

// The first `count` entries: unreadable files leave no gap.
Tensor<float> Shrink(Tensor<float> tensor, int64_t count) {
  if (tensor.dim(0) == count) return tensor;
  std::vector<int64_t> extents(tensor.shape().extents().begin(), tensor.shape().extents().end());
  extents[0] = count;
  auto shrunk = Tensor<float>::Uninitialised(Shape(extents));
  std::copy_n(tensor.data(), shrunk.size(), shrunk.data());
  return shrunk;
}

Result RunImages(const RunOptions& options, const app::AnyModel& opened, int* failed) {
  const model::Checkpoint& checkpoint = opened.images();
  const model::Model model = opened.BuildImages();
  const app::CaptureRequest request = ParseRequest(options, checkpoint.description.config);
  const ImageList images = CollectImages(options.images.paths);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(images.files);
  inputs.RequireOutput(options.output);
  const auto total = static_cast<int64_t>(images.files.size());
  Result result;
  model::Workspace<float> workspace;
  *failed = ForEachBatch(options.images, images, model, Wanted::kPixels, [&](const Batch& batch) {
    const View<const float> pixels = batch.values;
    const Shape all({total, pixels.dim(1), pixels.dim(2), pixels.dim(3)});
    if (result.pixels.empty()) {
      result.pixels = Tensor<float>(all);
      result.captured = app::Allocate(model, request, total, pixels.dim(2), pixels.dim(3));
    }
    Require(result.pixels.shape() == all, "run: images become tensors of different sizes, {} and {}; give --size",
            result.pixels.shape(), all);
    const auto first = static_cast<int64_t>(result.paths.size());
    std::copy_n(pixels.data(), pixels.size(), result.pixels.view().at(first));
    app::CaptureBatch(model, pixels, request, first, workspace, result.captured);
    result.paths.insert(result.paths.end(), batch.paths.begin(), batch.paths.end());
  });
  Require(!result.paths.empty(), "run: no image could be read, nothing was written");
  const auto count = static_cast<int64_t>(result.paths.size());
  result.pixels = Shrink(std::move(result.pixels), count);
  for (auto& [name, tensor] : result.captured) tensor = Shrink(std::move(tensor), count);
  app::AddEmbeddings(checkpoint, {}, nullptr, "", &result.captured);
  return result;
}

Result RunAny(const RunOptions& options, int* failed) {
  const app::AnyModel model = OpenModel(options.model);
  model.Require("run", app::kCaptureTensors);
  if (const std::string unread = model.UnreadHeads(); !unread.empty()) PrintNote(unread);
  if (model.facts().is_text()) return RunTexts(options, model);
  if (model.kind() == model::ModelKind::kCaptions) return RunCaptions(options, model);
  return options.input.empty() ? RunImages(options, model, failed) : RunFile(options, model);
}

int Run(const RunOptions& options) {
  // Other outputs that exist, such as /dev/null, lose nothing by being written.
  std::error_code ignored;
  const bool is_file = !fs::exists(options.output, ignored) || fs::is_regular_file(options.output, ignored);
  Require(!is_file || options.output.ends_with(".safetensors"), "run: -o ends in .safetensors, got {}", options.output);
  Require(options.input.empty() != options.images.paths.empty(), "run: give either --input FILE or images");
  Require(options.input.empty() || !options.model.size,
          "run: --size applies to image files; pixels of --input keep their size");
  int failed = 0;
  const Result result = RunAny(options, &failed);
  std::vector<io::StoredTensor> tensors;
  if (!result.pixels.empty()) tensors.push_back(io::Stored<float>("pixels", result.pixels));
  for (const auto& [name, tensor] : result.captured) tensors.push_back(io::Stored<float>(name, tensor));
  std::map<std::string, std::string> metadata;
  if (!result.paths.empty()) {
    metadata["paths"] = io::Json(result.paths).dump(-1, ' ', false, io::Json::error_handler_t::replace);
  }
  io::WriteSafeTensors(options.output, tensors, metadata);
  for (const io::StoredTensor& tensor : tensors) {
    const auto* values = reinterpret_cast<const float*>(tensor.bytes.data());
    if (model::AllFinite(values, tensor.shape.size())) continue;
    PrintMessage("qkv: warning: \"{}\" holds NaN or infinity\n", tensor.name);
  }
  for (const io::StoredTensor& tensor : tensors) {
    PrintMessage("{:<14} {}\n", tensor.name, tensor.shape);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterRun(Command app, int* exit_code) {
  const auto options = std::make_shared<RunOptions>();
  const Command command = app.AddCommand("run", "Write logits, tokens, hidden states and attention to a file");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command, /*required=*/false);
  command
      .AddOption("--input", &options->input,
                 "Take \"pixels\" [B, channels, H, W] from this safetensors file; for two towers also "
                 "\"input_ids\" and \"attention_mask\" [B, N], either or both; for a text model these, "
                 "\"token_type_ids\" and \"decoder_input_ids\" [B, T]; for one that writes about images \"pixels\" and "
                 "\"decoder_input_ids\"")
      .TypeName("FILE");
  command.AddOption("-o,--output", &options->output, "File to write, out.safetensors").Required().TypeName("FILE");
  command.AddOption("--attention", &options->attention, "Blocks whose attention is kept, from 0: 0,11 or all")
      .TypeName("LIST|all");
  command
      .AddOption("--hidden", &options->hidden, "Hidden states to keep: 0 the embedded tokens, L after block L, or all")
      .TypeName("LIST|all");
  command.Footer(
      "Examples:\n"
      "  qkv run -m vit-base photo.jpg -o out.safetensors                     logits and tokens\n"
      "  qkv run -m vit-base photo.jpg -o out.safetensors --attention all --hidden 0,12\n"
      "  qkv run -m bert --input ids.safetensors -o out.safetensors           \"input_ids\" of a text");
  command.Callback([options, exit_code] {
    options->images.DigitsWithout(options->model, kEncoder);
    *exit_code = Run(*options);
  });
}

}  // namespace qkv::cli
