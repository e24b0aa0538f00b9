// Parsers of the data set formats, one source file each. They take bytes, so that they can be fuzzed. Internal to
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

// Returns nothing if the path has another format. Throws Error if it has this format and is damaged.
std::optional<Dataset> OpenImageFolder(const std::filesystem::path& path);
std::optional<Dataset> OpenCifar(const std::filesystem::path& path);
std::optional<Dataset> OpenMnist(const std::filesystem::path& path);
std::optional<Dataset> OpenCsv(const std::filesystem::path& path);

/// Sorts class names and removes duplicates: by number if all are numbers, else alphabetically.
void SortClasses(std::vector<std::string>& names);
/// The label of a class, which must exist.
int64_t FindLabel(const std::vector<std::string>& classes, std::string_view name);

/// Maps common names of splits ("training", "valid", "validation", …; any case) to "train", "val" or "test"; else
/// empty.
std::string_view SplitNamed(std::string_view name);

/// A file of unsigned bytes in IDX format (LeCun, "the IDX file format"). `bytes` must outlive it.
struct Idx {
  std::vector<int64_t> extents;  // 1 to 3
  std::span<const std::byte> values;
};
Idx ParseIdx(std::span<const std::byte> bytes, std::string_view where);

/// Appends the records of a CIFAR binary file: `label_bytes` labels, of which the last is used, and 3 × 32 × 32 pixels,
/// which are stored as 32 × 32 × 3.
void ParseCifar(std::span<const std::byte> bytes, int64_t label_bytes, int64_t classes, std::string_view where,
                std::vector<int64_t>* labels, std::vector<uint8_t>* pixels);

struct CsvRow {
  std::string path, label, split;
};
/// Parses lines "path,label[,split]" by RFC 4180. Tabs replace commas if the first line has a tab. A header line (path,
/// file, filename or image; label or class; split) may give another order and more columns.
std::vector<CsvRow> ParseCsv(std::string_view text, std::string_view where);

}  // namespace qkv::train
