// DICOM whole-slide images by DCMTK: tiles in order (TILED_FULL) or at positions of their own (TILED_SPARSE), levels in
// several files of a folder. The first focal plane and optical path of several.
#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/image/dicom_file.h"
#include "qkv/image/dicom_grey.h"
#include "qkv/image/dicom_mark.h"
#include "qkv/slide/read/piece_cache.h"
#include "qkv/slide/read/readers.h"

namespace qkv::slide {
namespace {

namespace fs = std::filesystem;
using image::DicomFile;
using image::DicomStep;

constexpr DicomStep kImageType{0x0008, 0x0008, 0}, kSopClass{0x0008, 0x0016, 0}, kSeries{0x0020, 0x000E, 0},
    kConcatenationOffset{0x0020, 0x9228, 0}, kOrganization{0x0020, 0x9311, 0}, kMatrixColumns{0x0048, 0x0006, 0},
    kMatrixRows{0x0048, 0x0007, 0}, kVolumeWidth{0x0048, 0x0001, 0}, kVolumeHeight{0x0048, 0x0002, 0},
    kMeasures{0x0028, 0x9110, 0}, kSpacing{0x0028, 0x0030, 0};
constexpr std::string_view kSlideClass = "1.2.840.10008.5.1.4.1.1.77.1.6";
// Files of a folder that are looked at, and levels or pictures that are kept.
constexpr int kMaxFiles = 4096, kMaxParts = 256;
// Decoded tiles that are kept: regions of an encoder's grid cut most tiles of a file in two.
constexpr int64_t kCacheBytes = int64_t{64} << 20;

// A place or an offset among frames; nothing for what no slide has.
std::optional<int64_t> AsPlace(std::optional<double> number) {
  constexpr double kMostPlace = 1 << 30;
  if (!number || !(std::abs(*number) <= kMostPlace)) return {};
  return static_cast<int64_t>(*number);
}

// One file of a slide.
struct Part {
  explicit Part(const fs::path& path)
      : name(path.native()), mapped(path), file(mapped.bytes(), name), layout(image::ReadDicomLayout(file)) {
    width = Size(kMatrixColumns, layout.columns);
    height = Size(kMatrixRows, layout.rows);
    offset = AsPlace(file.Number(kConcatenationOffset)).value_or(0);
  }

  int64_t Size(DicomStep element, int64_t otherwise) const {
    constexpr double kMostPixels = 1 << 30;
    const double size = file.Number(element).value_or(static_cast<double>(otherwise));
    Require(size >= 1 && size <= kMostPixels, "{}: DICOM: a slide of {} pixels a side", name, size);
    return static_cast<int64_t>(size);
  }

  std::string name;
  MappedFile mapped;
  DicomFile file;
  image::DicomLayout layout;
  int64_t width, height;  // of the level
  int64_t offset;         // of its first frame among those of the level
  uint32_t number = 0;    // among the files of the slide
};

// Where a frame lies in its level.
struct Tile {
  int64_t x, y;
  const Part* part;
  int64_t frame;
};

struct DicomLevel {
  std::vector<const Part*> parts;
  std::vector<Tile> tiles;  // by y, then x; empty if all are there, in order
  int64_t tile_width = 0, tile_height = 0;
};

// "VOLUME", "LABEL", "OVERVIEW" or "THUMBNAIL": the third value of the image type.
std::string PartKind(const DicomFile& file) {
  const std::string type = file.Text(kImageType);
  size_t begin = 0;
  for (int i = 0; i < 2; ++i) {
    begin = type.find('\\', begin);
    if (begin == std::string::npos) return "VOLUME";
    ++begin;
  }
  return type.substr(begin, type.find('\\', begin) - begin);
}

// 8-bit RGB of a frame. Grey ones of more bits: through the window of the file, else their high byte, which is the same
// for all tiles.
void DecodeTile(const Part& part, int64_t frame, Tensor<uint8_t>& rgb) {
  const image::DicomLayout& layout = part.layout;
  RequireMemory(static_cast<double>(image::DicomFrameBytes(part.file, layout)), part.name + ": a tile");
  image::DicomSamples samples;
  image::ReadDicomFrame(part.file, layout, frame, samples);
  const int64_t pixels = layout.rows * layout.columns;
  rgb.Reuse({layout.rows, layout.columns, 3});
  if (!layout.grey()) {
    return image::DicomToRgb(part.file, layout, samples, rgb.data());
  }
  std::vector<uint8_t> grey(static_cast<size_t>(pixels));
  image::DicomGrey shown(part.file, layout, frame, {});
  if (shown.levels() == image::DicomLevels::kRange) {
    const int shift = std::max(samples.bits - 8, 0);
    const int32_t* const in = samples.values.data();
    std::transform(in, in + pixels, grey.begin(), [&](int32_t v) { return static_cast<uint8_t>(v >> shift); });
  } else {
    shown.Show(samples, grey.data());
  }
  for (int64_t i = 0; i < pixels; ++i) std::fill_n(rgb.data() + 3 * i, 3, grey[static_cast<size_t>(i)]);
}

class DicomSlide final : public Slide {
 public:
  DicomSlide(const fs::path& path, std::vector<std::unique_ptr<Part>> parts, const SlideOptions& options)
      : parts_(std::move(parts)) {
    facts_.format = "DICOM";
    facts_.reader = "DCMTK";
    AddLevels(path);
    SetScale(options);
  }

  void Read(int level, const Region& region, image::Image& pixels) const override {
    Require(level >= 0 && level < std::ssize(levels_), "slide: level {} of {}", level, levels_.size());
    Require(region.width > 0 && region.height > 0 && region.width <= INT32_MAX && region.height <= INT32_MAX,
            "slide: a region of {} x {} pixels", region.width, region.height);
    RequireMemory(3.0 * static_cast<double>(region.width) * static_cast<double>(region.height), "slide: a region");
    pixels.pixels.Reuse({region.height, region.width, 3});
    std::ranges::fill(pixels.pixels.span(), uint8_t{255});
    const Level& size = facts_.levels[static_cast<size_t>(level)];
    for (const Tile& tile : TilesIn(levels_[static_cast<size_t>(level)], size, region)) {
      try {
        Copy(tile, size, region, pixels);
      } catch (const Error& error) {
        throw DamagedRegion(FormatShown("{}: level {}, the tile at {}, {}: {}", tile.part->name, level, tile.x, tile.y,
                                        EscapedText{error.what()}));
      }
    }
  }

  image::Image ReadAssociated(const std::string& name) const override {
    const auto found = pictures_.find(name);
    Require(found != pictures_.end(), "slide: there is no picture \"{}\" in it", name);
    const Part& part = *found->second;
    image::Image picture;
    DecodeTile(part, 0, picture.pixels);
    return picture;
  }

 private:
  void AddLevels(const fs::path& path) {
    // Files of one size are the pieces of a concatenation, or the same level again: then the first.
    std::map<std::pair<int64_t, int64_t>, std::vector<const Part*>, std::greater<>> sizes;
    uint32_t number = 0;
    for (const std::unique_ptr<Part>& part : parts_) {
      part->number = number++;
      const std::string kind = PartKind(part->file);
      const char* const picture = kind == "LABEL"       ? "label"
                                  : kind == "OVERVIEW"  ? "macro"
                                  : kind == "THUMBNAIL" ? "thumbnail"
                                                        : nullptr;
      if (picture == nullptr) {
        sizes[{part->width, part->height}].push_back(part.get());
      } else if (pictures_.try_emplace(picture, part.get()).second) {
        facts_.associated.emplace_back(picture);
      }
    }
    Require(!sizes.empty(), "{}: DICOM: a label or an overview of a slide; its levels are not beside it",
            path.string());
    const auto [width, height] = sizes.begin()->first;
    for (const auto& [size, parts] : sizes) {
      const double downsample = (static_cast<double>(width) / static_cast<double>(size.first) +
                                 static_cast<double>(height) / static_cast<double>(size.second)) /
                                2;
      facts_.levels.push_back({size.first, size.second, downsample});
      levels_.push_back(MakeLevel(parts));
    }
  }

  static DicomLevel MakeLevel(const std::vector<const Part*>& parts) {
    DicomLevel level;
    level.tile_width = parts.front()->layout.columns;
    level.tile_height = parts.front()->layout.rows;
    for (const Part* const part : parts) {
      const bool again = std::ranges::any_of(level.parts, [&](const Part* p) { return p->offset == part->offset; });
      const bool same = part->layout.columns == level.tile_width && part->layout.rows == level.tile_height;
      if (!again && same) level.parts.push_back(part);
    }
    std::ranges::sort(level.parts, {}, &Part::offset);
    const Part& first = *level.parts.front();
    if (first.file.Text(kOrganization) == "TILED_SPARSE" ||
        (first.file.Text(kOrganization) != "TILED_FULL" && Position(first, 0).has_value())) {
      AddPositions(level);
    }
    return level;
  }

  // The place of a frame, from 0; nothing if the file does not say.
  static std::optional<std::pair<int64_t, int64_t>> Position(const Part& part, int64_t frame) {
    constexpr DicomStep kPlane{0x0048, 0x021A, 0};
    const DicomStep own{0x5200, 0x9230, frame};
    const DicomStep x_path[] = {own, kPlane, {0x0048, 0x021E, 0}}, y_path[] = {own, kPlane, {0x0048, 0x021F, 0}};
    const std::optional<int64_t> x = AsPlace(part.file.Number(x_path)), y = AsPlace(part.file.Number(y_path));
    if (!x || !y) return {};
    return std::pair(*x - 1, *y - 1);
  }

  static void AddPositions(DicomLevel& level) {
    for (const Part* const part : level.parts) {
      for (int64_t frame = 0; frame < part->layout.frames; ++frame) {
        const auto place = Position(*part, frame);
        Require(place.has_value(), "{}: DICOM: a sparse slide that does not say where frame {} is", part->name, frame);
        level.tiles.push_back({place->first, place->second, part, frame});
      }
    }
    const auto key = [](const Tile& t) { return std::pair(t.y, t.x); };
    std::ranges::stable_sort(level.tiles, {}, key);
    // Further focal planes and optical paths.
    const auto same = [&](const Tile& a, const Tile& b) { return key(a) == key(b); };
    level.tiles.erase(std::unique(level.tiles.begin(), level.tiles.end(), same), level.tiles.end());
  }

  static std::vector<Tile> TilesIn(const DicomLevel& level, const Level& size, const Region& region) {
    std::vector<Tile> found;
    const int64_t right = std::min(region.x + region.width, size.width);
    const int64_t bottom = std::min(region.y + region.height, size.height);
    const int64_t left = std::max<int64_t>(region.x, 0), top = std::max<int64_t>(region.y, 0);
    if (left >= right || top >= bottom) return found;
    if (!level.tiles.empty()) {
      const auto begin = std::ranges::lower_bound(level.tiles, top - level.tile_height + 1, {}, &Tile::y);
      for (auto tile = begin; tile != level.tiles.end() && tile->y < bottom; ++tile) {
        if (tile->x < right && tile->x + level.tile_width > left) found.push_back(*tile);
      }
      return found;
    }
    const int64_t columns = (size.width + level.tile_width - 1) / level.tile_width;
    for (int64_t row = top / level.tile_height; row * level.tile_height < bottom; ++row) {
      for (int64_t column = left / level.tile_width; column * level.tile_width < right; ++column) {
        const int64_t index = row * columns + column;
        auto part = std::ranges::upper_bound(level.parts, index, {}, &Part::offset);
        if (part == level.parts.begin()) continue;
        --part;
        const int64_t frame = index - (*part)->offset;
        if (frame >= (*part)->layout.frames) continue;  // never scanned
        found.push_back({column * level.tile_width, row * level.tile_height, *part, frame});
      }
    }
    return found;
  }

  void Copy(const Tile& tile, const Level& size, const Region& region, image::Image& pixels) const {
    const image::DicomLayout& layout = tile.part->layout;
    const std::shared_ptr<Piece> piece = cache_.Find(
        uint64_t{tile.part->number} << 32 | static_cast<uint64_t>(tile.frame), 3 * layout.rows * layout.columns);
    {
      const std::scoped_lock lock(piece->mutex);
      if (!piece->ready) {
        DecodeTile(*tile.part, tile.frame, piece->rgb);
        tile.part->mapped.RequireUnchanged(tile.part->name);
        piece->ready = true;
      }
    }
    const int64_t width = layout.columns, height = layout.rows;
    const int64_t left = std::max({tile.x, region.x, int64_t{0}}), top = std::max({tile.y, region.y, int64_t{0}});
    const int64_t right = std::min({tile.x + width, region.x + region.width, size.width});
    const int64_t bottom = std::min({tile.y + height, region.y + region.height, size.height});
    if (left >= right) return;
    for (int64_t y = top; y < bottom; ++y) {
      const uint8_t* const from = piece->rgb.data() + 3 * ((y - tile.y) * width + left - tile.x);
      std::copy_n(from, 3 * (right - left),
                  pixels.pixels.data() + 3 * ((y - region.y) * region.width + left - region.x));
    }
  }

  void SetScale(const SlideOptions& options) {
    const DicomFile& file = levels_.front().parts.front()->file;
    const std::vector<double> spacing = file.Numbers(file.OfFrame(0, kMeasures, kSpacing));  // mm: rows, columns
    constexpr double kMicrons = 1000;
    const Level& finest = facts_.levels.front();
    if (spacing.size() == 2 && spacing[0] > 0 && spacing[1] > 0) {
      facts_.mpp_x = spacing[1] * kMicrons;
      facts_.mpp_y = spacing[0] * kMicrons;
    } else if (const auto w = file.Number(kVolumeWidth), h = file.Number(kVolumeHeight); w && h && *w > 0 && *h > 0) {
      facts_.mpp_x = *w * kMicrons / static_cast<double>(finest.width);
      facts_.mpp_y = *h * kMicrons / static_cast<double>(finest.height);
    } else {
      facts_.mpp_x = facts_.mpp_y = options.mpp;
    }
    const DicomStep power[] = {{0x0048, 0x0105, 0}, {0x0048, 0x0112, 0}};
    facts_.magnification = file.Number(power);
  }

  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<DicomLevel> levels_;               // as facts_.levels
  std::map<std::string, const Part*> pictures_;  // beside the levels
  mutable PieceCache cache_{kCacheBytes};
};

bool BeginsAsDicom(const fs::path& path) {
  const MappedFile file(path);
  return image::IsDicom(file.bytes().first(std::min(file.bytes().size(), image::kDicomHeadBytes)));
}

// The other files of the series in the folder. One that cannot be read is another's.
void AddSeries(const fs::path& path, std::vector<std::unique_ptr<Part>>& parts) {
  const std::string series = parts.front()->file.Text(kSeries);
  if (series.empty()) return;
  std::vector<fs::path> files;
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_regular_file(ignored) || fs::equivalent(entry->path(), path, ignored)) continue;
    files.push_back(entry->path());
    if (std::ssize(files) >= kMaxFiles) break;
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    try {
      if (!BeginsAsDicom(file)) continue;
      const MappedFile mapped(file);
      const std::string name = file.native();
      const DicomFile header(mapped.bytes(), name);
      if (header.Text(kSeries) != series || header.Text(kSopClass) != kSlideClass) continue;
      parts.push_back(std::make_unique<Part>(file));
    } catch (const Error&) {
      continue;
    }
    Require(std::ssize(parts) <= kMaxParts, "{}: DICOM: more than {} files of one slide", path.string(), kMaxParts);
  }
}

}  // namespace

std::unique_ptr<Slide> OpenDicom(const fs::path& path, const SlideOptions& options, std::string& why) {
  if (!BeginsAsDicom(path)) {
    why = "no DICOM";
    return nullptr;
  }
  {
    const MappedFile mapped(path);
    const std::string name = path.native();
    const DicomFile header(mapped.bytes(), name);
    if (header.Text(kSopClass) != kSlideClass) {
      why = "DICOM, but no whole-slide image";
      return nullptr;
    }
  }
  std::vector<std::unique_ptr<Part>> parts;
  parts.push_back(std::make_unique<Part>(path));
  AddSeries(path, parts);
  return std::make_unique<DicomSlide>(path, std::move(parts), options);
}

}  // namespace qkv::slide
