// CIFAR-10 and CIFAR-100 (Krizhevsky 2009), binary version, as a folder or as the published archive.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "qkv/core/memory.h"
#include "qkv/train/data/archive.h"
#include "qkv/train/data/dataset_formats.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSide = 32, kPixels = kSide * kSide;

struct Kind {
  const char* format;
  const char* folder;  // within the archive
  const char* names;   // file of class names, one per line
  int64_t classes, label_bytes;
  std::vector<std::string> train, test;
};

const Kind& CifarKind(int which) {
  static const Kind kinds[] = {
      {"CIFAR-10, binary",
       "cifar-10-batches-bin",
       "batches.meta.txt",
       10,
       1,
       {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
       {"test_batch.bin"}},
      {"CIFAR-100, binary", "cifar-100-binary", "fine_label_names.txt", 100, 2, {"train.bin"}, {"test.bin"}},
  };
  return kinds[which];
}

// Returns the bytes of the named file, or nothing if there is none.
using Files = std::function<std::optional<std::span<const std::byte>>(const std::string& name)>;

std::vector<std::string> NamesIn(std::span<const std::byte> bytes) {
  std::vector<std::string> names;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) names.emplace_back(line);
  }
  return names;
}

// Checked before copying: each image's pixels are held twice, in the file's order and in ours.
void RequireMemoryFor(const Kind& kind, const Files& files, const std::string& where) {
  double bytes = 0;
  for (const auto* names : {&kind.train, &kind.test}) {
    for (const std::string& name : *names) {
      if (const auto file = files(name)) bytes += 2 * static_cast<double>(file->size());
    }
  }
  RequireMemory(bytes, FormatShown("{}: its images", where));
}

std::optional<Dataset> Read(const Files& files, const std::string& where) {
  for (int which = 0; which < 2; ++which) {
    const Kind& kind = CifarKind(which);
    RequireMemoryFor(kind, files, where);
    Dataset dataset{.format = kind.format};
    if (const auto names = files(kind.names)) dataset.classes = NamesIn(*names);
    if (std::ssize(dataset.classes) != kind.classes) {
      dataset.classes.clear();
      for (int64_t i = 0; i < kind.classes; ++i) dataset.classes.push_back(fmt::format("{}", i));
    }
    for (const char* name : {"train", "test"}) {
      Split split{.name = name};
      std::vector<uint8_t> pixels;
      for (const std::string& file : split.name == "train" ? kind.train : kind.test) {
        if (const auto bytes = files(file)) {
          ParseCifar(*bytes, kind.label_bytes, kind.classes, where + "/" + file, &split.labels, &pixels);
        }
      }
      if (split.labels.empty()) continue;
      split.pixels = Tensor<uint8_t>::Uninitialised({split.size(), kSide, kSide, 3});
      std::ranges::copy(pixels, split.pixels.data());
      dataset.splits.push_back(std::move(split));
    }
    if (!dataset.splits.empty()) return dataset;
  }
  return {};
}

std::optional<Dataset> ReadFolder(const fs::path& folder) {
  std::map<std::string, std::unique_ptr<PlainFile>> open;
  std::optional<Dataset> dataset = Read(
      [&](const std::string& name) -> std::optional<std::span<const std::byte>> {
        if (!fs::is_regular_file(folder / name)) return {};
        std::unique_ptr<PlainFile>& file = open[name];
        if (!file) file = std::make_unique<PlainFile>(folder / name);
        return file->bytes();
      },
      folder.string());
  for (const auto& [name, file] : open) file->RequireUnchanged();
  return dataset;
}

}  // namespace

void ParseCifar(std::span<const std::byte> bytes, int64_t label_bytes, int64_t classes, std::string_view where,
                std::vector<int64_t>* labels, std::vector<uint8_t>* pixels) {
  const auto record = static_cast<size_t>(label_bytes + 3 * kPixels);
  Require(bytes.size() % record == 0 && !bytes.empty(), "{}: {} bytes, expected a multiple of {}", where, bytes.size(),
          record);
  size_t out = pixels->size();
  pixels->resize(out + bytes.size() / record * 3 * kPixels);
  for (; !bytes.empty(); bytes = bytes.subspan(record)) {
    const auto label = static_cast<int64_t>(bytes[static_cast<size_t>(label_bytes) - 1]);
    Require(label < classes, "{}: a label {}, expected one below {}", where, label, classes);
    labels->push_back(label);
    const auto* in = reinterpret_cast<const uint8_t*>(bytes.data()) + label_bytes;
    for (int64_t i = 0; i < kPixels; ++i) {
      for (int64_t c = 0; c < 3; ++c) (*pixels)[out++] = in[c * kPixels + i];
    }
  }
}

std::optional<Dataset> OpenCifar(const fs::path& path) {
  if (fs::is_directory(path)) {
    for (const fs::path& folder : {path, path / CifarKind(0).folder, path / CifarKind(1).folder}) {
      if (std::optional<Dataset> dataset = ReadFolder(folder)) return dataset;
    }
    return {};
  }
  const std::string name = path.filename().string();
  if (!name.ends_with(".tar") && !name.ends_with(".tar.gz") && !name.ends_with(".tgz")) return {};
  const PlainFile file(path);
  const std::vector<ArchiveMember> members = ListTar(file.bytes(), path.string());
  std::optional<Dataset> dataset = Read(
      [&](const std::string& wanted) -> std::optional<std::span<const std::byte>> {
        for (const ArchiveMember& member : members) {
          if (fs::path(member.name).filename() == wanted) return member.bytes;
        }
        return {};
      },
      path.string());
  file.RequireUnchanged();
  Require(dataset.has_value(), "{}: an archive without CIFAR's binary files; unpack others, and name the folder",
          path.string());
  return dataset;
}

}  // namespace qkv::train
