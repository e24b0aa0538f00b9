// IDX files of MNIST and its relatives (Fashion-MNIST, EMNIST): train-images-idx3-ubyte, train-labels-idx1-ubyte,
// t10k-…, each optionally .gz.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "qkv/core/memory.h"
#include "qkv/train/data/archive.h"
#include "qkv/train/data/dataset_formats.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Bytes of the header: the magic number and one extent per axis.
constexpr size_t kMagic = 4, kExtent = 4, kMostAxes = 3, kLongestHeader = kMagic + kMostAxes * kExtent;

std::vector<int64_t> ParseIdxExtents(std::span<const std::byte> bytes, std::string_view where) {
  constexpr auto kUnsignedBytes = std::byte{8};
  Require(bytes.size() >= kMagic && bytes[0] == std::byte{0} && bytes[1] == std::byte{0},
          "{}: no IDX file: its first bytes are others", where);
  Require(bytes[2] == kUnsignedBytes, "{}: IDX elements of type {}, expected 8 (bytes)", where,
          static_cast<int>(bytes[2]));
  const auto axes = static_cast<size_t>(bytes[3]);
  Require(axes >= 1 && axes <= kMostAxes, "{}: {} axes, expected 1 to {}", where, axes, kMostAxes);
  Require(bytes.size() >= kMagic + axes * kExtent, "{}: the header is cut off", where);
  std::vector<int64_t> extents;
  for (size_t axis = 0; axis < axes; ++axis) {
    int64_t extent = 0;
    for (size_t i = 0; i < kExtent; ++i) {
      extent = extent << 8 | static_cast<int64_t>(bytes[kMagic + axis * kExtent + i]);
    }
    extents.push_back(extent);
  }
  return extents;
}

// In double: it does not overflow, as the greatest product is 2^96.
double CountElements(const std::vector<int64_t>& extents) {
  double elements = 1;
  for (const int64_t extent : extents) elements *= static_cast<double>(extent);
  return elements;
}

std::string LowerName(const fs::path& file) {
  std::string name = file.filename().string();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::string WithoutGz(std::string name) {
  if (name.ends_with(".gz")) name.resize(name.size() - 3);
  return name;
}

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  return at == text.npos ? text : text.replace(at, from.size(), to);
}

// "train" or "test" for a file of images, else empty.
std::string_view SplitFromFileName(const std::string& name) {
  if (name.find("images") == name.npos || name.find("idx3-ubyte") == name.npos) return {};
  if (name.find("train") != name.npos) return "train";
  if (name.find("t10k") != name.npos || name.find("test") != name.npos) return "test";
  return {};
}

struct SplitFiles {
  fs::path images, labels;
};

std::optional<SplitFiles> FindSplit(const fs::path& folder, std::string_view split) {
  std::optional<SplitFiles> found;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = LowerName(entry.path());
    if (SplitFromFileName(name) != split || !entry.is_regular_file()) continue;
    if (found) {
      Require(WithoutGz(LowerName(found->images)) == WithoutGz(name),
              "{}: several files of {} images, such as {} and {}: give each data set a folder of its own",
              folder.string(), split, found->images.filename().string(), entry.path().filename().string());
    }
    found = SplitFiles{entry.path(), {}};
  }
  if (!found) return {};
  const std::string wanted =
      Replaced(Replaced(WithoutGz(LowerName(found->images)), "images", "labels"), "idx3", "idx1");
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = LowerName(entry.path());
    if (WithoutGz(name) == wanted) found->labels = entry.path();
  }
  Require(!found->labels.empty(), "{}: no {} beside it", found->images.string(), wanted);
  return found;
}

// The file's length according to its header.
size_t UnpackedLength(const fs::path& path) {
  const MappedFile file(path);
  if (!io::IsGzip(file.bytes())) return file.bytes().size();
  const std::string first = io::GunzipFirst(file.bytes(), kLongestHeader, path.string());
  const std::vector<int64_t> extents = ParseIdxExtents(std::as_bytes(std::span(first)), path.string());
  const double elements = CountElements(extents);
  RequireMemory(elements, FormatShown("{}: its elements", path.string()));
  return static_cast<size_t>(elements) + kLongestHeader;
}

Split ReadSplit(const SplitFiles& files, std::string_view name) {
  Split split{.name = std::string(name)};
  const PlainFile images_file(files.images, UnpackedLength(files.images));
  const PlainFile labels_file(files.labels, UnpackedLength(files.labels));
  const Idx images = ParseIdx(images_file.bytes(), files.images.string());
  const Idx labels = ParseIdx(labels_file.bytes(), files.labels.string());
  Require(images.extents.size() == 3, "{}: {} axes, expected 3", files.images.string(), images.extents.size());
  Require(labels.extents.size() == 1 && labels.extents[0] == images.extents[0], "{}: labels of {} images, expected {}",
          files.labels.string(), labels.extents[0], images.extents[0]);
  const Shape shape{images.extents[0], images.extents[1], images.extents[2], 1};
  Require(shape.size() > 0, "{}: images without pixels", files.images.string());
  const double bytes = static_cast<double>(shape.size()) + sizeof(int64_t) * static_cast<double>(shape[0]);
  RequireMemory(bytes, FormatShown("{}: its images", files.images.string()));
  split.pixels = Tensor<uint8_t>::Uninitialised(shape);
  std::copy_n(reinterpret_cast<const uint8_t*>(images.values.data()), shape.size(), split.pixels.data());
  for (const std::byte label : labels.values) split.labels.push_back(static_cast<int64_t>(label));
  for (const PlainFile* file : {&images_file, &labels_file}) file->RequireUnchanged();
  return split;
}

}  // namespace

Idx ParseIdx(std::span<const std::byte> bytes, std::string_view where) {
  Idx idx{.extents = ParseIdxExtents(bytes, where), .values = {}};
  idx.values = bytes.subspan(kMagic + idx.extents.size() * kExtent);
  Require(CountElements(idx.extents) == static_cast<double>(idx.values.size()), "{}: {} bytes of data, expected {}",
          where, idx.values.size(), fmt::format("{}", fmt::join(idx.extents, " x ")));
  return idx;
}

std::optional<Dataset> OpenMnist(const fs::path& path) {
  if (!fs::is_directory(path)) return {};
  for (const fs::path& folder : {path, path / "raw", path / "MNIST" / "raw"}) {  // torchvision's folders too
    if (!fs::is_directory(folder)) continue;
    Dataset dataset{.format = "MNIST, IDX"};
    for (const char* name : {"train", "test"}) {
      if (const std::optional<SplitFiles> files = FindSplit(folder, name))
        dataset.splits.push_back(ReadSplit(*files, name));
    }
    if (dataset.splits.empty()) continue;
    // Only labels that occur are classes: EMNIST's letters begin at 1.
    std::array<int64_t, 256> label_of;
    label_of.fill(-1);
    for (const Split& split : dataset.splits) {
      for (const int64_t label : split.labels) label_of[static_cast<size_t>(label)] = 0;
    }
    for (size_t label = 0; label < label_of.size(); ++label) {
      if (label_of[label] < 0) continue;
      label_of[label] = std::ssize(dataset.classes);
      dataset.classes.push_back(fmt::format("{}", label));
    }
    for (Split& split : dataset.splits) {
      for (int64_t& label : split.labels) label = label_of[static_cast<size_t>(label)];
    }
    return dataset;
  }
  return {};
}

}  // namespace qkv::train
