#include "qkv/slide/read/openslide_slide.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <thread>

#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/slide/read/openslide_search.h"
#include "qkv/slide/read/readers.h"

namespace qkv::slide {
namespace openslide {
namespace {

// Each process has a cache of OpenSlide's, of 32 MB, and up to kMemoryBytes of pixels.
constexpr int kMostProcesses = 16;
// Deaths in a row when the slide is opened again, after which it counts as unreadable.
constexpr int kMostFailedStarts = 3;
// Regions that may take too long, 60 s each: a slide of a great many of them would take days.
constexpr int kMostSlow = 8;
constexpr int64_t kMaxSide = int64_t{1} << 40;
// Of regions that are larger, blocks of this width are read.
constexpr int64_t kBlock = 4096;

template <size_t size>
std::string_view TextOf(const char (&text)[size]) {
  return {text, ::strnlen(text, size)};
}

// A positive number, if the text is one.
std::optional<double> PositiveNumber(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value <= 0) return {};
  return value;
}

// OpenSlide's word for a format in the words of SlideFacts.
std::string FormatOf(std::string_view vendor) {
  for (const auto& [word, format] : {std::pair{"aperio", "Aperio"},
                                     {"dicom", "DICOM"},
                                     {"generic-tiff", "TIFF"},
                                     {"hamamatsu", "Hamamatsu"},
                                     {"leica", "Leica"},
                                     {"mirax", "MIRAX"},
                                     {"philips", "Philips"},
                                     {"sakura", "Sakura"},
                                     {"trestle", "Trestle"},
                                     {"ventana", "Ventana"},
                                     {"zeiss", "Zeiss"}}) {
    if (vendor == word) return format;
  }
  return std::string(vendor);
}

// Premultiplied ARGB over a background, 0xrrggbb, to RGB.
void ToRgb(const uint32_t* argb, int64_t pixels, uint32_t background, uint8_t* rgb) {
  const auto store = [](uint32_t pixel, uint8_t* to) {
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(pixel >> (16 - 8 * c));
  };
  for (int64_t i = 0; i < pixels; ++i) {
    const uint32_t pixel = argb[i], missing = 255 - (pixel >> 24);
    if (missing == 0) [[likely]] {
      store(pixel, rgb + 3 * i);
      continue;
    }
    uint32_t over = 0;
    for (int shift = 0; shift < 24; shift += 8) {
      const uint32_t value = (pixel >> shift & 255) + (missing * (background >> shift & 255) + 127) / 255;
      over |= std::min(value, 255u) << shift;
    }
    store(over, rgb + 3 * i);
  }
}

class OpenSlideSlide : public Slide {
 public:
  OpenSlideSlide(const ProcessOptions& process, SlideFacts facts, std::unique_ptr<Process> first, int most)
      : name_(process.slide.string()),
        background_(BackgroundOf(first->facts())),
        processes_(process, std::move(first), most) {
    facts_ = std::move(facts);
  }

  void Read(int level, const Region& region, image::Image& pixels) const override;
  image::Image ReadAssociated(const std::string& name) const override;

 private:
  void Fill(uint8_t* rgb, int64_t pixels) const {
    constexpr uint32_t kNothing = 0;
    for (int64_t i = 0; i < pixels; ++i) ToRgb(&kNothing, 1, background_, rgb + 3 * i);
  }
  void ReadBlock(int level, const Region& block, uint8_t* to, int64_t row_bytes) const;

  const std::string name_;
  const uint32_t background_;  // 0xrrggbb
  mutable Processes processes_;
};

void OpenSlideSlide::Read(int level, const Region& region, image::Image& pixels) const {
  Require(level >= 0 && level < static_cast<int>(facts_.levels.size()), "slide: {}: level {}, expected 0 to {}", name_,
          level, facts_.levels.size() - 1);
  Require(region.width >= 1 && region.height >= 1 && region.width <= kMaxSide && region.height <= kMaxSide &&
              std::min(region.x, region.y) >= -kMaxSide && std::max(region.x, region.y) <= kMaxSide,
          "slide: {}: a region of {} × {} pixels at ({}, {}), expected sides from 1 to {}", name_, region.width,
          region.height, region.x, region.y, kMaxSide);
  RequireMemory(3.0 * static_cast<double>(region.width) * static_cast<double>(region.height),
                FormatShown("slide: {}: a region of {} × {} pixels", name_, region.width, region.height));
  pixels.pixels.Reuse({region.height, region.width, 3});
  const Level& of = facts_.levels[static_cast<size_t>(level)];
  const int64_t left = std::clamp<int64_t>(region.x, 0, of.width), top = std::clamp<int64_t>(region.y, 0, of.height);
  const int64_t right = std::clamp<int64_t>(region.x + region.width, left, of.width);
  const int64_t bottom = std::clamp<int64_t>(region.y + region.height, top, of.height);
  if (right - left < region.width || bottom - top < region.height) Fill(pixels.pixels.data(), pixels.pixels.size() / 3);
  if (right == left) return;
  const int64_t columns = std::min(right - left, kBlock), rows = kMaxPixels / columns;
  for (int64_t y = top; y < bottom; y += rows) {
    for (int64_t x = left; x < right; x += columns) {
      const Region block = {x, y, std::min(columns, right - x), std::min(rows, bottom - y)};
      ReadBlock(level, block, pixels.pixels.data() + 3 * ((y - region.y) * region.width + x - region.x),
                3 * region.width);
    }
  }
}

// Writes a block that lies within the level.
void OpenSlideSlide::ReadBlock(int level, const Region& block, uint8_t* to, int64_t row_bytes) const {
  Request request;
  request.operation = Operation::kRead;
  request.level = level;
  const double downsample = facts_.levels[static_cast<size_t>(level)].downsample;
  request.x = std::llround(static_cast<double>(block.x) * downsample);
  request.y = std::llround(static_cast<double>(block.y) * downsample);
  request.width = block.width;
  request.height = block.height;
  const auto damaged = [&](std::string_view reason) {
    throw DamagedRegion(FormatShown("slide: {}: level {}, {} × {} pixels at ({}, {}): {}", name_, level, block.width,
                                    block.height, block.x, block.y, reason));
  };
  try {
    processes_.Call(request, [&](const Process& process, const Reply& reply) {
      if (reply.status != Status::kDone) damaged(FormatShown("OpenSlide: {}", TextOf(reply.message)));
      for (int64_t row = 0; row < block.height; ++row) {
        ToRgb(process.pixels() + row * block.width, block.width, background_, to + row * row_bytes);
        Spend(block.width);
      }
    });
  } catch (const ProcessEnded& ended) {
    damaged(FormatShown("OpenSlide's process ended: {}", ended.what()));
  }
}

image::Image OpenSlideSlide::ReadAssociated(const std::string& name) const {
  const auto& names = facts_.associated;
  Require(std::find(names.begin(), names.end(), name) != names.end(), "slide: {}: no picture \"{}\" beside its levels",
          name_, name);
  Request request;
  request.operation = Operation::kAssociated;
  std::copy(name.begin(), name.end(), request.name);  // shorter, as FactsOf has it
  image::Image picture;
  try {
    processes_.Call(request, [&](const Process& process, const Reply& reply) {
      const bool done = reply.status == Status::kDone;
      Require(done, "slide: {}: picture \"{}\": OpenSlide: {}", name_, name, TextOf(reply.message));
      Require(reply.width >= 1 && reply.height >= 1 && reply.width <= kMaxPixels / reply.height,
              "slide: {}: picture \"{}\": OpenSlide's process gives it {} × {} pixels", name_, name, reply.width,
              reply.height);
      picture.pixels.Reuse({reply.height, reply.width, 3});
      ToRgb(process.pixels(), reply.height * reply.width, background_, picture.pixels.data());
    });
  } catch (const ProcessEnded& ended) {
    Fail("slide: {}: picture \"{}\": OpenSlide's process ended: {}", name_, name, ended.what());
  }
  return picture;
}

}  // namespace

SlideFacts FactsOf(const Facts& facts, const SlideOptions& options, const std::string& name) {
  SlideFacts result;
  result.format = FormatOf(TextOf(facts.vendor));
  result.reader = FormatShown("OpenSlide {}", TextOf(facts.version));
  Require(facts.levels >= 1 && facts.levels <= Facts::kMaxLevels, "slide: {}: OpenSlide: {} levels, expected 1 to {}",
          name, facts.levels, Facts::kMaxLevels);
  double before = 1;
  for (int l = 0; l < facts.levels; ++l) {
    const auto& [width, height, downsample] = facts.level[l];
    Require(width >= 1 && height >= 1 && width <= kMaxSide && height <= kMaxSide && downsample >= before &&
                downsample <= static_cast<double>(kMaxSide) && (l > 0 || downsample == 1),
            "slide: {}: OpenSlide: level {} has {} × {} pixels and is {} times smaller than the finest; expected "
            "levels from the finest to the coarsest",
            name, l, width, height, downsample);
    result.levels.push_back({width, height, downsample});
    before = downsample;
  }
  result.mpp_x = PositiveNumber(TextOf(facts.mpp_x));
  result.mpp_y = PositiveNumber(TextOf(facts.mpp_y));
  if (!result.mpp_x && !result.mpp_y) result.mpp_x = result.mpp_y = options.mpp;
  result.magnification = PositiveNumber(TextOf(facts.objective_power));
  for (int i = 0; i < std::clamp(facts.associated, 0, Facts::kMaxAssociated); ++i) {
    const std::string_view associated = TextOf(facts.name[i]);
    if (!associated.empty() && associated.size() < sizeof(facts.name[i])) result.associated.emplace_back(associated);
  }
  return result;
}

uint32_t BackgroundOf(const Facts& facts) {
  const std::string_view text = TextOf(facts.background);
  uint32_t colour = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), colour, 16);
  return text.size() == 6 && error == std::errc() && end == text.data() + 6 ? colour : 0xffffff;
}

Processes::Processes(const ProcessOptions& options, std::unique_ptr<Process> first, int most)
    : options_(options), facts_(first->facts()), most_(most) {
  idle_.push_back(std::move(first));
}

std::unique_ptr<Process> Processes::Take() {
  for (;; CheckCancelled()) {  // without the lock
    std::unique_lock lock(mutex_);
    if (forks_ != internal::Forks()) {  // they are the parent's
      idle_.clear();
      running_ = 0;
      forks_ = internal::Forks();
    }
    if (!idle_.empty()) {
      std::unique_ptr<Process> process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
    if (running_ < most_) {
      ++running_;
      break;
    }
    returned_.wait_for(lock, std::chrono::milliseconds(20));
  }
  try {
    return StartAgain();
  } catch (...) {
    Return(nullptr);
    throw;
  }
}

std::unique_ptr<Process> Processes::StartAgain() {
  const std::string name = options_.slide.string();
  std::unique_ptr<Process> process;
  try {
    process = std::make_unique<Process>(options_);
  } catch (const ProcessEnded& ended) {
    const std::lock_guard lock(mutex_);
    ++failed_starts_;
    Require(failed_starts_ < kMostFailedStarts,
            "slide: {}: OpenSlide's process has ended {} times in a row when it opened it again, the last time: {}",
            name, failed_starts_, ended.what());
    throw ProcessEnded(fmt::format("{} when it opened the slide again", ended.what()), false);
  }
  const Reply& opened = process->opened();
  Require(opened.status == Status::kDone, "slide: {}: OpenSlide cannot open it again: {}", name,
          TextOf(opened.message));
  Require(std::memcmp(&process->facts(), &facts_, sizeof(facts_)) == 0,
          "slide: {}: it has changed since it was opened; open it again", name);
  const std::lock_guard lock(mutex_);
  failed_starts_ = 0;
  return process;
}

void Processes::CountSlow(const ProcessEnded& ended) {
  const std::lock_guard lock(mutex_);
  ++slow_;
  Require(slow_ < kMostSlow,
          "slide: {}: given up after {} regions, since OpenSlide's process ended: {}; the file is damaged, or its disk "
          "is too slow: copy it to this machine",
          options_.slide.string(), slow_, ended.what());
}

// Null: it has ended.
void Processes::Return(std::unique_ptr<Process> process) {
  {
    const std::lock_guard lock(mutex_);
    if (process == nullptr) {
      --running_;
    } else {
      idle_.push_back(std::move(process));
    }
  }
  returned_.notify_one();
}

std::unique_ptr<Slide> OpenIn(const ProcessOptions& process, const SlideOptions& options, int most, std::string& why) {
  const std::string name = process.slide.string();
  std::unique_ptr<Process> first;
  try {
    first = std::make_unique<Process>(process);
  } catch (const ProcessEnded& ended) {
    Fail("slide: {}: OpenSlide's process ended when it opened it: {}; the file is damaged, or made to do harm", name,
         ended.what());
  }
  const std::string_view message = TextOf(first->opened().message);
  const std::string reader = FormatShown("OpenSlide {}", TextOf(first->facts().version));
  switch (first->opened().status) {
    case Status::kDone: {
      SlideFacts facts = FactsOf(first->facts(), options, name);
      return std::make_unique<OpenSlideSlide>(process, std::move(facts), std::move(first), most);
    }
    case Status::kNoLibrary:
      Require(options.openslide.empty(), "slide: {} cannot be loaded as OpenSlide: {}", options.openslide.string(),
              message);
      why = FormatShown(
          "OpenSlide is not there: {} (pip install openslide-bin; Debian: apt install libopenslide0; or --openslide "
          "FILE)",
          message);
      return nullptr;
    case Status::kUnknown:
      why = FormatShown("{} does not know its format", reader);
      return nullptr;
    case Status::kFailed: {
      // DICOM that OpenSlide refuses has another reader.
      const std::string_view vendor = TextOf(first->facts().vendor);
      Require(vendor == "dicom" || vendor.empty(), "slide: {}: {} ({}): {}", name, reader, vendor, message);
      why = FormatShown("{}: {}", reader, message);
      return nullptr;
    }
  }
  Fail("slide: {}: OpenSlide's process gives an answer that is none", name);
}

}  // namespace openslide

std::unique_ptr<Slide> OpenByOpenSlide(const std::filesystem::path& path, const SlideOptions& options,
                                       std::string& why) {
  openslide::ProcessOptions process;
  process.program = openslide::FindProgram(why);
  if (process.program.empty()) return nullptr;
  process.libraries = openslide::FindLibraries(options.openslide);
  process.slide = std::filesystem::absolute(path);
  const int most = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, openslide::kMostProcesses);
  // Libraries, pixels and the cache take a quarter of the least; a slide that wants more than its share is refused it.
  process.address_space = std::clamp(MemoryLimit() / most, int64_t{1} << 29, int64_t{1} << 32);
  return openslide::OpenIn(process, options, most, why);
}

}  // namespace qkv::slide
