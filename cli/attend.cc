// qkv attend: where a model looks, as pictures, arrays or a page to explore.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>

#include "cli/attend_page.h"
#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/image_reader.h"
#include "qkv/app/input_files.h"
#include "qkv/app/overlay.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"
#include "qkv/inspect/rollout.h"
#include "qkv/io/json.h"
#include "qkv/io/npy.h"
#include "qkv/model/finite.h"
#include "qkv/report/text.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

// A page with more weights than these, a byte each, is slow to open on a phone.
constexpr int64_t kPageWeights = int64_t{24} << 20;
// Pixels: the longer side of the photo in a page; what a contact sheet is about as wide as, and its cells' bounds.
constexpr int64_t kPagePhoto = 640, kSheetWidth = 1600, kLeastCell = 72, kGreatestCell = 320;

struct Options {
  ModelOptions model;
  ImageOptions images;
  std::string output, layers, head, query;
  bool rollout = false;
  double discard = 0;
  int start = 0;
  std::string upsampling = "bicubic";
  double opacity = 0.6;
  int side = 768;
};

enum class Format { kPng, kNpy, kSafeTensors, kHtml };

Format FormatOf(const fs::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".png") return Format::kPng;
  if (ending == ".npy") return Format::kNpy;
  if (ending == ".safetensors") return Format::kSafeTensors;
  if (ending == ".html") return Format::kHtml;
  Fail("attend: -o ends in .png, .npy, .safetensors or .html, got {}", path.string());
}

// One file for each image: the one that is named; FOLDER/NAME.png in a folder; or what a {} in it makes of the image's
// name without its ending. No two are the same, and none is one of the images, which may not have been read yet.
std::vector<fs::path> OutputsFor(const std::string& output, const std::string& model,
                                 const std::vector<fs::path>& images) {
  const bool folder = output.ends_with('/') || fs::is_directory(output);
  const std::string pattern = folder ? (fs::path(output) / "{}.png").string() : output;
  const size_t hole = pattern.rfind("{}");
  Require(
      hole != std::string::npos || images.size() == 1,
      "attend: -o {} is one file, for {} images; name a folder, as in maps/, or put {{}} for an image's name, as in "
      "map-{{}}.png",
      output, images.size());
  std::vector<fs::path> outputs;
  std::map<fs::path, fs::path> made_of;
  app::InputFiles inputs(model);
  inputs.Add(images);
  for (const fs::path& image : images) {
    std::string path = pattern;
    if (hole != std::string::npos) path.replace(hole, 2, image == "-" ? "stdin" : image.stem().string());
    const auto [other, is_new] = made_of.emplace(path, image);
    Require(is_new, "attend: {} and {} would both become {}", other->second.string(), image.string(), path);
    outputs.emplace_back(path);
  }
  FormatOf(outputs.front());
  if (folder) fs::create_directories(output);
  for (const fs::path& file : outputs) inputs.RequireOutput(file);
  return outputs;
}

// What is asked for, the same for every image but for the query, whose patches depend on the image's size.
struct Plan {
  bool rollout = false;
  std::vector<int64_t> layers, heads;      // of a rollout: its last block; none
  std::optional<inspect::Fusion> fusion;   // of all heads
  std::vector<std::string> rows, columns;  // what these are called
  bool layers_given = false, head_given = false;
};

std::optional<inspect::Fusion> FusionOf(const std::string& name) {
  if (name == "mean") return inspect::Fusion::kMean;
  if (name == "max") return inspect::Fusion::kMax;
  if (name == "min") return inspect::Fusion::kMin;
  return std::nullopt;
}

Plan MakePlan(const Options& options, const model::VitConfig& c, Format format) {
  Plan plan;
  plan.rollout = options.rollout, plan.layers_given = !options.layers.empty(), plan.head_given = !options.head.empty();
  const bool page = format == Format::kHtml && !options.rollout;
  plan.layers = ParseList(plan.layers_given ? options.layers
                          : page            ? "all"
                                            : std::to_string(c.depth - 1),
                          0, c.depth - 1, "--layer");
  const std::string head = plan.head_given ? options.head : page ? "all" : "mean";
  plan.fusion = FusionOf(head);
  if (options.rollout) {
    Require(plan.fusion.has_value(), "--head: a rollout follows mean, max or min of the heads, got \"{}\"", head);
    Require(plan.layers.size() == 1, "--layer: a rollout ends in one block, got \"{}\"", options.layers);
    Require(options.start <= plan.layers[0], "--start: expected a block from 0 to {}, where the rollout ends, got {}",
            plan.layers[0], options.start);
    plan.rows = {fmt::format("rollout {}-{}", options.start, plan.layers[0])};
  } else {
    Require(options.discard == 0 && options.start == 0, "attend: --discard and --start belong to --rollout");
    if (!plan.fusion) plan.heads = ParseList(head, 0, c.block.attention.heads - 1, "--head");
    for (const int64_t layer : plan.layers) plan.rows.push_back(fmt::format("block {}", layer));
  }
  if (plan.fusion) plan.columns = {head};
  for (const int64_t h : plan.heads) plan.columns.push_back(fmt::format("head {}", h));
  return plan;
}

// A page must not grow without bound: what was not asked for by name is left out, and what is too much still is
// refused.
void FitPage(Plan& plan, const model::VitConfig& c, int64_t N) {
  const auto weights = [&] { return static_cast<int64_t>(plan.rows.size() * plan.columns.size()) * N * N; };
  bool reduced = false;
  if (weights() > kPageWeights && !plan.rollout && !plan.head_given) {
    plan.heads.clear(), plan.fusion = inspect::Fusion::kMean, plan.columns = {"mean"}, reduced = true;
  }
  if (weights() > kPageWeights && !plan.rollout && !plan.layers_given) {
    plan.layers = {c.depth - 1}, plan.rows = {fmt::format("block {}", c.depth - 1)}, reduced = true;
  }
  Require(weights() <= kPageWeights,
          "attend: a page of {} × {} × {} × {} weights (blocks, heads, queries, tokens) is more than {}; ask for {}a "
          "smaller --size, or write .png or .npy",
          plan.rows.size(), plan.columns.size(), N, N, report::WithCommas(kPageWeights),
          plan.rows.size() * plan.columns.size() > 1 ? "fewer by --layer or --head, for " : "");
  if (!reduced) return;
  PrintMessage("qkv: {} tokens: the page holds {} only; --layer and --head choose others\n", N,
               plan.rows.size() > 1 ? "the mean of the heads" : "the mean of the last block's heads");
}

// One image, decoded, and its attention.
struct Attended {
  std::string path;
  image::Image photo;
  inspect::TokenGrid grid;
  inspect::Query query;
  image::Rect where;      // the patches in the photo
  Tensor<float> weights;  // [L, H, Q, N]

  int64_t prefix() const { return static_cast<int64_t>(grid.prefix.size()); }
  // What row (l, h, q) gives to the patches: [height, width].
  View<const float> Map(int64_t l, int64_t h, int64_t q) const {
    return View<const float>(weights.view().at(l, h, q, prefix()), {grid.height, grid.width});
  }
};

// Where the patches lie in the photo: rows and columns that make no whole patch are not seen.
image::Rect PatchesIn(const model::Model& model, const inspect::TokenGrid& grid, const image::Image& photo,
                      const Shape& pixels) {
  const image::Rect seen = image::SeenOf(model.preprocess(), photo.height(), photo.width());
  const model::VitConfig& c = model.config();
  const auto part = [](int64_t patches, int64_t patch, int64_t all) {
    return static_cast<double>(patches * patch) / static_cast<double>(all);
  };
  return {seen.top, seen.left, seen.height * part(grid.height, c.patch_height, pixels[1]),
          seen.width * part(grid.width, c.patch_width, pixels[2])};
}

void DrawPng(const Options& options, const Plan& plan, const Attended& image, const fs::path& path) {
  const auto L = static_cast<int64_t>(plan.rows.size()), H = static_cast<int64_t>(plan.columns.size());
  const bool sheet = L * H > 1;
  const int64_t side = sheet ? std::clamp(kSheetWidth / H, kLeastCell, kGreatestCell) : options.side;
  const app::Backdrop backdrop = app::FitBackdrop(image.photo, image.where, side);
  image::HeatStyle style;
  style.opacity = options.opacity;
  style.upsampling = options.upsampling == "nearest"    ? image::Upsampling::kNearest
                     : options.upsampling == "bilinear" ? image::Upsampling::kBilinear
                                                        : image::Upsampling::kBicubic;
  std::vector<image::Image> pictures;
  for (int64_t l = 0; l < L; ++l) {
    for (int64_t h = 0; h < H; ++h) {
      pictures.push_back(app::Overlay(backdrop, image.Map(l, h, 0), style));
    }
  }
  if (!sheet) return image::WritePng(path, pictures[0]);
  const std::string title = fmt::format("attention: {}", inspect::Describe(image.query, image.grid));
  image::WritePng(path, image::ContactSheet(pictures, plan.rows, plan.columns, title));
}

void SaveSafeTensors(const Options& options, const Plan& plan, const Attended& image, const fs::path& path) {
  const View<const float> weights = image.weights;
  const int64_t L = weights.dim(0), H = weights.dim(1), Q = weights.dim(2), P = image.prefix();
  Tensor<float> maps({L, H, Q, image.grid.height, image.grid.width}), prefix({L, H, Q, P});
  for (int64_t row = 0; row < L * H * Q; ++row) {
    const float* from = weights.data() + row * weights.dim(3);
    std::copy_n(from, P, prefix.data() + row * P);
    std::copy_n(from + P, image.grid.patches(), maps.data() + row * image.grid.patches());
  }
  std::vector<io::StoredTensor> tensors = {io::Stored<float>("weights", weights), io::Stored<float>("maps", maps)};
  if (P > 0) tensors.push_back(io::Stored<float>("prefix", prefix));
  const auto json = [](const auto& value) {
    return io::Json(value).dump(-1, ' ', false, io::Json::error_handler_t::replace);
  };
  std::map<std::string, std::string> metadata = {
      {"path", image.path},
      {"query", inspect::Describe(image.query, image.grid)},
      {"layers", json(plan.rows)},
      {"heads", json(plan.columns)},
      {"prefix", json(image.grid.prefix)},
      {"grid", json(std::vector<int64_t>{image.grid.height, image.grid.width})},
      {"photo", json(std::vector<int64_t>{image.photo.height(), image.photo.width()})},
      // top, left, height and width of the patches in the photo's pixels
      {"patches", json(std::vector<double>{image.where.top, image.where.left, image.where.height, image.where.width})}};
  if (plan.rollout) metadata["discard"] = fmt::format("{}", options.discard);
  io::WriteSafeTensors(path, tensors, metadata);
}

void SavePage(const model::Model& model, const Plan& plan, const Attended& image, const fs::path& path) {
  const int64_t height = image.photo.height(), width = image.photo.width(), longer = std::max(height, width);
  image::Image photo = image::ToChannels(image.photo, 3);
  if (longer > kPagePhoto) {
    photo = image::Resize(photo, std::max<int64_t>(1, height * kPagePhoto / longer),
                          std::max<int64_t>(1, width * kPagePhoto / longer), image::Filter::kBicubic);
  }
  const image::Rect& where = image.where;
  const AttendPage page = {.title = image.path == "-" ? "stdin" : fs::path(image.path).filename().string(),
                           .model = model.config().architecture,
                           .photo_png = image::EncodePng(photo),
                           .photo_height = height,
                           .photo_width = width,
                           .where = where,
                           .grid = image.grid,
                           .query = image.query,
                           .layers = plan.rows,
                           .heads = plan.columns,
                           .weights = image.weights};
  WriteFile(path, Html(page));
}

// "23.4 % to the class token, 1.2 % to register 0"
std::string PrefixShares(const Attended& image) {
  std::string text;
  for (int64_t i = 0; i < image.prefix(); ++i) {
    text += fmt::format("{}{:.1f} % to {}", i > 0 ? ", " : "", 100 * *image.weights.view().at(0, 0, 0, i),
                        inspect::Describe({inspect::Query::Kind::kToken, i}, image.grid));
  }
  return text;
}

class Attend {
 public:
  Attend(const Options& options, const model::Model& model, Format format)
      : options_(options), model_(model), format_(format), plan_(MakePlan(options, model.config(), format)) {
    const int64_t channels = model.config().channels;
    Require(channels == 1 || channels == 3, "the model takes {} channels, images have 1 or 3", channels);
  }

  void Run(const fs::path& file, const fs::path& output) {
    Attended image;
    image.path = file.string();
    app::ReadImage(file, options_.images.Decode(), decoding_, image.photo);
    const Shape shape = model_.PixelsShape(image.photo);
    Tensor<float> pixels({1, shape[0], shape[1], shape[2]});
    model_.Pixels(image.photo, decoding_, pixels.view()[0]);
    image.grid = inspect::GridOf(model_.config(), shape[1], shape[2]);
    image.query = inspect::ParseQuery(options_.query, image.grid);
    image.where = PatchesIn(model_, image.grid, image.photo, shape);
    Plan plan = plan_;
    inspect::Query computed = image.query;
    if (format_ == Format::kHtml) {
      FitPage(plan, model_.config(), model_.TokensFor(shape[1], shape[2]));
      computed = {inspect::Query::Kind::kAll, 0};
    }
    Require(format_ != Format::kPng || computed.kind != inspect::Query::Kind::kAll,
            "attend: --query all makes {} maps; write them as .npy, .safetensors or .html", image.grid.tokens());
    image.weights = Weights(plan, computed, pixels);
    model::RequireFinite(model_.vit(), pixels, image.weights, image.path);
    Save(plan, image, output);
    const bool one = image.weights.size() == image.grid.tokens();
    PrintMessage("{}: {}x{} patches, {}{}{}\n", output.string(), image.grid.height, image.grid.width,
                 inspect::Describe(image.query, image.grid), one && image.prefix() > 0 ? ": " : "",
                 one ? PrefixShares(image) : "");
  }

 private:
  Tensor<float> Weights(const Plan& plan, const inspect::Query& query, View<const float> pixels) {
    if (!plan.rollout) {
      return inspect::AttentionMaps<float>(model_.vit(), pixels, {plan.layers, plan.heads, plan.fusion, query},
                                           workspace_);
    }
    const Tensor<float> rows = inspect::AttentionRollout<float>(model_.vit(), pixels,
                                                                {.first_block = options_.start,
                                                                 .last_block = plan.layers[0],
                                                                 .fusion = *plan.fusion,
                                                                 .discard = options_.discard,
                                                                 .query = query},
                                                                workspace_);
    Tensor<float> weights({1, 1, rows.dim(0), rows.dim(1)});
    std::copy_n(rows.data(), rows.size(), weights.data());
    return weights;
  }

  void Save(const Plan& plan, const Attended& image, const fs::path& output) const {
    switch (format_) {
      case Format::kPng:
        return DrawPng(options_, plan, image, output);
      case Format::kNpy:
        return io::WriteNpy<float>(output, image.weights);
      case Format::kSafeTensors:
        return SaveSafeTensors(options_, plan, image, output);
      case Format::kHtml:
        return SavePage(model_, plan, image, output);
    }
  }

  const Options& options_;
  const model::Model& model_;
  const Format format_;
  const Plan plan_;
  image::Workspace decoding_;
  model::Workspace<float> workspace_;
};

int RunAttend(const Options& options) {
  const ImageList images = CollectImages(options.images.paths);
  const std::vector<fs::path> outputs = OutputsFor(options.output, options.model.path, images.files);
  const model::Model model = LoadModel(options.model);
  Attend attend(options, model, FormatOf(outputs.front()));
  Progress progress(static_cast<int64_t>(images.files.size()), "images", options.images.quiet);
  int failed = 0;
  for (size_t i = 0; i < images.files.size(); ++i) {
    try {
      progress.Clear();
      attend.Run(images.files[i], outputs[i]);
    } catch (const Error& error) {
      if (images.files.size() == 1) throw;
      const std::string path = images.files[i].string(), what = error.what();
      PrintMessage("qkv: {}{}\n", what.find(path) == std::string::npos ? path + ": " : "", what);
      ++failed;
    }
    progress.Advance(1);
  }
  progress.Clear();
  if (failed > 0) PrintMessage("qkv: {} of {} images failed\n", failed, images.files.size());
  return failed + images.failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterAttend(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command = app.AddCommand("attend", "Show where a model looks: attention maps and rollout");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddReading(command);
  command
      .AddOption("-o,--output", &options->output,
                 ".png (overlay, or a sheet of several), .npy [layers, heads, queries, tokens], .safetensors or .html; "
                 "for several images a folder, or a name with {} for the image's")
      .TypeName("FILE")
      .Required();
  command.AddOption("--layer", &options->layers, "Blocks from 0: 11 or 0,5,11 or all (default: the last; .html: all)")
      .TypeName("LIST");
  command.AddOption("--head", &options->head,
                    "Heads from 0: 3 or 0,3 or all; or mean, max or min of them (default: mean; .html: all)");
  command.AddOption("--query", &options->query,
                    "Who looks: cls, dist, regI, ROW,COL (a patch from 0,0), mean of the patches, or all (default: "
                    "cls, or mean where there is none)");
  command.AddFlag("--rollout", &options->rollout, "Follow the attention through all blocks (Abnar and Zuidema 2020)");
  command.AddOption("--discard", &options->discard, "Rollout: fraction of each block's weights, the lowest, to drop")
      .Range(0.0, 0.999999)
      .TypeName("R");
  command.AddOption("--start", &options->start, "Rollout: the first block; the last is --layer")
      .NonNegative()
      .TypeName("L");
  command.AddOption("--upsampling", &options->upsampling, "How patches become pixels")
      .OneOf({"nearest", "bilinear", "bicubic"})
      .ShowDefault();
  command.AddOption("--opacity", &options->opacity, "Of the colours over the photo").Range(0.0, 1.0).ShowDefault();
  command.AddOption("--side", &options->side, "Longer side of the picture in pixels")
      .Range(16, 8192)
      .TypeName("N")
      .ShowDefault();
  command.Callback([options, exit_code] { *exit_code = RunAttend(*options); });
}

}  // namespace qkv::cli
