// Data sets of every format, honest and broken.
#include "qkv/train/data/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "qkv/core/memory.h"
#include "qkv/train/data/archive.h"
#include "qkv/train/data/dataset_formats.h"
#include "tests/support/compress.h"
#include "tests/support/errors.h"
#include "tests/train/data.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

bool Contains(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

std::string TarMember(const std::string& name, const std::string& content) {
  std::string header(512, '\0');
  name.copy(header.data(), 100);
  fmt::format("{:011o}", content.size()).copy(header.data() + 124, 11);
  header[156] = '0';
  header.replace(148, 8, "        ");
  size_t sum = 0;
  for (const char c : header) sum += static_cast<uint8_t>(c);
  fmt::format("{:06o}", sum).copy(header.data() + 148, 6);
  header[154] = '\0';
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

std::string IdxFile(const std::vector<int>& extents, const std::string& values) {
  std::string file{'\0', '\0', '\x08', static_cast<char>(extents.size())};
  for (const int extent : extents) {
    for (int shift = 24; shift >= 0; shift -= 8) file += static_cast<char>(extent >> shift);
  }
  return file + values;
}

// `count` records: label i % classes, pixel (y, x, c) = i + y + 2 x + 100 c.
std::string CifarFile(int count, int classes, int label_bytes) {
  std::string file;
  for (int i = 0; i < count; ++i) {
    if (label_bytes == 2) file += '\x07';  // a coarse label, which does not count
    file += static_cast<char>(i % classes);
    for (int c = 0; c < 3; ++c) {
      for (int y = 0; y < 32; ++y) {
        for (int x = 0; x < 32; ++x) file += static_cast<char>(i + y + 2 * x + 100 * c);
      }
    }
  }
  return file;
}

// --- Image folders --------------------------------------------------------------------------------------------------

TEST(ImageFolder, InSplits) {
  const TemporaryFolder folder;
  WriteImages(folder / "train/cat", 3, 0);
  WriteImages(folder / "train/dog/puppies", 2, 0);  // folders within folders
  WriteImages(folder / "valid/cat", 1, 0);
  WriteImages(folder / "test/dog", 2, 0);
  WriteImages(folder / "train/.hidden", 2, 0);
  WriteImages(folder / "train/__MACOSX", 2, 0);
  WriteFile(folder / "train/cat/._000.png", "AppleDouble");
  WriteFile(folder / "train/cat/notes.txt", "not looked at");
  const Dataset dataset = OpenDataset(folder.path());
  EXPECT_EQ(dataset.format, "image folder");
  EXPECT_EQ(dataset.classes, (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(dataset.Find("train")->labels, (std::vector<int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(dataset.Find("train")->files[3], folder / "train/dog/puppies/000.png");
  EXPECT_EQ(dataset.Find("val")->labels, (std::vector<int64_t>{0}));
  EXPECT_EQ(dataset.Find("test")->labels, (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(dataset.Find("all"), nullptr);
  EXPECT_EQ(Summary(dataset), "image folder: train (5 images), val (1 images), test (2 images), 2 classes");
  EXPECT_EQ(&ForEvaluation(dataset), dataset.Find("test"));
  EXPECT_EQ(&ForEvaluation(dataset, "train"), dataset.Find("train"));
}

TEST(ImageFolder, InOnePiece) {
  const TemporaryFolder folder;
  for (const char* name : {"10", "9", "0"}) WriteImages(folder / name, 2, 0);
  const Dataset dataset = OpenDataset(folder.path());
  EXPECT_EQ(dataset.classes, (std::vector<std::string>{"0", "9", "10"}));  // numbers, in their order
  ASSERT_EQ(dataset.splits.size(), 1u);
  EXPECT_EQ(dataset.splits[0].labels, (std::vector<int64_t>{0, 0, 2, 2, 1, 1}));  // files by the alphabet
  EXPECT_EQ(&ForEvaluation(dataset), dataset.Find("all"));
  EXPECT_TRUE(Contains(ErrorMessage([&] { ForEvaluation(dataset, "val"); }), "only \"all\""));
}

TEST(ImageFolder, ClassesMayBeCalledTest) {
  const TemporaryFolder folder;
  WriteImages(folder / "test", 2, 0);
  WriteImages(folder / "product", 2, 0);
  EXPECT_EQ(OpenDataset(folder.path()).classes, (std::vector<std::string>{"product", "test"}));
}

TEST(ImageFolder, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto said = [&] { return ErrorMessage([&] { OpenDataset(folder.path()); }); };
  EXPECT_TRUE(Contains(said(), "no data set"));
  WriteImages(folder.path(), 2, 0);
  EXPECT_TRUE(Contains(said(), "a folder for each class"));
  WriteImages(folder / "train/cat", 2, 0);
  WriteImages(folder / "val/dog", 2, 0);
  EXPECT_TRUE(Contains(said(), "dog: no such class in the training split"));
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "missing"); }), "there is no"));
  WriteFile(folder / "readme", "text");
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "readme"); }), "no data set"));
}

// --- What training makes of it --------------------------------------------------------------------------------------

// An image has one class, and is trained on or validated on.
TEST(ImageFolder, LinksLeadToNoSecondCopy) {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b"}) WriteImages(folder / name, 4, 1);
  fs::create_symlink(".", folder / "a/self");
  fs::create_symlink(".", folder / "a/again");
  fs::create_symlink("../b", folder / "a/other");
  fs::create_symlink("..", folder / "a/all");
  const Dataset dataset = OpenDataset(folder.path());
  EXPECT_EQ(dataset.splits[0].size(), 8);
  EXPECT_EQ(std::set<fs::path>(dataset.splits[0].files.begin(), dataset.splits[0].files.end()).size(), 8u);
  EXPECT_EQ(std::ranges::count(dataset.splits[0].labels, 0), 4);
  fs::create_symlink("b", folder / "c");
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder.path()); }), "there twice"));
}

TEST(ImageFolder, TheSameFolderIsNotTrainedOnAndValidatedOn) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a", "train/b", "val/a"}) WriteImages(folder / name, 4, 1);
  fs::create_symlink("../train/b", folder / "val/b");
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder.path()); }), "there twice"));
}

TEST(ImageFolder, ValidationAndTestMayBeTheSame) {
  const TemporaryFolder folder;
  for (const char* name : {"train/a", "train/b", "val/a", "val/b"}) WriteImages(folder / name, 3, 1);
  fs::create_symlink("val", folder / "test");
  const Dataset dataset = OpenDataset(folder.path());
  ASSERT_EQ(dataset.splits.size(), 3u);
  for (const Split& split : dataset.splits) EXPECT_EQ(split.size(), 6) << split.name;
}

TEST(ForTraining, TakesValidationWhereThereIsOne) {
  const TemporaryFolder folder;
  for (const char* name : {"train/cat", "train/dog", "train/emu", "val/cat", "val/dog", "test/cat"}) {
    WriteImages(folder / name, 2, 0);
  }
  TrainingData data = ForTraining(OpenDataset(folder.path()), 0.1, 1);
  EXPECT_EQ(data.train.size(), 6);
  EXPECT_EQ(data.validation.name, "val");
  ASSERT_EQ(data.notes.size(), 1u);
  EXPECT_TRUE(Contains(data.notes[0], "no validation images of class \"emu\"")) << data.notes[0];
  fs::remove_all(folder / "val");
  EXPECT_EQ(ForTraining(OpenDataset(folder.path()), 0.1, 1).validation.name, "test");
}

TEST(ForTraining, RefusesADataSetWithoutImages) {
  EXPECT_EQ(ErrorMessage([] { ForTraining({}, 0.1, 1); }), "a data set without images: there is nothing to learn from");
}

TEST(ForTraining, HoldsOutAShareOfEachClassByTheSeed) {
  const TemporaryFolder folder;
  WriteImages(folder / "many", 40, 0);
  WriteImages(folder / "few", 3, 0);
  WriteImages(folder / "one", 1, 0);
  std::vector<std::set<fs::path>> held;
  for (const uint64_t seed : {1, 1, 2}) {
    const TrainingData data = ForTraining(OpenDataset(folder.path()), 0.2, seed);
    std::map<int64_t, int> counts;
    for (const int64_t label : data.validation.labels) ++counts[label];
    EXPECT_EQ(counts, (std::map<int64_t, int>{{0, 1}, {1, 8}}));  // few, many; the only image of one is for training
    std::set<fs::path> all(data.validation.files.begin(), data.validation.files.end());
    held.push_back(all);
    all.insert(data.train.files.begin(), data.train.files.end());
    EXPECT_EQ(all.size(), 44u);
    EXPECT_EQ(data.train.size() + data.validation.size(), 44);
    for (int64_t i = 0; i < data.train.size(); ++i) {
      const auto index = static_cast<size_t>(i);
      EXPECT_EQ(data.train.files[index].parent_path().filename(),
                data.classes[static_cast<size_t>(data.train.labels[index])]);
    }
    EXPECT_TRUE(Contains(data.notes.at(0), "9 of 44 images")) << data.notes[0];
  }
  EXPECT_EQ(held[0], held[1]);
  EXPECT_NE(held[0], held[2]);
}

TEST(ForTraining, HoldsOutPixels) {
  Dataset dataset{.format = "test", .classes = {"a", "b"}};
  dataset.splits.push_back(NoiseSplit(20, 2));
  const Tensor<uint8_t> pixels = dataset.splits[0].pixels.Clone();
  const TrainingData data = ForTraining(std::move(dataset), 0.2, 3);
  EXPECT_EQ(data.validation.pixels.shape(), (Shape{4, 8, 8, 3}));
  EXPECT_EQ(data.train.pixels.shape(), (Shape{16, 8, 8, 3}));
  // Each image is one of those that there were, with its label.
  for (const Split* split : {&data.train, &data.validation}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      int found = 0;
      for (int64_t j = 0; j < 20; ++j) {
        found += std::equal(pixels.view().row(j), pixels.view().row(j) + 8 * 8 * 3, split->pixels.view().row(i)) &&
                 j % 2 == split->labels[static_cast<size_t>(i)];
      }
      EXPECT_EQ(found, 1);
    }
  }
}

TEST(ForTraining, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  const auto said = [&](double share) {
    return ErrorMessage([&] { ForTraining(OpenDataset(folder.path()), share, 1); });
  };
  WriteImages(folder / "cat", 3, 0);
  EXPECT_TRUE(Contains(said(0.1), "one class, \"cat\"")) << said(0.1);
  fs::create_directories(folder / "dog");
  EXPECT_TRUE(Contains(said(0.1), "no training images of class \"dog\"")) << said(0.1);
  WriteImages(folder / "dog", 1, 0);
  EXPECT_EQ(said(0.1), "");
  EXPECT_TRUE(Contains(said(0), "neither a val nor a test split"));
  fs::remove_all(folder / "cat");
  WriteImages(folder / "cat", 1, 0);
  EXPECT_TRUE(Contains(said(0.1), "nothing to validate on"));
}

// --- CIFAR ----------------------------------------------------------------------------------------------------------

void ExpectCifar(const Dataset& dataset, int train, int test) {
  EXPECT_EQ(dataset.Find("train")->size(), train);
  EXPECT_EQ(dataset.Find("test")->size(), test);
  const Split& split = *dataset.Find("train");
  const View<const uint8_t> pixels = split.pixels;
  EXPECT_EQ(pixels.shape(), (Shape{train, 32, 32, 3}));
  EXPECT_EQ(split.labels[3], 3);
  for (const int64_t c : {0, 1, 2}) EXPECT_EQ(*pixels.at(3, 5, 7, c), static_cast<uint8_t>(3 + 5 + 2 * 7 + 100 * c));
  EXPECT_EQ(split.SampleName(3), "train image 3");
}

TEST(Cifar, Ten) {
  const TemporaryFolder folder;
  const fs::path inside = folder / "cifar-10-batches-bin";
  fs::create_directories(inside);
  WriteFile(inside / "data_batch_1.bin", CifarFile(12, 10, 1));
  WriteFile(inside / "data_batch_2.bin", CifarFile(8, 10, 1));
  WriteFile(inside / "test_batch.bin", CifarFile(5, 10, 1));
  const Dataset unnamed = OpenDataset(inside);
  EXPECT_EQ(unnamed.format, "CIFAR-10, binary");
  EXPECT_EQ(unnamed.classes[3], "3");
  ExpectCifar(unnamed, 20, 5);
  WriteFile(inside / "batches.meta.txt", "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  EXPECT_EQ(OpenDataset(folder.path()).classes[9], "truck");
}

TEST(Cifar, Hundred) {
  const TemporaryFolder folder;
  WriteFile(folder / "train.bin", CifarFile(101, 100, 2));
  WriteFile(folder / "test.bin", CifarFile(3, 100, 2));
  const Dataset dataset = OpenDataset(folder.path());
  EXPECT_EQ(dataset.format, "CIFAR-100, binary");
  EXPECT_EQ(dataset.classes.size(), 100u);
  ExpectCifar(dataset, 101, 3);
}

TEST(Cifar, FromTheArchive) {
  const TemporaryFolder folder;
  const std::string tar = TarMember("cifar-10-batches-bin/data_batch_1.bin", CifarFile(7, 10, 1)) +
                          TarMember("cifar-10-batches-bin/test_batch.bin", CifarFile(2, 10, 1)) +
                          std::string(1024, '\0');
  WriteFile(folder / "cifar-10-binary.tar", tar);
  WriteFile(folder / "cifar-10-binary.tar.gz", Gzip(tar));
  ExpectCifar(OpenDataset(folder / "cifar-10-binary.tar"), 7, 2);
  ExpectCifar(OpenDataset(folder / "cifar-10-binary.tar.gz"), 7, 2);
  WriteFile(folder / "other.tar", TarMember("a.txt", "text"));
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "other.tar"); }), "without CIFAR's"));
}

TEST(Cifar, Broken) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& content) {
    WriteFile(folder / "data_batch_1.bin", content);
    return ErrorMessage([&] { OpenDataset(folder.path()); });
  };
  EXPECT_TRUE(Contains(said(""), "expected a multiple of 3073"));
  EXPECT_TRUE(Contains(said(CifarFile(2, 10, 1).substr(1)), "expected a multiple of 3073"));
  EXPECT_TRUE(Contains(said(CifarFile(12, 12, 1)), "a label 10, expected one below 10"));
}

TEST(Archive, Broken) {
  const auto tar = [](const std::string& text) {
    return ErrorMessage([&] { ListTar(std::as_bytes(std::span(text)), "x.tar"); });
  };
  const std::string good = TarMember("a", std::string(700, 'x'));
  EXPECT_EQ(tar(good), "");
  EXPECT_TRUE(Contains(tar(good.substr(0, 1000)), "ends too early"));
  EXPECT_TRUE(Contains(tar(std::string(1024, 'x')), "no tar archive"));
  EXPECT_TRUE(Contains(tar(""), "no tar archive"));
  std::string changed = good;
  changed[0] = 'b';
  EXPECT_TRUE(Contains(tar(changed), "damaged"));

  const std::string text = std::string(3'000'000, 'y') + "end", packed = Gzip(text);
  const auto unpack = [](const std::string& bytes, size_t limit) {
    return io::Gunzip(std::as_bytes(std::span(bytes)), limit, "x.gz");
  };
  EXPECT_EQ(unpack(packed, text.size()), text);
  EXPECT_EQ(unpack(packed + Gzip("more"), 1 << 30), text + "more");
  EXPECT_TRUE(Contains(ErrorMessage([&] { unpack(packed, text.size() - 1); }), "more than"));
  EXPECT_TRUE(Contains(ErrorMessage([&] { unpack(packed.substr(0, packed.size() - 9), 1 << 30); }), "too early"));
  std::string damaged = packed;
  damaged[packed.size() / 2] ^= 0x55;
  damaged[packed.size() - 6] ^= 0x55;  // the checksum
  EXPECT_TRUE(Contains(ErrorMessage([&] { unpack(damaged, 1 << 30); }), "damaged"));
}

// Sets the limit that memory is held to, and takes it back.
struct LittleMemory {
  explicit LittleMemory(int64_t bytes) { SetMemoryLimit(bytes); }
  ~LittleMemory() { SetMemoryLimit(before); }
  const int64_t before = MemoryLimit();
};

TEST(Archive, BombsAreRefusedBeforeTheyAreUnpacked) {
  const std::string text(3'000'000, 'y'), packed = Gzip(text);
  const auto unpack = [](const std::string& bytes, size_t limit) {
    return ErrorMessage([&] { io::Gunzip(std::as_bytes(std::span(bytes)), limit, "x.gz"); });
  };
  // The length is told before; what tells another is unpacked as far as is accepted.
  EXPECT_TRUE(Contains(unpack(packed, 1'000'000), "unpacks to 3.0 MB, more than the 1.0 MB"));
  std::string lying = packed;
  lying.replace(lying.size() - 4, 4, std::string(4, '\1'));
  EXPECT_TRUE(Contains(unpack(lying, 100'000'000), "damaged"));
  lying.replace(lying.size() - 4, 4, std::string(4, '\0'));
  EXPECT_TRUE(Contains(unpack(lying, 1'000'000), "unpacks to more than 1.0 MB"));
  const LittleMemory little(2'000'000);
  EXPECT_TRUE(Contains(unpack(packed, 100'000'000), "--max-memory"));
  EXPECT_TRUE(Contains(unpack(lying, 100'000'000), "--max-memory"));
}

// Files with holes cost nothing to make.
TEST(Archive, DataSetsAreHeldToMemory) {
  const TemporaryFolder folder;
  for (const char* name : {"cifar", "mnist", "packed"}) fs::create_directories(folder / name);
  WriteFile(folder / "cifar/data_batch_1.bin", "");
  fs::resize_file(folder / "cifar/data_batch_1.bin", uintmax_t{3073} << 20);
  WriteFile(folder / "mnist/train-images-idx3-ubyte", IdxFile({1 << 20, 64, 64}, ""));
  fs::resize_file(folder / "mnist/train-images-idx3-ubyte", 16 + (uintmax_t{1} << 32));
  WriteFile(folder / "mnist/train-labels-idx1-ubyte", IdxFile({1 << 20}, std::string(1 << 20, '\1')));
  // The header says how many bytes there can be.
  WriteFile(folder / "packed/train-images-idx3-ubyte.gz",
            Gzip(IdxFile({1 << 20, 64, 64}, std::string(5'000'000, 'x'))));
  WriteFile(folder / "packed/train-labels-idx1-ubyte.gz", Gzip(IdxFile({2}, std::string(5'000'000, '\1'))));
  std::string rows;
  for (int i = 0; i < 20'000; ++i) rows += "a,b\n";
  WriteFile(folder / "list.csv", rows);
  {
    const LittleMemory little(5'000'000);
    for (const char* name : {"cifar", "mnist", "packed", "list.csv"}) {
      EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / name); }), "--max-memory")) << name;
    }
  }
  WriteFile(folder / "packed/train-images-idx3-ubyte.gz", Gzip(IdxFile({2, 1, 1}, "ab")));
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "packed"); }), "unpacks to 5.0 MB, more than"));
}

// --- MNIST ----------------------------------------------------------------------------------------------------------

TEST(Mnist, PlainAndPacked) {
  const TemporaryFolder folder;
  std::string pixels;
  for (int i = 0; i < 3 * 4 * 5; ++i) pixels += static_cast<char>(i * 3);
  WriteFile(folder / "train-images-idx3-ubyte", IdxFile({3, 4, 5}, pixels));
  WriteFile(folder / "train-labels-idx1-ubyte", IdxFile({3}, std::string("\x07\x01\x04")));
  WriteFile(folder / "t10k-images-idx3-ubyte.gz", Gzip(IdxFile({1, 4, 5}, pixels.substr(20, 20))));
  WriteFile(folder / "t10k-labels-idx1-ubyte.gz", Gzip(IdxFile({1}, std::string("\x04"))));
  const Dataset dataset = OpenDataset(folder.path());
  EXPECT_EQ(dataset.format, "MNIST, IDX");
  EXPECT_EQ(dataset.classes, (std::vector<std::string>{"1", "4", "7"}));
  EXPECT_EQ(dataset.Find("train")->labels, (std::vector<int64_t>{2, 0, 1}));
  EXPECT_EQ(dataset.Find("train")->pixels.shape(), (Shape{3, 4, 5, 1}));
  EXPECT_EQ(*dataset.Find("train")->pixels.view().at(1, 2, 3, 0), (20 + 10 + 3) * 3);
  EXPECT_EQ(dataset.Find("test")->labels, (std::vector<int64_t>{1}));
  EXPECT_EQ(dataset.Find("test")->pixels[19], 39 * 3);
  // The same file twice is no riddle, two sets in one folder are.
  WriteFile(folder / "train-images-idx3-ubyte.gz", Gzip(IdxFile({3, 4, 5}, pixels)));
  EXPECT_EQ(OpenDataset(folder.path()).Find("train")->size(), 3);
  WriteFile(folder / "emnist-train-images-idx3-ubyte", IdxFile({3, 4, 5}, pixels));
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder.path()); }), "several files"));
}

TEST(Mnist, Broken) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& images, const std::string& labels) {
    WriteFile(folder / "train-images-idx3-ubyte", images);
    if (!labels.empty()) WriteFile(folder / "train-labels-idx1-ubyte", labels);
    return ErrorMessage([&] { OpenDataset(folder.path()); });
  };
  const std::string good = IdxFile({2, 1, 2}, "abcd"), labels = IdxFile({2}, "\x01\x02");
  EXPECT_TRUE(Contains(said(good, ""), "no train-labels-idx1-ubyte beside it"));
  EXPECT_EQ(said(good, labels), "");
  EXPECT_TRUE(Contains(said(good.substr(1), labels), "no IDX file"));
  EXPECT_TRUE(Contains(said(good.substr(0, 9), labels), "cut off"));
  EXPECT_TRUE(Contains(said(good + "e", labels), "5 bytes of data, expected 2 x 1 x 2"));
  EXPECT_TRUE(Contains(said(good, IdxFile({3}, "abc")), "labels of 3 images, expected 2"));
  EXPECT_TRUE(Contains(said(labels, labels), "1 axes, expected 3"));
  EXPECT_TRUE(Contains(said(IdxFile({2, 0, 2}, ""), labels), "without pixels"));
  std::string floats = good;
  floats[2] = 13;
  EXPECT_TRUE(Contains(said(floats, labels), "type 13"));
  EXPECT_TRUE(Contains(said(IdxFile({-1, -1, -1}, "a"), labels), "4294967295 x 4294967295"));
}

// --- CSV ------------------------------------------------------------------------------------------------------------

TEST(Csv, PathsAndLabels) {
  const TemporaryFolder folder;
  WriteFile(folder / "list.csv", "a.png,cat\r\n\"b, c.png\",dog\nsub/d.png,\"c\"\"at\"\n\n");
  const Dataset dataset = OpenDataset(folder / "list.csv");
  EXPECT_EQ(dataset.format, "CSV");
  EXPECT_EQ(dataset.classes, (std::vector<std::string>{"c\"at", "cat", "dog"}));
  const Split& all = *dataset.Find("all");
  EXPECT_EQ(all.labels, (std::vector<int64_t>{1, 2, 0}));
  EXPECT_EQ(all.files[1], folder / "b, c.png");
  EXPECT_EQ(all.files[2], folder / "sub/d.png");
}

TEST(Csv, NamedColumnsAndSplits) {
  const TemporaryFolder folder;
  WriteFile(folder / "list.tsv",
            "\xEF\xBB\xBFSplit\tid\tLabel\tFile\ntrain\t1\t10\ta.png\nval\t2\t9\t/b.png\nTrain\t3\t9\tc.png");
  const Dataset dataset = OpenDataset(folder / "list.tsv");
  EXPECT_EQ(dataset.classes, (std::vector<std::string>{"9", "10"}));
  EXPECT_EQ(dataset.Find("train")->labels, (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(dataset.Find("val")->files[0], "/b.png");  // absolute paths stay
  EXPECT_EQ(dataset.Find("test"), nullptr);
}

TEST(Csv, SaysWhatIsWrong) {
  const auto said = [](const std::string& text) { return ErrorMessage([&] { ParseCsv(text, "x.csv"); }); };
  EXPECT_TRUE(Contains(said("a.png,cat\nb.png\n"), "x.csv:2: 1 fields"));
  EXPECT_TRUE(Contains(said("a.png,\n"), "x.csv:1: no label"));
  EXPECT_TRUE(Contains(said(",cat\n"), "x.csv:1: no path"));
  EXPECT_TRUE(Contains(said("a.png,cat,foo\n"), "expected train, val or test"));
  EXPECT_TRUE(Contains(said("a,b\n\"c\nd"), "x.csv:2: a quoted field without an end"));
  EXPECT_TRUE(Contains(said("\"a\"b,c\n"), "unexpected text"));
  EXPECT_TRUE(Contains(said(std::string("a\0b,c\n", 6)), "zero byte"));
  const TemporaryFolder folder;
  WriteFile(folder / "x.csv", "a.png,cat,train\nb.png,dog\n");
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "x.csv"); }), "b.png has no split"));
  WriteFile(folder / "x.csv", "path,label\n");
  EXPECT_TRUE(Contains(ErrorMessage([&] { OpenDataset(folder / "x.csv"); }), "without rows"));
}

}  // namespace
}  // namespace qkv::train
