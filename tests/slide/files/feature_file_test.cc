// Feature files against h5py (golden/features.py), read by h5py and torch, damaged ones, and a full disk.
#include "qkv/slide/files/feature_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstdlib>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/io/crc32.h"
#include "qkv/io/zip.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

constexpr int64_t kTiles = 11, kWidth = 6;

// As golden/features.py has them.
float GoldenFeature(int64_t i) { return static_cast<float>(i * 37 % 256 - 128) * 0.125f; }

FeatureFile GoldenFeatures(int64_t tiles = kTiles) {
  FeatureFile file{.features = Tensor<float>({tiles, kWidth})};
  for (int64_t i = 0; i < file.features.size(); ++i) file.features[i] = GoldenFeature(i);
  for (int64_t i = 0; i < tiles; ++i) file.coords.push_back({256 * i, 7 * i * i});
  return file;
}

void ExpectGolden(const FeatureFile& file, int64_t tiles, const std::string& name) {
  const FeatureFile expected = GoldenFeatures(tiles);
  ASSERT_EQ(file.features.shape(), expected.features.shape()) << name;
  EXPECT_TRUE(std::ranges::equal(file.features.span(), expected.features.span())) << name;
}

std::filesystem::path FeatureGoldens() { return SourceFolder() / "tests/slide/golden/features"; }

std::string ReadError(const std::string& name) {
  return ErrorMessage([&] { ReadFeatureFile(FeatureGoldens() / (name + ".h5")); });
}

TEST(FeatureFiles, AreReadAsH5pyWroteThem) {
  for (const std::string name :
       {"trident", "clam", "half", "double", "gzip", "shuffle_gzip", "bag_of_one", "v108", "kinds"}) {
    const FeatureFile file = ReadFeatureFile(FeatureGoldens() / (name + ".h5"));
    ExpectGolden(file, kTiles, name);
    EXPECT_EQ(file.coords, GoldenFeatures().coords) << name;
  }
  ExpectGolden(ReadFeatureFile(FeatureGoldens() / "shrunk.h5"), 3, "shrunk");
  const FeatureFile empty = ReadFeatureFile(FeatureGoldens() / "empty.h5");
  EXPECT_EQ(empty.features.shape(), Shape({0, kWidth}));
  EXPECT_TRUE(empty.coords.empty());
}

TEST(FeatureFiles, HaveTheAttributesThatH5pyWrote) {
  const FeatureFile trident = ReadFeatureFile(FeatureGoldens() / "trident.h5");
  EXPECT_EQ(trident.feature_attributes,
            (Attributes{{"name", "slidé"}, {"savetodir", "features_uni_v1"}, {"encoder", "None"}}));
  EXPECT_EQ(trident.coord_attributes, (Attributes{{"patch_size", int64_t{256}},
                                                  {"patch_size_level0", int64_t{512}},
                                                  {"level0_magnification", int64_t{40}},
                                                  {"target_magnification", int64_t{20}},
                                                  {"overlap", int64_t{0}},
                                                  {"name", "slidé"},
                                                  {"savetodir", "patches"},
                                                  {"level0_width", int64_t{2220}},
                                                  {"level0_height", int64_t{2967}}}));
  EXPECT_EQ(ReadFeatureFile(FeatureGoldens() / "kinds.h5").feature_attributes, (Attributes{{"int", int64_t{-5}},
                                                                                           {"uint", int64_t{200}},
                                                                                           {"float", 0.5},
                                                                                           {"half", 0.25},
                                                                                           {"text", "é"},
                                                                                           {"fixed", "abc"},
                                                                                           {"nothing", ""},
                                                                                           {"yes", int64_t{1}},
                                                                                           {"one", int64_t{7}}}));
}

TEST(FeatureFiles, SayWhyTheyAreRefused) {
  const std::vector<std::pair<std::string, std::string>> reasons = {
      {"latest", "an index of chunks of HDF5 1.10 (libver='latest'), which is not read; h5repack"},
      {"lzf", "features is packed by lzf, which is not read; h5repack"},
      {"checksum", "features is packed by fletcher32"},
      {"big_endian", "expected features of float16, float32 or float64, got big-endian numbers"},
      {"integers", "expected features of float16, float32 or float64, got int32"},
      {"vector", "expected features of shape [tiles, D] or [1, tiles, D], got [6]"},
      {"coords", "expected coords of integers [tiles, 2], got float32 [11, 2]"},
      {"external_link", "features is a link to another place or file"},
      {"soft_link", "features is a link to another place or file"},
      {"external_storage", "features lies in another file"},
      {"virtual", "features is a virtual dataset"},
      {"group", "expected features to be a dataset, got something else"},
      {"other_names", "expected a dataset features, got feats"},
      {"incomplete", "features was not written completely: expected 11 chunks, got 4"},
  };
  for (const auto& [name, reason] : reasons) {
    const std::string message = ReadError("refused_" + name);
    EXPECT_NE(message.find(reason), std::string::npos) << name << ": " << message;
  }
  EXPECT_NE(ErrorMessage([] { ReadFeatureBytes({}, "it"); }).find("it: expected an HDF5 file"), std::string::npos);
}

TEST(FeatureFiles, AreWholeOrRefusedWhenCutOffAnywhere) {
  for (const std::string name : {"trident", "gzip", "v108"}) {
    const std::string whole = ReadFile(FeatureGoldens() / (name + ".h5"));
    for (size_t length = 0; length < whole.size(); ++length) {
      const auto cut = std::as_bytes(std::span(whole.data(), length));
      EXPECT_NE(ErrorMessage([&] { ReadFeatureBytes(cut, "it"); }), "") << name << " " << length;
    }
  }
}

TEST(FeatureFiles, SurviveEveryFlippedByte) {
  const int64_t limit = MemoryLimit();
  SetMemoryLimit(int64_t{64} << 20);
  for (const auto& entry : std::filesystem::directory_iterator(FeatureGoldens())) {
    const std::string whole = ReadFile(entry.path());
    for (size_t at = 0; at < whole.size(); ++at) {
      for (const int bits : {0xFF, 0x01}) {
        std::string flipped = whole;
        flipped[at] = static_cast<char>(flipped[at] ^ bits);
        ErrorMessage([&] { ReadFeatureBytes(std::as_bytes(std::span(flipped)), "it"); });
      }
      if (whole[at] == 0 && at % 3 != 0) ++at;  // most of a file is room that nothing uses
    }
  }
  SetMemoryLimit(limit);
}

#ifdef QKV_HAS_HDF5
FeatureFile DescribedFeatures() {
  FeatureFile file = GoldenFeatures();
  file.feature_attributes = {{"encoder", "uni_v1"}, {"name", "slidé"}, {"savetodir", ""}};
  file.coord_attributes = {
      {"patch_size", int64_t{256}}, {"level0_magnification", int64_t{40}}, {"mpp", 0.25}, {"name", "slidé"}};
  return file;
}

TEST(FeatureFiles, AreReadBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const FeatureFile written = DescribedFeatures();
  WriteFeatureFile(folder / "features.h5", written);
  const FeatureFile file = ReadFeatureFile(folder / "features.h5");
  ExpectGolden(file, kTiles, "written");
  EXPECT_EQ(file.coords, written.coords);
  EXPECT_EQ(file.feature_attributes, written.feature_attributes);
  EXPECT_EQ(file.coord_attributes, written.coord_attributes);
  WriteFeatureFile(folder / "again.h5", written);
  EXPECT_EQ(ReadFile(folder / "features.h5"), ReadFile(folder / "again.h5"));
  // More chunks than a node of the tree has.
  const FeatureFile many = GoldenFeatures(5'000);
  WriteFeatureFile(folder / "many.h5", many);
  ExpectGolden(ReadFeatureFile(folder / "many.h5"), 5'000, "many");
  EXPECT_NE(ErrorMessage([&] {
              FeatureFile zero = GoldenFeatures(1);
              zero.feature_attributes = {{"name", std::string("a\0b", 3)}};
              WriteFeatureFile(folder / "zero.h5", zero);
            }).find("the attribute name has a zero byte"),
            std::string::npos);
}

TEST(FeatureFiles, AreReadByH5pyAndTorch) {
  const TemporaryFolder folder;
  WriteFeatureFile(folder / "features.h5", DescribedFeatures());
  WriteFeatureFile(folder / "empty.h5", GoldenFeatures(0));
  FeatureFile slide{.features = GoldenFeatures(1).features.Clone(), .coords = GoldenFeatures().coords};
  WriteFeatureFile(folder / "slide.h5", slide);
  WriteCoords(folder / "coords.h5", GoldenFeatures().coords, DescribedFeatures().coord_attributes);
  WriteTorchTensor(folder / "features.pt", GoldenFeatures().features.view());
  WriteTorchTensor(folder / "empty.pt", GoldenFeatures(0).features.view());
  const char* const python = ::getenv("QKV_SLIDE_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "QKV_SLIDE_PYTHON is not set: a Python with h5py or torch";
  const std::string command = fmt::format("{} {}/tests/slide/files/read_by_originals.py {}", python,
                                          SourceFolder().string(), folder.path().string());
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
}

TEST(FeatureFiles, LeaveTheOldOneWhereThereIsNoRoom) {
  const TemporaryFolder folder;
  WriteFeatureFile(folder / "a.h5", GoldenFeatures());
  const std::string old = ReadFile(folder / "a.h5");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room : {rlim_t{0}, rlim_t{100}, rlim_t{5'000}, rlim_t{20'000}}) {
    rlimit small = before;
    small.rlim_cur = room;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string message = ErrorMessage([&] { WriteFeatureFile(folder / "a.h5", GoldenFeatures(1'000)); });
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_NE(message.find("cannot write"), std::string::npos) << message;
    EXPECT_EQ(ReadFile(folder / "a.h5"), old);
    EXPECT_EQ(folder.Count(), 1);
  }
  std::signal(SIGXFSZ, handler);
  WriteFeatureFile(folder / "a.h5", GoldenFeatures(1'000));
  ExpectGolden(ReadFeatureFile(folder / "a.h5"), 1'000, "afterwards");
}
#else
TEST(FeatureFiles, SayWhatIsMissing) {
  EXPECT_NE(ErrorMessage([] { WriteFeatureFile("a.h5", GoldenFeatures()); }).find("libhdf5-dev"), std::string::npos);
}
#endif

TEST(TorchTensors, AreStoredWhereTheyCanBeMapped) {
  const TemporaryFolder folder;
  const FeatureFile file = GoldenFeatures();
  WriteTorchTensor(folder / "a.pt", file.features.view());
  const MappedFile mapped(folder / "a.pt");
  const std::vector<io::ZipEntry> entries = io::ListZip(mapped.bytes(), "it");
  ASSERT_EQ(entries.size(), 4);
  const io::ZipEntry* const data = io::FindEntry(entries, "a/data/0");
  ASSERT_NE(data, nullptr);
  EXPECT_TRUE(std::ranges::equal(data->bytes, std::as_bytes(file.features.span())));
  EXPECT_EQ((data->bytes.data() - mapped.bytes().data()) % 64, 0);
  EXPECT_EQ(data->crc, io::Crc32(data->bytes));
  EXPECT_NE(ErrorMessage([&] { WriteTorchTensor(folder / "b.pt", file.features.view().slice(1, 0, 2)); }).find("gaps"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::slide
