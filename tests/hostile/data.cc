// What data sets come in: tables, archives, CIFAR's and MNIST's files, a text; and the images that are kept of them.
#include "tests/train/data.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/train/data/archive.h"
#include "qkv/train/data/dataset.h"
#include "qkv/train/data/dataset_formats.h"
#include "qkv/train/data/image_store.h"
#include "tests/hostile/reader.h"
#include "tests/support/compress.h"

namespace qkv::hostile {
namespace {

namespace fs = std::filesystem;

void PutTarChecksum(std::string& bytes, size_t at) {
  bytes.replace(at + 148, 8, "        ");
  size_t sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<uint8_t>(bytes[at + i]);
  fmt::format("{:06o}", sum).copy(bytes.data() + at + 148, 6);
  bytes[at + 154] = '\0';
}

// That of the first header: the others begin where its length says.
void RepairTar(std::string& bytes) {
  if (bytes.size() >= 512) PutTarChecksum(bytes, 0);
}

std::string TarMember(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  name.copy(header.data(), 100);
  fmt::format("{:011o}", content.size()).copy(header.data() + 124, 11);
  header[156] = '0';
  PutTarChecksum(header, 0);
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

// Labels first, first + 1, …
std::string CifarRecords(int count, int label_bytes, int first = 0) {
  std::string records;
  for (int i = 0; i < count; ++i) {
    records += std::string(static_cast<size_t>(label_bytes), static_cast<char>(first + i)) + std::string(3072, 'p');
  }
  return records;
}

std::string Idx(std::initializer_list<int> extents, const std::string& values) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const int extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(extent >> shift);
  }
  return file + values;
}

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

Reading IdxFiles() {
  return {{{"images", Idx({3, 2, 4}, std::string(24, 'x'))}, {"labels", Idx({5}, std::string("\0\1\2\1\0", 5))}},
          [](const Seed&, const std::string& bytes) { train::ParseIdx(Bytes(bytes), "file"); }};
}

Reading CifarFiles() {
  return {{{"cifar10", CifarRecords(3, 1)}, {"cifar100", CifarRecords(2, 2)}},
          [](const Seed& seed, const std::string& bytes) {
            std::vector<int64_t> labels;
            std::vector<uint8_t> pixels;
            train::ParseCifar(Bytes(bytes), seed.name == "cifar10" ? 1 : 2, 10, "file", &labels, &pixels);
          }};
}

Reading Tables() {
  return {{{"csv", "path,label,split\na.png,cat,train\n\"b,\"\"c\"\".png\",dog,val\n"},
           {"tsv", "a.png\tcat\r\nb.png\tdog\r\n"},
           {"columns", "id,label,filename\n1,3,a.png\n2,10,b.png\n"}},
          [](const Seed&, const std::string& bytes) { train::ParseCsv(bytes, "file"); }};
}

Reading Archives() {
  const std::string tar =
      TarMember("data/a.bin", CifarRecords(1, 1)) + TarMember("data/b.txt", "cat\ndog\n") + std::string(1024, '\0');
  return {{{.name = "tar", .bytes = tar, .repair = RepairTar}},
          [](const Seed&, const std::string& bytes) { train::ListTar(Bytes(bytes), "file"); }};
}

Reading Compressed() {
  return {{{"short", Gzip("path,label\na,b\n")}, {"zeros", Gzip(std::string(1 << 20, '\0'))}},
          [](const Seed&, const std::string& bytes) { io::Gunzip(Bytes(bytes), 2 << 20, "file"); }};
}

// Data sets as they lie on disk, one file of theirs changed, found out and taken for training.
Reading DataSets() {
  const auto folder = std::make_shared<TemporaryFolder>();
  const auto add = [&](const fs::path& file, const std::string& bytes) {
    fs::create_directories((*folder / file.string()).parent_path());
    WriteFile(*folder / file.string(), bytes);
  };
  train::WriteImages(folder->path() / "table/images", 4, 1);
  for (const char* split : {"train", "t10k"}) {
    add(fmt::format("mnist/{}-images-idx3-ubyte", split), Idx({3, 2, 4}, std::string(24, 'x')));
    add(fmt::format("mnist/{}-labels-idx1-ubyte", split), Idx({3}, std::string("\0\1\2", 3)));
  }
  for (int i = 1; i <= 5; ++i) add(fmt::format("cifar/data_batch_{}.bin", i), CifarRecords(2, 1, 2 * i - 2));
  add("cifar/test_batch.bin", CifarRecords(2, 1));
  const std::string names = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
  std::string tar;
  for (int i = 1; i <= 5; ++i)
    tar += TarMember(fmt::format("cifar/data_batch_{}.bin", i), CifarRecords(2, 1, 2 * i - 2));
  tar += TarMember("cifar/test_batch.bin", CifarRecords(2, 1)) + TarMember("cifar/batches.meta.txt", names);

  Reading reading;
  const auto change = [&](const std::string& file, const std::string& bytes) -> Seed& {
    add(file, bytes);
    return reading.seeds.emplace_back(Seed{file, bytes});
  };
  change("table/list.csv", "path,label\nimages/000.png,a\nimages/001.png,b\nimages/002.png,a\nimages/003.png,b\n");
  change("mnist/train-labels-idx1-ubyte", Idx({3}, std::string("\0\1\2", 3)));
  change("cifar/batches.meta.txt", names);
  change("cifar.tar", tar + std::string(1024, '\0')).repair = RepairTar;
  change("cifar.tar.gz", Gzip(tar + std::string(1024, '\0')));
  reading.read = [folder](const Seed& seed, const std::string& bytes) {
    WriteFile(*folder / seed.name, bytes);
    const fs::path path = *folder / seed.name;
    const bool alone = path.parent_path() == folder->path() || path.extension() == ".csv";
    train::ForTraining(train::OpenDataset(alone ? path : path.parent_path()), 0.5, 1);
  };
  return reading;
}

// Kept images that are damaged are decoded anew.
Reading ImageCaches() {
  struct Files {
    TemporaryFolder folder;
    train::Dataset dataset;
    fs::path cache;
  };
  const auto files = std::make_shared<Files>();
  for (const char* name : {"a", "b"}) train::WriteImages(files->folder.path() / "data" / name, 3, 1);
  WriteFile(files->folder / "data/b/002.png", "no image");
  files->dataset = train::OpenDataset(files->folder / "data");
  const auto open = [](const Files& from) {
    const train::ImageStore store(from.dataset.splits[0], {.cache = from.folder / "cache"});
    image::Workspace workspace;
    image::Image image;
    for (int64_t i = 0; i < store.size(); ++i) {
      store.Get(i, workspace, image);
      Require(image.height() == 6 && image.width() == 8 && image.channels() == 3, "test: an image of another size");
      Require(store.label(i) >= 0 && store.label(i) < 2, "test: no such label");
    }
    for (const std::string& reason : store.unreadable()) Require(Printable(reason) == reason, "test: not printable");
  };
  open(*files);
  files->cache = fs::directory_iterator(files->folder / "cache")->path();
  return {{{"cache", ReadFile(files->cache)}}, [files, open](const Seed&, const std::string& bytes) {
            WriteFile(files->cache, bytes);
            open(*files);
          }};
}

}  // namespace

std::vector<Reader> DataReaders() {
  return {{.name = "Idx", .open = IdxFiles},
          {.name = "Cifar", .open = CifarFiles},
          {.name = "Csv", .open = Tables},
          {.name = "Tar", .open = Archives},
          {.name = "Gzip", .open = Compressed},
          {.name = "DataSet", .open = DataSets, .inputs = 80},
          {.name = "ImageCache", .open = ImageCaches}};
}

}  // namespace qkv::hostile
