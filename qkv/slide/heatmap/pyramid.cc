#include "qkv/slide/heatmap/pyramid.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <mutex>
#include <system_error>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"
#include "qkv/image/resize.h"
#include "qkv/io/json.h"

namespace qkv::slide {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kMostRead = 4096;         // side of what is read at once, in pixels of the slide: 48 MB
constexpr int64_t kFinestUnknown = 16'384;  // side of the finest level of a slide without a scale
constexpr image::Colour kDamaged = {160, 160, 160};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The coarsest level that is at least as fine.
size_t LevelFor(const std::vector<Level>& levels, double downsample) {
  size_t level = 0;
  while (level + 1 < levels.size() && levels[level + 1].downsample <= 1.01 * downsample) ++level;
  return level;
}

// The means of 2 × 2 pixels; of two or one at the right and lower border, if a side is odd.
image::Image Halve(const image::Image& from) {
  const int64_t height = CeilDiv(from.height(), 2), width = CeilDiv(from.width(), 2);
  image::Image to{Tensor<uint8_t>::Uninitialised({height, width, 3})};
  for (int64_t y = 0; y < height; ++y) {
    const uint8_t* const upper = from.pixels.data() + 3 * from.width() * (2 * y);
    const uint8_t* const lower = from.pixels.data() + 3 * from.width() * std::min(2 * y + 1, from.height() - 1);
    uint8_t* const to_x = to.pixels.data() + 3 * width * y;
    for (int64_t x = 0; x < width; ++x) {
      const int64_t left = 3 * (2 * x), right = 3 * std::min(2 * x + 1, from.width() - 1);
      for (int64_t c = 0; c < 3; ++c) {
        to_x[3 * x + c] =
            static_cast<uint8_t>((upper[left + c] + upper[right + c] + lower[left + c] + lower[right + c] + 2) / 4);
      }
    }
  }
  return to;
}

image::Image Crop(const image::Image& from, int64_t top, int64_t left) {
  const int64_t height = std::min(kPyramidTile, from.height() - top),
                width = std::min(kPyramidTile, from.width() - left);
  image::Image to{Tensor<uint8_t>::Uninitialised({height, width, 3})};
  for (int64_t y = 0; y < height; ++y) {
    std::copy_n(from.pixels.data() + 3 * ((top + y) * from.width() + left), 3 * width,
                to.pixels.data() + 3 * y * width);
  }
  return to;
}

image::Image GreyPicture(int64_t height, int64_t width) {
  image::Image grey{Tensor<uint8_t>::Uninitialised({height, width, 3})};
  image::Fill(grey, 0, 0, height, width, kDamaged);
  return grey;
}

// What was made of what, in FOLDER/slide.json.
io::Json Description(const Pyramid& pyramid, const PyramidOptions& options) {
  return {{"source", options.source},         {"width", pyramid.width}, {"height", pyramid.height},
          {"downsample", pyramid.downsample}, {"tile", kPyramidTile},   {"quality", options.quality}};
}

io::Json ToJson(const DamagedPart& part) {
  return {{"x", part.x}, {"y", part.y}, {"width", part.width}, {"height", part.height}, {"why", part.why}};
}

// One pyramid that is written.
class PyramidWriter {
 public:
  PyramidWriter(const Slide& slide, fs::path folder, const PyramidOptions& options)
      : slide_(slide), folder_(std::move(folder)), options_(options), pyramid_(PlanPyramid(slide.facts(), options)) {}

  Pyramid Write() {
    Prepare();
    if (options_.begin) options_.begin(pyramid_.Pictures());
    const int64_t leaves = LeavesOfBlock();
    const int top = pyramid_.finest - std::bit_width(static_cast<uint64_t>(leaves)) + 1;
    const int64_t columns = pyramid_.Columns(top), blocks = columns * pyramid_.Rows(top);
    ParallelTasks(blocks, [&](int64_t block, int) { WriteBlock(top, block % columns, block / columns); });
    for (int level = top - 1; level >= 0; --level) {
      const int64_t across = pyramid_.Columns(level);
      ParallelTasks(across * pyramid_.Rows(level),
                    [&](int64_t picture, int) { WriteReduced(level, picture % across, picture / across); });
    }
    WriteFile(folder_ / "slide.dzi",
              fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                          "<Image xmlns=\"http://schemas.microsoft.com/deepzoom/2008\" Format=\"webp\" Overlap=\"0\" "
                          "TileSize=\"{}\"><Size Width=\"{}\" Height=\"{}\"/></Image>\n",
                          kPyramidTile, pyramid_.width, pyramid_.height));
    return pyramid_;
  }

 private:
  // Folders, and what an earlier run left.
  void Prepare() {
    for (int level = 0; level <= pyramid_.finest; ++level) {
      std::error_code error;
      fs::create_directories(FolderOf(level), error);
      Require(!error, "heatmap: cannot make the folder {}: {}", FolderOf(level).string(), error.message());
    }
    const io::Json expected = Description(pyramid_, options_);
    if (!FileExists(folder_ / "slide.json")) return SaveDescription();
    io::Json found = io::ReadJson(folder_ / "slide.json");
    const io::Json damaged = found.is_object() && found.contains("damaged") ? found["damaged"] : io::Json::array();
    if (found.is_object()) found.erase("damaged");
    Require(found == expected,
            "heatmap: {} has pictures of another slide, or of other options; remove the folder or write to another",
            folder_.string());
    try {
      for (const io::Json& part : damaged) {
        pyramid_.damaged.push_back({part.at("x"), part.at("y"), part.at("width"), part.at("height"), part.at("why")});
      }
    } catch (const io::Json::exception& error) {
      Fail("heatmap: {}: expected damaged parts: {}", (folder_ / "slide.json").string(), io::JsonErrorReason(error));
    }
  }

  void SaveDescription() {
    io::Json json = Description(pyramid_, options_);
    json["damaged"] = io::Json::array();
    for (const DamagedPart& part : pyramid_.damaged) json["damaged"].push_back(ToJson(part));
    WriteFile(folder_ / "slide.json", json.dump(1, ' ', false, io::Json::error_handler_t::replace) + "\n");
  }

  // Blocks are read at once, so that large tiles of the slide's file are decoded for few of them twice.
  int64_t LeavesOfBlock() const {
    const auto downsample = static_cast<double>(pyramid_.downsample);
    const std::vector<Level>& levels = slide_.facts().levels;
    const double ratio = downsample / levels[LevelFor(levels, downsample)].downsample;
    int64_t leaves = 1;
    while (leaves < 8 && leaves < int64_t{1} << pyramid_.finest &&
           static_cast<double>(2 * leaves * kPyramidTile) * ratio <= 1.01 * static_cast<double>(kMostRead)) {
      leaves *= 2;
    }
    return leaves;
  }

  // All pictures of a block from level `top` to the finest; that of `top` is the last, and says that all are there.
  void WriteBlock(int top, int64_t column, int64_t row) {
    const int64_t side = kPyramidTile << (pyramid_.finest - top);
    const Region region{.x = column * side,
                        .y = row * side,
                        .width = std::min(side, pyramid_.width - column * side),
                        .height = std::min(side, pyramid_.height - row * side)};
    int64_t pictures = 0;
    for (int64_t extent = side; extent >= kPyramidTile; extent /= 2) {
      const int64_t scale = side / extent;
      pictures +=
          CeilDiv(CeilDiv(region.width, scale), kPyramidTile) * CeilDiv(CeilDiv(region.height, scale), kPyramidTile);
    }
    if (!IsThere(top, column, row)) {
      image::Image pixels = ReadBlock(region);
      for (int level = pyramid_.finest; level >= top; --level) {
        if (level < pyramid_.finest) pixels = Halve(pixels);
        const int64_t first_column = column << (level - top), first_row = row << (level - top);
        for (int64_t y = 0; y < pixels.height(); y += kPyramidTile) {
          for (int64_t x = 0; x < pixels.width(); x += kPyramidTile) {
            Save(level, first_column + x / kPyramidTile, first_row + y / kPyramidTile, Crop(pixels, y, x));
          }
        }
      }
    }
    Advance(pictures);
  }

  Region AtLevel0(const Region& finest) const {
    const int64_t scale = pyramid_.downsample;
    return {finest.x * scale, finest.y * scale, finest.width * scale, finest.height * scale};
  }

  // A region of the finest level. Where it cannot be read, each of its pictures is tried, and those that fail are grey.
  image::Image ReadBlock(const Region& region) {
    image::Image pixels;
    try {
      ReadReduced(slide_, AtLevel0(region), region.width, region.height, pixels);
      return pixels;
    } catch (const DamagedRegion&) {
    }
    pixels.pixels = Tensor<uint8_t>::Uninitialised({region.height, region.width, 3});
    for (int64_t y = 0; y < region.height; y += kPyramidTile) {
      for (int64_t x = 0; x < region.width; x += kPyramidTile) {
        const Region part{region.x + x, region.y + y, std::min(kPyramidTile, region.width - x),
                          std::min(kPyramidTile, region.height - y)};
        image::Image picture;
        try {
          ReadReduced(slide_, AtLevel0(part), part.width, part.height, picture);
        } catch (const DamagedRegion& error) {
          picture = GreyPicture(part.height, part.width);
          AddDamaged(AtLevel0(part), error.what());
        }
        image::Paste(pixels, picture, y, x);
      }
    }
    return pixels;
  }

  // From the four pictures below it.
  void WriteReduced(int level, int64_t column, int64_t row) {
    if (!IsThere(level, column, row)) {
      const int below = level + 1;
      const int64_t width = SideOf(pyramid_.width, below) - 2 * column * kPyramidTile;
      const int64_t height = SideOf(pyramid_.height, below) - 2 * row * kPyramidTile;
      image::Image four{Tensor<uint8_t>({std::min(height, 2 * kPyramidTile), std::min(width, 2 * kPyramidTile), 3})};
      for (int64_t y = 0; y < 2; ++y) {
        for (int64_t x = 0; x < 2; ++x) {
          if (y * kPyramidTile >= height || x * kPyramidTile >= width) continue;
          const image::Image picture = image::DecodeFile(PathOf(below, 2 * column + x, 2 * row + y));
          image::Paste(four, image::ToChannels(picture, 3), y * kPyramidTile, x * kPyramidTile);
        }
      }
      Save(level, column, row, Halve(four));
    }
    Advance(1);
  }

  int64_t SideOf(int64_t finest, int level) const { return CeilDiv(finest, int64_t{1} << (pyramid_.finest - level)); }
  fs::path FolderOf(int level) const { return folder_ / "slide_files" / fmt::format("{}", level); }
  fs::path PathOf(int level, int64_t column, int64_t row) const {
    return FolderOf(level) / fmt::format("{}_{}.webp", column, row);
  }

  bool IsThere(int level, int64_t column, int64_t row) const {
    std::error_code error;
    const uintmax_t bytes = fs::file_size(PathOf(level, column, row), error);
    return !error && bytes > 0;
  }

  void Save(int level, int64_t column, int64_t row, const image::Image& picture) const {
    // Flushing each of thousands of files to the disk would take most of the time (WriteFile). A power failure may
    // leave some of them empty; IsThere has these made again.
    const fs::path path = PathOf(level, column, row), part = path.string() + ".part";
    const std::string bytes = image::EncodeWebp(picture, options_.quality);
    std::ofstream file(part, std::ios::binary | std::ios::trunc);
    RequireCall(static_cast<bool>(file), "write", part);
    file.write(bytes.data(), std::ssize(bytes));
    file.close();
    RequireCall(static_cast<bool>(file), "write", part);
    RequireCall(std::rename(part.c_str(), path.c_str()) == 0, "write", path);
  }

  void AddDamaged(const Region& level0, std::string why) {
    const std::lock_guard lock(mutex_);
    const auto same = [&](const DamagedPart& part) { return part.x == level0.x && part.y == level0.y; };
    if (std::any_of(pyramid_.damaged.begin(), pyramid_.damaged.end(), same)) return;  // by a run that was stopped
    pyramid_.damaged.push_back({level0.x, level0.y, level0.width, level0.height, std::move(why)});
    SaveDescription();
  }

  void Advance(int64_t pictures) {
    const std::lock_guard lock(mutex_);
    if (options_.advance) options_.advance(pictures);
  }

  const Slide& slide_;
  const fs::path folder_;
  const PyramidOptions& options_;
  std::mutex mutex_;  // of the next and of calls of options_.advance
  Pyramid pyramid_;
};

}  // namespace

int64_t Pyramid::Columns(int level) const {
  return CeilDiv(CeilDiv(width, int64_t{1} << (finest - level)), kPyramidTile);
}

int64_t Pyramid::Rows(int level) const {
  return CeilDiv(CeilDiv(height, int64_t{1} << (finest - level)), kPyramidTile);
}

int64_t Pyramid::Pictures() const {
  int64_t pictures = 0;
  for (int level = 0; level <= finest; ++level) pictures += Columns(level) * Rows(level);
  return pictures;
}

Pyramid PlanPyramid(const SlideFacts& facts, const PyramidOptions& options) {
  Require(!facts.levels.empty() && facts.levels[0].width > 0 && facts.levels[0].height > 0,
          "heatmap: the slide has no level with pixels");
  const int64_t side = std::max(facts.levels[0].width, facts.levels[0].height);
  const double wanted =
      facts.mpp_x ? options.finest_mpp / *facts.mpp_x : static_cast<double>(side) / static_cast<double>(kFinestUnknown);
  Pyramid pyramid;
  // Without a scale the next power of two, so that the bound holds. Not below one picture.
  while (side / pyramid.downsample > kPyramidTile &&
         static_cast<double>(pyramid.downsample) * (facts.mpp_x ? std::sqrt(2.0) : 1) < wanted) {
    pyramid.downsample *= 2;
  }
  pyramid.width = CeilDiv(facts.levels[0].width, pyramid.downsample);
  pyramid.height = CeilDiv(facts.levels[0].height, pyramid.downsample);
  pyramid.finest = std::bit_width(static_cast<uint64_t>(std::max(pyramid.width, pyramid.height) - 1));
  return pyramid;
}

Pyramid WritePyramid(const Slide& slide, const fs::path& folder, const PyramidOptions& options) {
  return PyramidWriter(slide, folder, options).Write();
}

void ReadReduced(const Slide& slide, const Region& level0, int64_t width, int64_t height, image::Image& pixels) {
  Require(width > 0 && height > 0, "heatmap: expected a picture of at least one pixel, got {} × {}", width, height);
  const double wanted = static_cast<double>(level0.width) / static_cast<double>(width);
  const size_t level = LevelFor(slide.facts().levels, wanted);
  const double downsample = slide.facts().levels[level].downsample;
  const auto at_level = [&](int64_t x) { return std::llround(static_cast<double>(x) / downsample); };
  Region region{at_level(level0.x), at_level(level0.y), 0, 0};
  if (std::abs(wanted / downsample - 1) <= 0.01) {
    region.width = width, region.height = height;
    return slide.Read(static_cast<int>(level), region, pixels);
  }
  region.width = std::max<int64_t>(1, at_level(level0.x + level0.width) - region.x);
  region.height = std::max<int64_t>(1, at_level(level0.y + level0.height) - region.y);
  if (std::max(region.width, region.height) <= kMostRead || (width == 1 && height == 1)) {
    image::Image source;
    slide.Read(static_cast<int>(level), region, source);
    pixels = image::Resize(source, height, width, image::Filter::kBox);
    return;
  }
  // In halves of the longer side.
  pixels.pixels = Tensor<uint8_t>::Uninitialised({height, width, 3});
  const bool across = width >= height;
  const int64_t first = (across ? width : height) / 2;
  for (const int64_t begin : {int64_t{0}, first}) {
    const int64_t length = begin == 0 ? first : (across ? width : height) - first;
    const auto scaled = [&](int64_t x) { return std::llround(static_cast<double>(x) * wanted); };
    Region half = level0;
    (across ? half.x : half.y) += scaled(begin);
    (across ? half.width : half.height) = scaled(begin + length) - scaled(begin);
    image::Image picture;
    ReadReduced(slide, half, across ? length : width, across ? height : length, picture);
    image::Paste(pixels, picture, across ? 0 : begin, across ? begin : 0);
  }
}

}  // namespace qkv::slide
