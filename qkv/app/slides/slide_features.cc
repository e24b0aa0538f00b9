#include "qkv/app/slides/slide_features.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/checksum.h"
#include "qkv/core/file.h"
#include "qkv/io/safetensors.h"

namespace qkv::app {

namespace fs = std::filesystem;

namespace {

// The attribute of the features that says what made them.
constexpr const char* kMadeBy = "qkv";

// Of a slide's file: its size, and its beginning and end, where directories of tiles and descriptions are.
std::string FingerprintSlide(const fs::path& path) {
  constexpr size_t kHashedOfSlide = size_t{1} << 20;
  const MappedFile file(path);
  const auto bytes = file.bytes();
  const size_t part = std::min(kHashedOfSlide, bytes.size());
  return fmt::format("{}:{:016x}", bytes.size(),
                     CombineChecksums(Checksum(bytes.first(part)), Checksum(bytes.last(part))));
}

io::Json ToJson(const slide::Grid& grid) {
  return {{"tiles", fmt::format("{:016x}", Checksum(std::as_bytes(std::span(grid.coords))))},
          {"tile", grid.options.tile},
          {"level", grid.level},
          {"size_at_level", grid.size_at_level},
          {"size_at_level0", grid.size_at_level0},
          {"overlap_at_level0", grid.overlap_at_level0}};
}

// The vectors of a file if `what` made them; else nothing if they may be replaced, or throws Error.
std::optional<slide::FeatureFile> ReadMade(const fs::path& file, const io::Json& what, bool replace) {
  try {
    slide::FeatureFile there = slide::ReadFeatureFile(file);
    const auto made = there.feature_attributes.find(kMadeBy);
    const bool same = made != there.feature_attributes.end() && std::holds_alternative<std::string>(made->second) &&
                      std::get<std::string>(made->second) == JsonLine(what);
    Require(same,
            "slide: {} has vectors of another encoder, grid or slide; --overwrite replaces them, another --output "
            "keeps both",
            file.string());
    return there;
  } catch (const Error&) {
    if (replace) return std::nullopt;
    throw;
  }
}

}  // namespace

slide::Attributes CoordAttributes(const slide::Grid& grid, const slide::SlideFacts& facts, const std::string& name,
                                  const SlideFolder& folder) {
  slide::Attributes attributes = {{"patch_size", grid.options.tile},        {"patch_size_level0", grid.size_at_level0},
                                  {"overlap", grid.options.overlap},        {"name", name},
                                  {"savetodir", folder.root().string()},    {"level0_width", facts.levels[0].width},
                                  {"level0_height", facts.levels[0].height}};
  const double magnification = grid.level0_magnification;
  attributes["level0_magnification"] = static_cast<int64_t>(magnification);
  // TRIDENT's readers divide by it, whether or not the grid was asked for by microns.
  const double target =
      magnification * static_cast<double>(grid.options.tile) / static_cast<double>(grid.size_at_level0);
  attributes["target_magnification"] = static_cast<int64_t>(target + 0.5);
  return attributes;
}

// Where the encoder's files and the slide lie does not matter, what is in them does.
io::Json FeatureMaker::WhatMakes(const Embedder& embedder) const {
  io::Json encoder = app::ToJson(embedder.SourceOfImages());
  encoder.erase("model");
  return {{"encoder", encoder}, {"grid", ToJson(grid)}, {"slide", FingerprintSlide(path)}};
}

slide::FeatureFile FeatureMaker::Make(Embedder& embedder) {
  const fs::path file = folder.Features(options.encoder, name);
  const io::Json what = WhatMakes(embedder);
  if (FileExists(file)) {
    if (std::optional<slide::FeatureFile> there = ReadMade(file, what, options.overwrite)) {
      from_file = true;
      WriteOthers(*there, /*anew=*/false);
      return *std::move(there);
    }
  }
  SlideFolder::Prepare(file);
  fs::path journal_file = file;
  journal_file += ".part";
  slide::FeatureJournal journal(journal_file, what, std::ssize(grid.coords), events.note);
  Embed(embedder, journal);
  damaged = journal.damaged();
  slide::FeatureJournal::Rows rows = journal.Read();
  if (rows.tiles.empty()) rows.features = Tensor<float>({0, embedder.WidthOfImages()});
  slide::FeatureFile made{
      .features = std::move(rows.features),
      .feature_attributes = {{"name", name}, {"savetodir", file.parent_path().string()}, {kMadeBy, JsonLine(what)}},
      .coord_attributes = CoordAttributes(grid, slide.facts(), name, folder)};
  for (const size_t tile : rows.tiles) made.coords.push_back(grid.coords[tile]);
  WriteOthers(made, /*anew=*/true);
  // Last: it says that all are there.
  slide::WriteFeatureFile(file, made);
  journal.Remove();
  return made;
}

void FeatureMaker::Embed(Embedder& embedder, slide::FeatureJournal& journal) const {
  std::vector<size_t> missing;
  for (size_t tile = 0; tile < grid.coords.size(); ++tile) {
    if (!journal.Has(tile)) missing.push_back(tile);
  }
  if (missing.empty()) return;
  ImageList tiles;
  for (const size_t tile : missing) {
    tiles.files.emplace_back(
        fmt::format("{}, tile at {},{}", path.string(), grid.coords[tile][0], grid.coords[tile][1]));
  }
  tiles.read = [&](size_t index, const image::DecodeOptions&, image::Workspace&, image::Image& pixels) {
    ReadOne(missing[index], journal, pixels);
  };
  if (events.begin) events.begin(name, std::ssize(missing));
  embedder.Images(tiles, {.batch = options.batch, .note = events.note, .advance = events.advance},
                  /*unit_length=*/false, [&](std::span<const Embedding> embeddings) {
                    for (const Embedding& embedding : embeddings) {
                      Require(embedding.shape.rank() == 1,
                              "slide: --pool tokens gives several vectors of a tile; expected one");
                      journal.Add(missing[embedding.file], embedding.values);
                    }
                  });
  // What the pipeline has left out besides, it has named.
  for (const size_t tile : missing) {
    if (!journal.Has(tile)) {
      journal.AddDamaged(tile, FormatShown("{}, tile at {},{}: its vector holds NaN or infinity", path.string(),
                                           grid.coords[tile][0], grid.coords[tile][1]));
    }
  }
}

// A damaged tile is noted and left out. Any other error ends the slide, or its vectors would lack tiles that are good:
// the slide has changed, OpenSlide cannot be started, the disk is full.
void FeatureMaker::ReadOne(size_t tile, slide::FeatureJournal& journal, image::Image& pixels) const {
  try {
    try {
      slide::ReadTile(slide, grid, tile, pixels);
    } catch (const slide::DamagedRegion& error) {
      journal.AddDamaged(tile, error.what());
      throw;
    }
  } catch (const slide::DamagedRegion&) {
    throw;
  } catch (const Error& error) {
    throw WrongImages(error.what());
  }
}

void FeatureMaker::WriteOthers(const slide::FeatureFile& file, bool anew) const {
  const fs::path parent = folder.Features(options.encoder, name).parent_path();
  if (options.layout == FeatureLayout::kClam) {
    const fs::path h5 = parent / "h5_files" / (name + ".h5"), pt = parent / "pt_files" / (name + ".pt");
    if (!anew && FileExists(h5) && FileExists(pt)) return;
    SlideFolder::Prepare(h5);
    SlideFolder::Prepare(pt);
    slide::WriteFeatureFile(h5, file);
    slide::WriteTorchTensor(pt, file.features);
  } else if (options.layout == FeatureLayout::kSafeTensors) {
    const fs::path archive = parent / "safetensors" / (name + ".safetensors");
    if (!anew && FileExists(archive)) return;
    SlideFolder::Prepare(archive);
    Tensor<int64_t> coords({std::ssize(file.coords), 2});
    for (size_t i = 0; i < file.coords.size(); ++i) std::ranges::copy(file.coords[i], coords.data() + 2 * i);
    io::WriteSafeTensors(archive,
                         {io::Stored<float>("features", file.features), io::Stored<int64_t>("coords", coords)});
  }
}

}  // namespace qkv::app
