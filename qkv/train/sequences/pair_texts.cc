#include "qkv/train/sequences/pair_texts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/core/memory.h"
#include "qkv/core/rng.h"
#include "qkv/core/text.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPairBytes = size_t{1} << 36;

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

// The first cell of a table of images.
bool NamesImage(std::string_view cell) {
  const std::string lower = LowerAscii(Trim(cell));
  for (const char* ending : {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}) {
    if (lower.ends_with(ending) && lower.find(' ') == lower.npos) return true;
  }
  for (const char* header : {"path", "file", "filename", "file_name", "image"}) {
    if (lower == header) return true;
  }
  return false;
}

bool IsUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

bool IsPairs(const fs::path& path) {
  std::error_code error;
  if (LowerAscii(path.extension().string()) != ".tsv" || !fs::is_regular_file(path, error)) return false;
  constexpr size_t kProbed = size_t{1} << 16;
  const MappedFile file(path);
  const auto* bytes = reinterpret_cast<const char*>(file.bytes().data());
  const std::string probed(bytes, std::min(kProbed, file.bytes().size()));
  file.RequireUnchanged(path.native());
  const std::vector<std::string_view> lines = SplitLines(probed);
  if (lines.empty() || std::ranges::count(lines[0], '\t') != 1) return false;
  return !NamesImage(lines[0].substr(0, lines[0].find('\t')));
}

PairTexts ReadPairs(const fs::path& path) { return ParsePairs(ReadFile(path, kMostPairBytes), path.string()); }

PairTexts ParsePairs(std::string_view text, const std::string& shown) {
  const std::vector<std::string_view> lines = SplitFilledLines(text);
  // Two strings a line, their bytes, and at worst a token for each of these.
  constexpr double kBytesOfLine = 200, kBytesOfByte = 10;
  RequireMemory(kBytesOfByte * static_cast<double>(text.size()) + kBytesOfLine * static_cast<double>(lines.size()),
                shown);
  Require(!lines.empty(), "{} is empty: expected lines of a source and a target, with a tab between", shown);
  PairTexts texts;
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    const auto tabs = std::ranges::count(line, '\t');
    Require(tabs == 1, "{}:{}: {} tabs, expected one, between a source and a target", shown, i + 1, tabs);
    const std::string_view source = Trim(line.substr(0, line.find('\t'))), target = Trim(line.substr(line.find('\t')));
    Require(!source.empty() && !target.empty(), "{}:{}: the {} is empty; leave the line out", shown, i + 1,
            source.empty() ? "source" : "target");
    Require(IsUtf8(line), "{}:{}: not UTF-8; iconv -t UTF-8 converts a file", shown, i + 1);
    texts.sources.emplace_back(source), texts.targets.emplace_back(target);
  }
  return texts;
}

std::pair<PairTexts, PairTexts> SplitPairs(PairTexts all, double validation_share) {
  const int64_t lines = all.size();
  const auto held = std::clamp<int64_t>(std::llround(validation_share * static_cast<double>(lines)), 1, lines);
  Require(held < lines, "pairs: of {} lines none is left to train on; expected more, or --valid FILE", lines);
  std::vector<int64_t> order(static_cast<size_t>(lines));
  std::iota(order.begin(), order.end(), int64_t{0});
  constexpr uint64_t kStream = 0x7a11d;
  const auto key = [](int64_t line) { return MixSeed(kStream, static_cast<uint64_t>(line)); };
  std::ranges::sort(order, {}, key);
  std::vector<bool> is_held(static_cast<size_t>(lines));
  for (int64_t i = 0; i < held; ++i) is_held[static_cast<size_t>(order[static_cast<size_t>(i)])] = true;
  std::pair<PairTexts, PairTexts> parts;
  for (size_t i = 0; i < all.sources.size(); ++i) {
    PairTexts& part = is_held[i] ? parts.second : parts.first;
    part.sources.push_back(std::move(all.sources[i])), part.targets.push_back(std::move(all.targets[i]));
  }
  return parts;
}

}  // namespace qkv::train
