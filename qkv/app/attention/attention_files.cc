#include "qkv/app/attention/attention_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "qkv/app/attention/attend_page.h"
#include "qkv/app/attention/overlay.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"

namespace qkv::app {
namespace {

// Pixels: the width of a sheet, about, and the bounds of its cells.
constexpr int64_t kSheetWidth = 1600, kLeastCell = 72, kGreatestCell = 320;

void WriteSafeTensors(const AttentionMaps& maps, const std::filesystem::path& file) {
  const View<const float> weights = maps.weights;
  const int64_t L = weights.dim(0), H = weights.dim(1), Q = weights.dim(2), P = maps.prefix();
  Tensor<float> patches({L, H, Q, maps.grid.height, maps.grid.width}), prefix({L, H, Q, P});
  for (int64_t row = 0; row < L * H * Q; ++row) {
    const float* from = weights.data() + row * weights.dim(3);
    std::copy_n(from, P, prefix.data() + row * P);
    std::copy_n(from + P, maps.grid.patches(), patches.data() + row * maps.grid.patches());
  }
  std::vector<io::StoredTensor> tensors = {io::Stored<float>("weights", weights), io::Stored<float>("maps", patches)};
  if (P > 0) tensors.push_back(io::Stored<float>("prefix", prefix));
  const auto json = [](const io::Json& value) {
    return value.dump(-1, ' ', false, io::Json::error_handler_t::replace);
  };
  const io::Json facts = Facts(maps);
  std::map<std::string, std::string> metadata = {{"path", maps.path},
                                                 {"query", inspect::Describe(maps.query, maps.grid)},
                                                 {"layers", json(facts.at("layers"))},
                                                 {"heads", json(facts.at("heads"))},
                                                 {"prefix", json(facts.at("prefix"))},
                                                 {"grid", json(facts.at("grid"))},
                                                 {"photo", json(facts.at("photo"))},
                                                 {"patches", json(facts.at("where"))}};
  if (maps.discard) metadata["discard"] = fmt::format("{}", *maps.discard);
  io::WriteSafeTensors(file, tensors, metadata);
}

}  // namespace

image::Upsampling ParseUpsampling(std::string_view name, std::string_view option) {
  if (name == "nearest") return image::Upsampling::kNearest;
  if (name == "bilinear") return image::Upsampling::kBilinear;
  if (name == "bicubic") return image::Upsampling::kBicubic;
  Fail("{}: expected nearest, bilinear or bicubic, got \"{}\"", option, name);
}

image::Image Picture(const AttentionMaps& maps, const MapStyle& style) {
  const int64_t L = std::ssize(maps.layers), H = std::ssize(maps.heads);
  const bool sheet = L * H > 1;
  const int64_t side = sheet ? std::clamp(kSheetWidth / H, kLeastCell, kGreatestCell) : style.side;
  const Backdrop backdrop = FitBackdrop(maps.photo, maps.where, side);
  image::HeatStyle heat;
  heat.opacity = style.opacity, heat.upsampling = style.upsampling;
  // Of the weights of every query the picture shows one.
  const bool token = maps.query.kind == inspect::Query::Kind::kToken, every = maps.weights.dim(2) > 1;
  const inspect::Query shown = every && !token ? inspect::Query{} : maps.query;
  const int64_t row = every ? shown.token : 0;
  const int64_t patch = shown.kind == inspect::Query::Kind::kToken ? shown.token - maps.prefix() : -1;
  const bool framed = patch >= 0 && patch < maps.grid.patches();
  std::vector<image::Image> pictures;
  for (int64_t l = 0; l < L; ++l) {
    for (int64_t h = 0; h < H; ++h) {
      pictures.push_back(Overlay(backdrop, maps.Map(l, h, row), heat));
      if (framed) FramePatch(pictures.back(), backdrop.where, maps.grid.height, maps.grid.width, patch);
    }
  }
  if (!sheet) return std::move(pictures[0]);
  const std::string title = fmt::format("attention: {}", inspect::Describe(shown, maps.grid));
  return image::ContactSheet(pictures, maps.layers, maps.heads, title);
}

void WriteMaps(const AttentionMaps& maps, MapFormat format, const MapStyle& style, const std::filesystem::path& file) {
  switch (format) {
    case MapFormat::kPng:
      return image::WritePng(file, Picture(maps, style));
    case MapFormat::kNpy:
      return io::WriteNpy<float>(file, maps.weights);
    case MapFormat::kSafeTensors:
      return WriteSafeTensors(maps, file);
    case MapFormat::kHtml:
      return WriteFile(file, AttendPage(maps));
    case MapFormat::kJson:
      return WriteFile(file, JsonLine(ToJson(maps)) + "\n");
  }
}

}  // namespace qkv::app
