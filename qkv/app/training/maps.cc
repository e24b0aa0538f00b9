#include "qkv/app/training/maps.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

#include "qkv/app/attention/overlay.h"
#include "qkv/app/images/image_list.h"
#include "qkv/image/encode.h"
#include "qkv/inspect/maps.h"
#include "qkv/io/npy.h"
#include "qkv/train/data/loader.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostImages = 64, kMostEpochs = 16;
// Pixels: the approximate width of a sheet, and the bounds of its cells.
constexpr int64_t kSheetWidth = 1600, kLeastCell = 72, kGreatestCell = 160;
constexpr size_t kNameLetters = 16;

int64_t CellSide(int64_t columns) { return std::clamp(kSheetWidth / columns, kLeastCell, kGreatestCell); }

// The images of a split that `indices` names.
train::Split Part(const train::Split& split, const std::vector<int64_t>& indices) {
  train::Split part{.name = "maps"};
  for (const int64_t i : indices) {
    part.labels.push_back(split.labels[static_cast<size_t>(i)]);
    if (!split.files.empty()) part.files.push_back(split.files[static_cast<size_t>(i)]);
  }
  if (!split.files.empty()) return part;
  const Shape& shape = split.pixels.shape();
  part.pixels = Tensor<uint8_t>({std::ssize(indices), shape[1], shape[2], shape[3]});
  const int64_t bytes = shape[1] * shape[2] * shape[3];
  for (size_t i = 0; i < indices.size(); ++i) {
    std::copy_n(split.pixels.data() + indices[i] * bytes, bytes, part.pixels.data() + static_cast<int64_t>(i) * bytes);
  }
  return part;
}

// An image as the model sees it, which ignores rows and columns that make no whole patch.
Backdrop MakeBackdrop(const model::VitConfig& c, const image::Image& image, int64_t side) {
  const image::Rect where = {0, 0, static_cast<double>(c.grid_height() * c.patch_height),
                             static_cast<double>(c.grid_width() * c.patch_width)};
  return FitBackdrop(image, where, side);
}

}  // namespace

MapImages ChooseMapImages(const std::string& what, const train::TrainingData& data, uint64_t seed, const Note& note) {
  MapImages chosen;
  int64_t count = 0;
  const char* const end = what.data() + what.size();
  const auto [stop, error] = std::from_chars(what.data(), end, count);
  if (error == std::errc() && stop == end) {
    Require(count >= 1 && count <= kMostImages, "train: maps: expected 1 to {} images, or a path, got {}", kMostImages,
            what);
    std::vector<int64_t> indices(static_cast<size_t>(std::min(count, data.validation.size())));
    for (size_t i = 0; i < indices.size(); ++i) {
      indices[i] = train::ShuffledIndex(seed, data.validation.size(), static_cast<int64_t>(i));
    }
    chosen.images = Part(data.validation, indices);
    for (const int64_t label : chosen.images.labels) chosen.names.push_back(data.classes[static_cast<size_t>(label)]);
  } else {
    const ImageList list = CollectImages({what}, note);
    Require(std::ssize(list.files) <= kMostImages, "train: maps: {} holds {} images, expected {} at the most", what,
            list.files.size(), kMostImages);
    chosen.images = {.name = "maps", .labels = std::vector<int64_t>(list.files.size()), .files = list.files};
    for (const fs::path& file : list.files) chosen.names.push_back(file.stem().string());
  }
  for (std::string& name : chosen.names) name.resize(std::min(name.size(), kNameLetters));
  return chosen;
}

TrainMaps::TrainMaps(fs::path folder, MapImages images) : folder_(std::move(folder)), chosen_(std::move(images)) {}

fs::path TrainMaps::MapFile(int64_t epoch, const char* ending) const {
  return folder_ / fmt::format("epoch-{:04}.{}", epoch, ending);
}

void TrainMaps::Open(const train::EvaluatedModel& model) {
  std::error_code error;
  fs::create_directory(folder_, error);
  // A symbolic link would lead out of the run's folder.
  const fs::file_type type = fs::symlink_status(folder_, error).type();
  Require(type == fs::file_type::directory, "cannot write {}: it is no folder", folder_.string());
  const image::Preprocess& preprocess = model.description.preprocess;
  train::StoreOptions options;
  options.channels = preprocess.channels;
  options.prepare = preprocess;
  options.dark_background = model.description.dark_background;
  store_.emplace(chosen_.images, std::move(options));
  for (int64_t i = 0; i < store_->size(); ++i) {
    names_.push_back(chosen_.names[static_cast<size_t>(store_->source(i))]);
  }
}

void TrainMaps::Draw(const train::EvaluatedModel& model) {
  if (!store_) Open(model);
  const model::VitConfig& c = model.description.config;
  const inspect::TokenGrid grid = inspect::MakeTokenGrid(c, c.image_height, c.image_width);
  const inspect::Query query = inspect::ParseQuery("", grid);
  image::Preprocess normalise = model.description.preprocess;  // the remaining steps
  normalise.resize = image::Preprocess::Resize::kNone;
  normalise.crop = image::Preprocess::Crop::kNone;
  std::vector<int64_t> blocks(static_cast<size_t>(c.depth));
  std::iota(blocks.begin(), blocks.end(), int64_t{0});
  std::vector<std::string> columns = {"image"};
  for (const int64_t block : blocks) columns.push_back(fmt::format("block {}", block));

  const int64_t prefix = grid.tokens() - grid.patches();
  Tensor<float> maps({store_->size(), c.depth, grid.height, grid.width});
  Tensor<float> pixels({1, c.channels, c.image_height, c.image_width});
  image::Workspace decoding;
  model::Workspace<float> workspace;
  image::Image image;
  std::vector<image::Image> pictures;
  for (int64_t i = 0; i < store_->size(); ++i) {
    store_->Get(i, decoding, image);
    image::Apply(normalise, image, decoding, pixels.view()[0]);
    const Tensor<float> weights = inspect::AttentionMaps<float>(
        model.vit, pixels, {.blocks = blocks, .fusion = inspect::Fusion::kMean, .query = query}, workspace);
    const Backdrop backdrop = MakeBackdrop(c, image, CellSide(std::ssize(columns)));
    pictures.push_back({backdrop.photo.pixels.Clone()});
    for (const int64_t block : blocks) {
      std::copy_n(weights.view().at(block, 0, 0, prefix), grid.patches(), maps.view().at(i, block));
      pictures.push_back(Overlay(backdrop, maps.view()[i][block]));
    }
  }
  io::WriteNpy<float>(MapFile(model.epoch, "npy"), maps);
  const std::string title = fmt::format("epoch {}: attention of the {}", model.epoch, inspect::Describe(query, grid));
  image::WritePng(MapFile(model.epoch, "png"), image::ContactSheet(pictures, names_, columns, title));
  DrawEpochs(c, model.epoch);
}

// All epochs, or as many as fit at equal distances, with the first and the last.
void TrainMaps::DrawEpochs(const model::VitConfig& c, int64_t last) const {
  std::vector<int64_t> drawn;
  for (int64_t epoch = 1; epoch <= last; ++epoch) {
    std::error_code ignored;
    if (fs::exists(MapFile(epoch, "npy"), ignored)) drawn.push_back(epoch);
  }
  std::vector<int64_t> epochs;
  const int64_t shown = std::min(std::ssize(drawn), kMostEpochs);
  for (int64_t i = 0; i < shown; ++i) {
    const int64_t at = shown > 1 ? i * (std::ssize(drawn) - 1) / (shown - 1) : 0;
    epochs.push_back(drawn[static_cast<size_t>(at)]);
  }
  std::vector<std::string> columns = {"image"};
  std::vector<Tensor<float>> maps;
  for (const int64_t epoch : epochs) {
    columns.push_back(fmt::format("epoch {}", epoch));
    maps.push_back(io::ReadNpy<float>(MapFile(epoch, "npy")));
    Require(maps.back().shape() == Shape({store_->size(), c.depth, c.grid_height(), c.grid_width()}),
            "train: {} holds maps {} of other images", MapFile(epoch, "npy").string(), maps.back().shape());
  }
  image::Workspace decoding;
  image::Image image;
  std::vector<image::Image> pictures;
  for (int64_t i = 0; i < store_->size(); ++i) {
    store_->Get(i, decoding, image);
    const Backdrop backdrop = MakeBackdrop(c, image, CellSide(std::ssize(columns)));
    pictures.push_back({backdrop.photo.pixels.Clone()});
    for (const Tensor<float>& map : maps) pictures.push_back(Overlay(backdrop, map.view()[i][c.depth - 1]));
  }
  const std::string title = fmt::format("attention of block {} over the epochs", c.depth - 1);
  image::WritePng(folder_ / "epochs.png", image::ContactSheet(pictures, names_, columns, title));
}

}  // namespace qkv::app
