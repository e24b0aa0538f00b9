// TIFF slides through libtiff. Flat pictures get levels of their own: reduced by boxes from the picture where a region
// is read; the coarsest is made once and kept.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/slide/read/boxes.h"
#include "qkv/slide/read/piece_cache.h"
#include "qkv/slide/read/readers.h"
#include "qkv/slide/read/tiff_layout.h"
#include "qkv/slide/read/tiff_piece.h"

namespace qkv::slide {
namespace {

// Of decoded pieces. A row of tiles of a slide of 100,000 pixels takes 75 MB.
constexpr int64_t kPieceCacheBytes = int64_t{96} << 20;
// Of a flat picture of strips: so many rows, which a row of tiles of 512 pixels goes over again and again.
constexpr int64_t kCachedRows = 512;
// Computed levels of flat pictures: each has a quarter of the side of the one before, until the longer side is at most
// this. The last, of at most 50 MB, is kept in memory.
constexpr int64_t kLevelStep = 4, kLargestKept = 4096;
// The coarsest is not coarser than this: so many pixels of the picture, squared, make one.
constexpr int64_t kMostReduced = 1024;
// Aperio has up to 5 levels, each a half to a quarter of the one before. Others with absent tiles are not filled: a
// hostile file would have a great many tiles read for one.
constexpr size_t kMostFilledLevels = 8;
constexpr double kMostFilledRatio = 8;
// Pixels that are reduced at a time.
constexpr int64_t kReducedPixels = int64_t{1} << 22, kReducedSide = 4096;
// Damaged tiles of a picture whose overview is made all the same.
constexpr size_t kMostDamaged = 10000;
// Far beyond any slide, and far from overflow.
constexpr int64_t kMaxPlace = int64_t{1} << 40;

/// Part of `a` that lies in `b`; without pixels if there is none.
Region Overlap(const Region& a, const Region& b) {
  const int64_t x = std::max(a.x, b.x), y = std::max(a.y, b.y);
  return {x, y, std::max<int64_t>(std::min(a.x + a.width, b.x + b.width) - x, 0),
          std::max<int64_t>(std::min(a.y + a.height, b.y + b.height) - y, 0)};
}

bool HasNoPixels(const Region& region) { return region.width == 0 || region.height == 0; }

/// What is done about a piece that cannot be decoded; its part of the picture stays white.
using OnDamage = std::function<void(const Region&, const std::string&)>;

class TiffSlide : public Slide {
 public:
  TiffSlide(std::unique_ptr<TiffFile> file, TiffLayout layout, const SlideOptions& options)
      : file_(std::move(file)), layout_(std::move(layout)), cache_(CacheBytes()) {
    facts_.format = layout_.format;
    facts_.reader = "libtiff";
    facts_.magnification = layout_.magnification;
    facts_.mpp_x = layout_.mpp_x ? layout_.mpp_x : options.mpp;
    facts_.mpp_y = layout_.mpp_y ? layout_.mpp_y : options.mpp;
    for (const auto& [name, page] : layout_.associated) facts_.associated.push_back(name);
    const TiffPage& first = layout_.levels[0];
    for (const TiffPage& page : layout_.levels) {
      const double across = static_cast<double>(first.width) / page.width;
      const double down = static_cast<double>(first.height) / page.height;
      facts_.levels.push_back({page.width, page.height, (across + down) / 2});
    }
    if (layout_.levels.size() == 1) AddComputedLevels();
    FindAbsent();
  }

  void Read(int level, const Region& region, image::Image& pixels) const override {
    Require(level >= 0 && level < std::ssize(facts_.levels), "slide: {}: level {} of {}", Name(), level,
            facts_.levels.size());
    Require(region.width > 0 && region.height > 0 && region.width < kMaxPlace && region.height < kMaxPlace &&
                std::abs(region.x) < kMaxPlace && std::abs(region.y) < kMaxPlace,
            "slide: {}: a region of {} x {} pixels at ({}, {})", Name(), region.width, region.height, region.x,
            region.y);
    RequireMemory(3.0 * static_cast<double>(region.width) * static_cast<double>(region.height),
                  FormatShown("slide: {}: a region of {} x {} pixels", Name(), region.width, region.height));
    if (level < std::ssize(layout_.levels)) {
      ReadPieces(level, region, pixels, {});
    } else {
      ReadComputed(level, region, pixels);
    }
  }

  image::Image ReadAssociated(const std::string& name) const override {
    const auto found = std::ranges::find(facts_.associated, name);
    Require(found != facts_.associated.end(), "slide: {}: no picture is called {}", Name(), name);
    const size_t index = static_cast<size_t>(found - facts_.associated.begin());
    const TiffPage& page = layout_.associated[index].second;
    const std::string problem = UnreadablePage(page);
    Require(problem.empty(), "slide: {}: {}: {}", Name(), name, problem);
    const Region whole{0, 0, page.width, page.height};
    RequireMemory(PieceBytes(page) + 3.0 * page.width * page.height, FormatShown("slide: {}: {}", Name(), name));
    image::Image pixels;
    ReadPieces(static_cast<int64_t>(layout_.levels.size() + index), whole, pixels, {});
    return pixels;
  }

 private:
  std::string Name() const { return file_->path().string(); }

  int64_t CacheBytes() const {
    const TiffPage& first = layout_.levels[0];
    const int64_t rows =
        first.tiled ? 0 : 3 * int64_t{first.width} * std::max<int64_t>(kCachedRows, first.piece_height);
    return std::min(std::max(kPieceCacheBytes, rows), std::max<int64_t>(MemoryLimit() / 8, 1));
  }

  /// Levels, then pictures beside them.
  const TiffPage& Page(int64_t source) const {
    const int64_t levels = std::ssize(layout_.levels);
    return source < levels ? layout_.levels[static_cast<size_t>(source)]
                           : layout_.associated[static_cast<size_t>(source - levels)].second;
  }

  void FindAbsent() {
    for (int64_t level = 0; level < std::ssize(layout_.levels); ++level) {
      const TiffPage& page = Page(level);
      RequireMemory(static_cast<double>(page.pieces()) / 8, FormatShown("slide: {}: level {}", Name(), level));
      absent_.push_back(AbsentPieces(*file_, page, FormatShown("slide: {}: level {}", Name(), level)));
      if (level > 0 && layout_.spreads_absence) SpreadAbsence(Page(level - 1), absent_.end()[-2], page, absent_.back());
    }
  }

  /// As OpenSlide does: what covers an absent tile of the finer level counts as absent too.
  static void SpreadAbsence(const TiffPage& finer, const std::vector<bool>& finer_absent, const TiffPage& page,
                            std::vector<bool>& absent) {
    const auto step = [](int64_t fine, int64_t coarse) {
      return std::max<int64_t>(1, std::llround(static_cast<double>(fine) / static_cast<double>(coarse)));
    };
    const int64_t across = step(finer.across(), page.across()), down = step(finer.down(), page.down());
    for (size_t i = 0; i < finer_absent.size(); ++i) {
      if (!finer_absent[i]) continue;
      const auto index = static_cast<int64_t>(i);
      const int64_t column = index % finer.across() / across, row = index / finer.across() / down;
      if (column < page.across() && row < page.down()) absent[static_cast<size_t>(row * page.across() + column)] = true;
    }
  }

  std::string PieceName(int64_t source, int64_t index) const {
    const TiffPage& page = Page(source);
    const int64_t levels = std::ssize(layout_.levels), x = index % page.across() * page.piece_width,
                  y = index / page.across() * page.piece_height;
    return FormatShown(
        "slide: {}: {}, {} {} at ({}, {})", Name(),
        source < levels ? FormatShown("level {}", source) : facts_.associated[static_cast<size_t>(source - levels)],
        page.tiled ? "tile" : "strip", index, x, y);
  }

  bool IsAbsent(int64_t source, int64_t index) const {
    return source < std::ssize(absent_) && absent_[static_cast<size_t>(source)][static_cast<size_t>(index)];
  }

  /// Absent tiles are white: nothing was scanned there. At Aperio's coarser levels they are what the finer level has.
  bool IsFilled(int64_t source) const {
    if (source == 0 || !layout_.spreads_absence || layout_.levels.size() > kMostFilledLevels) return false;
    const TiffPage &finer = Page(source - 1), &page = Page(source);
    return finer.width <= kMostFilledRatio * page.width && finer.height <= kMostFilledRatio * page.height;
  }

  /// One piece, decoded or found. Throws DamagedRegion.
  std::shared_ptr<Piece> FindPiece(int64_t source, int64_t index) const {
    const TiffPage& page = Page(source);
    const int64_t bytes = 3 * int64_t{page.piece_width} * page.piece_height;
    std::shared_ptr<Piece> piece =
        cache_.Find(static_cast<uint64_t>(source) << 48 | static_cast<uint64_t>(index), bytes);
    CheckCancelled();
    if (IsAbsent(source, index)) {
      // Without the lock, since it may take long.
      Tensor<uint8_t> rgb;
      if (!IsReady(*piece)) FillAbsent(source, index, rgb);
      const std::scoped_lock lock(piece->mutex);
      if (!piece->ready) piece->rgb = std::move(rgb);
      piece->ready = true;
      return piece;
    }
    const std::scoped_lock lock(piece->mutex);
    if (piece->ready) return piece;
    // Spend may wait for other work, which may need this piece: not here, for the time of one piece.
    const CancelScope undisturbed([] { return false; });
    try {
      DecodePiece(*file_, page, index, PieceName(source, index), piece->rgb);
    } catch (const Error& error) {
      throw DamagedRegion(error.what());
    }
    piece->ready = true;
    return piece;
  }

  static bool IsReady(Piece& piece) {
    const std::scoped_lock lock(piece.mutex);
    return piece.ready;
  }

  /// What the finer level has at the piece's place, reduced.
  void FillAbsent(int64_t source, int64_t index, Tensor<uint8_t>& rgb) const {
    const TiffPage &page = Page(source), &finer = Page(source - 1);
    rgb.Reuse({int64_t{page.piece_height}, int64_t{page.piece_width}, 3});
    std::fill(rgb.span().begin(), rgb.span().end(), uint8_t{255});
    const BoxAxis columns{finer.width, page.width}, rows{finer.height, page.height};
    const int64_t left = index % page.across() * page.piece_width, top = index / page.across() * page.piece_height;
    const int64_t width = std::min<int64_t>(page.piece_width, page.width - left);
    // A band at a time: levels may lie far apart.
    const auto row_pixels = static_cast<int64_t>(columns.begin(width)) + 2;
    const auto scale = static_cast<int64_t>(rows.begin(1)) + 1;
    const int64_t band = std::max<int64_t>(1, kReducedPixels / (row_pixels * scale));
    image::Image fine;
    for (int64_t y = top; y < std::min<int64_t>(top + page.piece_height, page.height); y += band) {
      const int64_t height = std::min({band, top + int64_t{page.piece_height} - y, int64_t{page.height} - y});
      const auto x0 = static_cast<int64_t>(columns.begin(left)), y0 = static_cast<int64_t>(rows.begin(y));
      const auto x1 = static_cast<int64_t>(std::ceil(columns.begin(left + width)));
      const auto y1 = static_cast<int64_t>(std::ceil(rows.begin(y + height)));
      ReadPieces(source - 1, {x0, y0, x1 - x0, y1 - y0}, fine, {});
      ReduceToBoxes(fine, x0, y0, columns, rows, left, y, width, height, rgb.view().at(y - top),
                    3 * int64_t{page.piece_width});
    }
  }

  void ReadPieces(int64_t source, const Region& region, image::Image& pixels, const OnDamage& on_damage) const {
    const TiffPage& page = Page(source);
    pixels.pixels.Reuse({region.height, region.width, 3});
    const Region inside = Overlap(region, {0, 0, page.width, page.height});
    if (inside.width != region.width || inside.height != region.height)
      std::fill(pixels.pixels.span().begin(), pixels.pixels.span().end(), uint8_t{255});
    if (HasNoPixels(inside)) return;
    const int64_t w = page.piece_width, h = page.piece_height;
    for (int64_t row = inside.y / h; row * h < inside.y + inside.height; ++row) {
      for (int64_t column = inside.x / w; column * w < inside.x + inside.width; ++column) {
        const Region place{column * w, row * h, w, h}, part = Overlap(place, inside);
        const int64_t index = row * page.across() + column;
        uint8_t* out = pixels.pixels.view().at(part.y - region.y, part.x - region.x);
        if (IsAbsent(source, index) && !IsFilled(source)) {
          Whiten(part, 3 * region.width, out);
          continue;
        }
        try {
          const std::shared_ptr<Piece> piece = FindPiece(source, index);
          const uint8_t* in = piece->rgb.view().at(part.y - place.y, part.x - place.x);
          for (int64_t y = 0; y < part.height; ++y, in += 3 * w, out += 3 * region.width)
            std::memcpy(out, in, static_cast<size_t>(3 * part.width));
        } catch (const DamagedRegion& error) {
          if (!on_damage) throw;
          Whiten(part, 3 * region.width, out);
          on_damage(part, error.what());
        }
      }
    }
  }

  static void Whiten(const Region& part, int64_t stride, uint8_t* out) {
    Spend(part.height);
    for (int64_t y = 0; y < part.height; ++y, out += stride) std::memset(out, 255, static_cast<size_t>(3 * part.width));
  }

  void AddComputedLevels() {
    const Level first = facts_.levels[0];
    for (int64_t factor = kLevelStep;
         std::max(first.width, first.height) * kLevelStep > kLargestKept * factor && factor <= kMostReduced;
         factor *= kLevelStep)
      facts_.levels.push_back(
          {(first.width + factor - 1) / factor, (first.height + factor - 1) / factor, static_cast<double>(factor)});
  }

  int64_t Factor(int level) const { return static_cast<int64_t>(facts_.levels[static_cast<size_t>(level)].downsample); }
  int KeptLevel() const { return static_cast<int>(facts_.levels.size()) - 1; }

  void ReadComputed(int level, const Region& region, image::Image& pixels) const {
    const Level& size = facts_.levels[static_cast<size_t>(level)];
    const int64_t factor = Factor(level);
    pixels.pixels.Reuse({region.height, region.width, 3});
    std::fill(pixels.pixels.span().begin(), pixels.pixels.span().end(), uint8_t{255});
    const Region inside = Overlap(region, {0, 0, size.width, size.height});
    if (HasNoPixels(inside)) return;
    if (level == KeptLevel()) return CopyKept(inside, region, pixels);
    const int64_t columns = std::min(inside.width, std::max<int64_t>(1, kReducedSide / factor));
    const int64_t rows = std::max<int64_t>(1, kReducedPixels / (columns * factor) / factor);
    image::Image fine;
    for (int64_t y = 0; y < inside.height; y += rows) {
      for (int64_t x = 0; x < inside.width; x += columns) {
        const Region chunk{inside.x + x, inside.y + y, std::min(columns, inside.width - x),
                           std::min(rows, inside.height - y)};
        ReadPieces(0, Scaled(chunk, factor), fine, {});
        ReduceByFactor(fine, factor, pixels.pixels.view().at(chunk.y - region.y, chunk.x - region.x), 3 * region.width);
      }
    }
  }

  /// The region of a computed level in pixels of the picture.
  Region Scaled(const Region& region, int64_t factor) const {
    return Overlap({region.x * factor, region.y * factor, region.width * factor, region.height * factor},
                   {0, 0, Page(0).width, Page(0).height});
  }

  /// The coarsest computed level.
  struct Kept {
    image::Image pixels;
    std::vector<std::pair<Region, std::string>> damaged;  // at level 0
  };

  void CopyKept(const Region& inside, const Region& region, image::Image& pixels) const {
    const std::shared_ptr<const Kept> kept = FindKept();
    const Region fine = Scaled(inside, Factor(KeptLevel()));
    for (const auto& [place, message] : kept->damaged)
      if (!HasNoPixels(Overlap(fine, place))) throw DamagedRegion(message);
    for (int64_t y = inside.y; y < inside.y + inside.height; ++y)
      std::memcpy(pixels.pixels.view().at(y - region.y, inside.x - region.x),
                  kept->pixels.pixels.view().at(y, inside.x), static_cast<size_t>(3 * inside.width));
  }

  /// Made without a lock, since that takes long and may be given up: two threads may both make it.
  std::shared_ptr<const Kept> FindKept() const {
    {
      const std::scoped_lock lock(kept_mutex_);
      if (kept_ != nullptr) return kept_;
    }
    std::shared_ptr<const Kept> made = MakeKept();
    const std::scoped_lock lock(kept_mutex_);
    if (kept_ == nullptr) kept_ = std::move(made);
    return kept_;
  }

  /// Reads the whole picture once, in blocks of whole pieces, on all cores.
  std::shared_ptr<const Kept> MakeKept() const {
    const Level& size = facts_.levels.back();
    const TiffPage& page = Page(0);
    const int64_t factor = Factor(KeptLevel());
    RequireMemory(3.0 * static_cast<double>(size.width) * static_cast<double>(size.height),
                  FormatShown("slide: {}: an overview", Name()));
    const auto blocks_of = [&](int64_t piece) { return (piece + factor - 1) / factor; };
    // Strips as a whole, where that is not more than is reduced at a time.
    const int64_t most = std::max<int64_t>(1, 2 * kReducedPixels / factor / factor);
    const int64_t across =
        page.tiled
            ? std::min(most, blocks_of(page.piece_width) * std::max<int64_t>(1, kReducedSide / page.piece_width / 2))
            : std::min(most, size.width);
    const int64_t down = blocks_of(page.piece_height);
    const int64_t columns = (size.width + across - 1) / across, rows = (size.height + down - 1) / down;
    const auto made = std::make_shared<Kept>();
    made->pixels.pixels = Tensor<uint8_t>::Uninitialised({size.height, size.width, 3});
    std::mutex damaged_mutex;
    ParallelTasks(columns * rows, [&](int64_t task, int) {
      const int64_t x = task % columns * across, y = task / columns * down;
      const Region block{x, y, std::min(across, size.width - x), std::min(down, size.height - y)};
      image::Image fine;
      // A row at a time where a block of strips is large.
      const int64_t step = std::max<int64_t>(1, 2 * kReducedPixels / (block.width * factor) / factor);
      for (int64_t row = 0; row < block.height; row += step) {
        const Region part{block.x, block.y + row, block.width, std::min(step, block.height - row)};
        ReadPieces(0, Scaled(part, factor), fine, [&](const Region& place, const std::string& why) {
          const std::scoped_lock one(damaged_mutex);
          Require(made->damaged.size() < kMostDamaged, "slide: {}: more than {} damaged tiles, the last: {}", Name(),
                  kMostDamaged, why);
          made->damaged.emplace_back(place, why);
        });
        ReduceByFactor(fine, factor, made->pixels.pixels.view().at(part.y, part.x), 3 * size.width);
      }
    });
    return made;
  }

  const std::unique_ptr<TiffFile> file_;
  const TiffLayout layout_;
  std::vector<std::vector<bool>> absent_;  // by level and piece
  mutable PieceCache cache_;
  mutable std::mutex kept_mutex_;
  mutable std::shared_ptr<const Kept> kept_;  // once it was read
};

void CheckTiffLevel(const TiffFile& file, const TiffPage& page, size_t level) {
  RequireMemory(PieceBytes(page),
                FormatShown("slide: {}: a {} of level {}", file.path().string(), page.tiled ? "tile" : "strip", level));
  Require(page.pieces() * page.planes() < (int64_t{1} << 31), "slide: {}: level {} has {} tiles", file.path().string(),
          level, page.pieces());
}

}  // namespace

std::unique_ptr<Slide> OpenTiff(const std::filesystem::path& path, const SlideOptions& options, std::string& why) {
  if (!std::filesystem::is_regular_file(path)) {
    why = "not a file";
    return nullptr;
  }
  auto file = std::make_unique<TiffFile>(path);
  if (!TiffFile::IsTiff(file->file())) {
    why = "not a TIFF";
    return nullptr;
  }
  const std::vector<TiffPage> pages = file->ReadPages();
  if (const std::string scanner = ScannerOf(pages); !scanner.empty()) {
    why = "a TIFF of " + scanner + "'s scanners, which OpenSlide reads";
    return nullptr;
  }
  TiffLayout layout = FindLayout(*file, pages);
  for (size_t level = 0; level < layout.levels.size(); ++level) {
    why = UnreadablePage(layout.levels[level]);
    if (!why.empty()) return nullptr;
    CheckTiffLevel(*file, layout.levels[level], level);
  }
  return std::make_unique<TiffSlide>(std::move(file), std::move(layout), options);
}

}  // namespace qkv::slide
