// The formats of data sets, one source file each. Parsers take bytes, so that they can be fuzzed. Internal to
// qkv/train.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/train/data/dataset.h"

namespace qkv::train {

// Nothing where the path is of another format; Error where it is of this one, and broken.
std::optional<Dataset> OpenImageFolder(const std::filesystem::path& path);
std::optional<Dataset> OpenCifar(const std::filesystem::path& path);
std::optional<Dataset> OpenMnist(const std::filesystem::path& path);
std::optional<Dataset> OpenCsv(const std::filesystem::path& path);

/// Orders names of classes: by number where all are numbers, else by the alphabet; each once.
void SortClasses(std::vector<std::string>& names);
/// The label of a class that is known to be there.
int64_t LabelOf(const std::vector<std::string>& classes, std::string_view name);

/// "train", "val" or "test" for what people call these ("training", "valid", "validation", …; any case), or empty.
std::string_view SplitNamed(std::string_view name);

/// A file of unsigned bytes in IDX format (LeCun, "the IDX file format"); `bytes` outlives it.
struct Idx {
  std::vector<int64_t> extents;  // 1 to 3
  std::span<const std::byte> values;
};
Idx ParseIdx(std::span<const std::byte> bytes, std::string_view where);

/// Adds the records of a file of CIFAR's binary version: `label_bytes` labels of which the last counts, and 3 × 32 × 32
/// pixels, which become 32 × 32 × 3.
void ParseCifar(std::span<const std::byte> bytes, int64_t label_bytes, int64_t classes, std::string_view where,
                std::vector<int64_t>* labels, std::vector<uint8_t>* pixels);

struct CsvRow {
  std::string path, label, split;
};
/// Lines "path,label[,split]" by RFC 4180, with tabs instead of commas where the first line has one. A first line of
/// names (path, file, filename or image; label or class; split) may give another order and more columns.
std::vector<CsvRow> ParseCsv(std::string_view text, std::string_view where);

}  // namespace qkv::train
