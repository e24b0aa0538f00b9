// Files of pairs of texts: a source and a target a line, with a tab between.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace qkv::train {

/// Texts of a file, line by line.
struct PairTexts {
  std::vector<std::string> sources, targets;

  int64_t size() const { return std::ssize(sources); }
};

/// True for a .tsv whose first line has one tab and is not from a table of images: no header of one, and not beginning
/// with an image's name.
bool IsPairs(const std::filesystem::path& path);

/// Reads "SOURCE<tab>TARGET" lines, of a file or of its text; where: its name. Throws Error that names the line for
/// other than one tab, a side without text, and invalid UTF-8; and if the texts would need more memory than
/// MemoryLimit().
PairTexts ReadPairs(const std::filesystem::path& path);
PairTexts ParsePairs(std::string_view text, const std::string& where);

/// Splits off the validation part: this share of the lines, at least one, by the lines' numbers alone. Throws Error if
/// no line would be left to train on.
std::pair<PairTexts, PairTexts> SplitPairs(PairTexts all, double validation_share);

}  // namespace qkv::train
