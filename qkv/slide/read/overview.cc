// The whole slide at a size for the eye.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <set>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/slide/read/boxes.h"
#include "qkv/slide/read/slide.h"

namespace qkv::slide {
namespace {

// Side of a block of the level that is read at a time: 12 MB a thread.
constexpr int64_t kBlockSide = 2048;
// Blocks that cannot be read are halved until they are so small; what is left is white.
constexpr int64_t kLeastSide = 64;

class OverviewReader {
 public:
  OverviewReader(const Slide& slide, int level, const std::function<void(const std::string&)>& damaged)
      : slide_(slide), level_(level), damaged_(damaged) {}

  /// As Slide::Read, but that damaged parts are white.
  void Read(const Region& region, image::Image& pixels) {
    pixels.pixels.Reuse({region.height, region.width, 3});
    ReadPart(region, region, pixels);
  }

 private:
  void ReadPart(const Region& part, const Region& region, image::Image& pixels) {
    const bool whole = part.width == region.width && part.height == region.height;
    image::Image own;
    image::Image& read = whole ? pixels : own;
    try {
      slide_.Read(level_, part, read);
    } catch (const DamagedRegion& error) {
      if (std::max(part.width, part.height) > kLeastSide) return ReadHalves(part, region, pixels);
      Report(error.what());
      read.pixels.Reuse({part.height, part.width, 3});
      std::fill(read.pixels.span().begin(), read.pixels.span().end(), uint8_t{255});
    }
    if (whole) return;
    for (int64_t y = 0; y < part.height; ++y)
      std::memcpy(pixels.pixels.view().at(part.y - region.y + y, part.x - region.x), own.pixels.view().at(y),
                  static_cast<size_t>(3 * part.width));
  }

  void ReadHalves(const Region& part, const Region& region, image::Image& pixels) {
    Region first = part, second = part;
    if (part.width >= part.height) {
      first.width = part.width / 2;
      second.x += first.width;
      second.width -= first.width;
    } else {
      first.height = part.height / 2;
      second.y += first.height;
      second.height -= first.height;
    }
    pixels.pixels.Reuse({region.height, region.width, 3});
    ReadPart(first, region, pixels);
    ReadPart(second, region, pixels);
  }

  void Report(const std::string& what) {
    const std::scoped_lock lock(mutex_);
    if (damaged_ && reported_.insert(what).second) damaged_(what);
  }

  const Slide& slide_;
  const int level_;
  const std::function<void(const std::string&)>& damaged_;
  std::mutex mutex_;
  std::set<std::string> reported_;  // several blocks meet one damaged tile
};

/// The coarsest level whose longer side is at least `side`; 0 if none is.
int LevelFor(const SlideFacts& facts, int64_t side) {
  int level = 0;
  for (int i = 0; i < std::ssize(facts.levels); ++i) {
    const Level& size = facts.levels[static_cast<size_t>(i)];
    if (std::max(size.width, size.height) >= side) level = i;
  }
  return level;
}

}  // namespace

image::Image ReadOverview(const Slide& slide, int64_t side, const std::function<void(const std::string&)>& damaged) {
  Require(side >= 1, "slide: an overview of {} pixels' side, expected at least 1", side);
  const int index = LevelFor(slide.facts(), side);
  const Level level = slide.facts().levels[static_cast<size_t>(index)];
  const int64_t longer = std::max(level.width, level.height);
  const double scale = std::max(1.0, static_cast<double>(longer) / static_cast<double>(side));
  const auto reduced = [&](int64_t length) {
    return std::clamp<int64_t>(std::llround(static_cast<double>(length) / scale), 1, std::min(length, side));
  };
  const BoxAxis columns{level.width, reduced(level.width)}, rows{level.height, reduced(level.height)};
  RequireMemory(3.0 * static_cast<double>(columns.outputs) * static_cast<double>(rows.outputs), "slide: an overview");
  image::Image overview{Tensor<uint8_t>::Uninitialised({rows.outputs, columns.outputs, 3})};
  const auto block = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(kBlockSide) / scale));
  const int64_t across = (columns.outputs + block - 1) / block, down = (rows.outputs + block - 1) / block;
  OverviewReader reader(slide, index, damaged);
  image::Image first;
  // A level that is computed is made by the first that reads it: here on all cores, within the loop on one.
  reader.Read({0, 0, 1, 1}, first);
  ParallelTasks(across * down, [&](int64_t task, int) {
    const int64_t left = task % across * block, top = task / across * block;
    const int64_t width = std::min(block, columns.outputs - left), height = std::min(block, rows.outputs - top);
    const auto x0 = static_cast<int64_t>(columns.begin(left)), y0 = static_cast<int64_t>(rows.begin(top));
    const auto x1 = std::min(static_cast<int64_t>(std::ceil(columns.begin(left + width))), level.width);
    const auto y1 = std::min(static_cast<int64_t>(std::ceil(rows.begin(top + height))), level.height);
    image::Image pixels;
    reader.Read({x0, y0, x1 - x0, y1 - y0}, pixels);
    ReduceToBoxes(pixels, x0, y0, columns, rows, left, top, width, height, overview.pixels.view().at(top, left),
                  3 * columns.outputs);
  });
  return overview;
}

}  // namespace qkv::slide
