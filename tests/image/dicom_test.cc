// DICOM against pydicom and the formulas of its standard (generate_dicom.py).
#include <fstream>
#include <limits>
#include <sstream>

#include "qkv/image/dicom_mark.h"
#include "qkv/io/crc32.h"
#include "tests/image/golden.h"

namespace qkv::image {
namespace {

class Dicom : public testing::Test {
 protected:
  Dicom() : golden_(io::SafeTensors::Open(GoldenFolder() / "dicom.safetensors")) {}

  std::span<const std::byte> File(const std::string& name) const { return golden_.Find("file/" + name)->bytes; }
  std::string Refusal(std::span<const std::byte> bytes) const {
    try {
      Decode(bytes, {}, "the/file");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // What was told of a file.
  std::vector<std::string> Remarks(const std::string& name) const {
    std::vector<std::string> told;
    Decode(File(name), {.remark = [&](std::string_view text) { told.emplace_back(text); }}, name);
    return told;
  }

  io::SafeTensors golden_;
};

TEST_F(Dicom, ShowsWhatPydicomAndTheFormulasDo) {
  const auto expected = WithPrefix(golden_, "shown/");
  EXPECT_GT(expected.size(), 40u);
  for (const auto& [name, tensor] : expected) {
    const size_t mark = name.find('#');
    const DecodeOptions options{.frame = std::stoi(name.substr(mark + 1))};
    ExpectSame(Decode(File(name.substr(0, mark)), options, name), ToImage(tensor), name);
  }
}

TEST_F(Dicom, AWindowReplacesThatOfTheFile) {
  ExpectSame(Decode(File("linear"), {.window = std::pair{-1350.0, 150.0}}, "linear"),
             ToImage(*golden_.Find("window/linear")), "linear");
  ExpectSame(Decode(File("inverted"), {.window = std::pair{1000.0, 3000.0}}, "inverted"),
             ToImage(*golden_.Find("window/inverted")), "inverted");
}

TEST_F(Dicom, WhatWasChosenIsTold) {
  const std::string window = "DICOM: grey levels through the window in the file";
  EXPECT_EQ(Remarks("linear"), std::vector{window});
  EXPECT_EQ(Remarks("voi_table").at(0), "DICOM: grey levels through the table in the file (VOI LUT)");
  EXPECT_TRUE(Remarks("range").at(0).starts_with("DICOM: no window in the file: grey levels from the least"));
  EXPECT_TRUE(Remarks("no_width").at(0).starts_with("DICOM: no window in the file"));
  EXPECT_EQ(Remarks("bytes"), std::vector<std::string>());
  EXPECT_TRUE(Remarks("enhanced").at(1).starts_with("DICOM: several frames: the first is read"));
  DecodeOptions options{.window = std::pair{0.0, 1.0}, .remark = [](std::string_view text) { ADD_FAILURE() << text; }};
  Decode(File("linear"), options, "linear");
}

TEST_F(Dicom, AFrameThatIsNotThereIsRefused) {
  const auto read = [&] { Decode(File("linear"), {.frame = 1}, "the/file"); };
  EXPECT_THROW(read(), Error);
}

// Files of QKV_DATA: checksums where nothing is lost, else means over parts of the picture. JPEG decoders round
// differently, by up to 3 levels in single samples.
TEST_F(Dicom, RealFilesShowTheSame) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  std::ifstream list(GoldenFolder() / "dicom.txt");
  int files = 0;
  for (std::string line; std::getline(list, line); ++files) {
    std::istringstream fields(line);
    std::string name, kind;
    int frame = 0;
    int64_t height = 0, width = 0, channels = 0;
    fields >> name >> frame >> height >> width >> channels >> kind;
    const Image image = DecodeFile(DataFolder() / "medical" / name, {.frame = frame});
    ASSERT_EQ(image.pixels.shape(), (Shape{height, width, channels})) << name;
    if (kind == "exact") {
      uint32_t checksum = 0;
      fields >> checksum;
      EXPECT_EQ(io::Crc32(std::as_bytes(image.pixels.span())), checksum) << name << " frame " << frame;
      continue;
    }
    // As numpy's array_split: the first parts are longer by one.
    constexpr int64_t kGrid = 8;
    const auto bound = [](int64_t side, int64_t part) { return part * (side / kGrid) + std::min(part, side % kGrid); };
    for (int64_t cell = 0; cell < kGrid * kGrid; ++cell) {
      const int64_t y = cell / kGrid, x = cell % kGrid;
      double sum = 0, expected = 0;
      for (int64_t i = bound(height, y); i < bound(height, y + 1); ++i)
        for (int64_t j = bound(width, x); j < bound(width, x + 1); ++j)
          for (int64_t c = 0; c < channels; ++c) sum += image.pixels.view().at(i, j)[c];
      const int64_t area = (bound(height, y + 1) - bound(height, y)) * (bound(width, x + 1) - bound(width, x));
      fields >> expected;
      EXPECT_NEAR(sum / static_cast<double>(area * channels), expected, 0.1) << name << " frame " << frame;
    }
  }
  EXPECT_GT(files, 30);
}

TEST_F(Dicom, WhatHoldsNoImageIsRefusedByName) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  const auto folder = DataFolder() / "medical";
  const auto refusal = [](const std::filesystem::path& file) {
    try {
      DecodeFile(file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_TRUE(refusal(folder / "dicom-wsi/sm_annotations.dcm")
                  .ends_with("sm_annotations.dcm: a DICOM file that holds annotations of a slide, not an image"));
  EXPECT_TRUE(refusal(folder / "dicom/MR_truncated.dcm")
                  .ends_with("DICOM: the file ends within an element: 8192 bytes expected, 8130 left"));
}

TEST_F(Dicom, TruncatedFilesAreErrors) {
  for (const char* name : {"linear", "implicit", "big", "deflated", "rle", "jpeg_2000", "enhanced"}) {
    const auto whole = File(name);
    for (size_t length = 0; length + 12 < whole.size(); length += length < 700 ? 1 : 7) {
      EXPECT_THROW(Decode(whole.first(length), {}, name), Error) << name << " of " << length << " bytes";
    }
  }
}

TEST_F(Dicom, FlippedBytesAreErrorsOrImages) {
  for (const char* name : {"linear", "implicit", "rle_rgb", "jpeg_2000", "enhanced", "palette_16", "voi_table"}) {
    const auto whole = File(name);
    std::vector<std::byte> bytes(whole.begin(), whole.end());
    for (size_t i = 128; i < bytes.size(); ++i) {
      for (const int flip : {0x01, 0x80, 0xFF}) {
        bytes[i] = whole[i] ^ std::byte(flip);
        Refusal(bytes);
      }
      bytes[i] = whole[i];
    }
  }
}

TEST_F(Dicom, SequencesAreBoundedInDepth) {
  // Each level is a sequence of undefined length with an item of undefined length.
  std::string deep(128, '\0');
  deep += "DICM";
  constexpr std::string_view kLevel("\x08\x00\x15\x11SQ\0\0\xFF\xFF\xFF\xFF\xFE\xFF\x00\xE0\xFF\xFF\xFF\xFF", 20);
  for (int i = 0; i < 100'000; ++i) deep += kLevel;
  EXPECT_EQ(Refusal(std::as_bytes(std::span(deep))), "the/file: DICOM: more than 48 sequences within each other");
}

TEST_F(Dicom, LengthsAreComparedWithTheFileBeforeMemoryIsTaken) {
  std::string file(128, '\0');
  file += "DICM";
  file += std::string_view("\x08\x00\x16\x00UN\0\0\xF0\xFF\xFF\xFF", 12);
  file += std::string(200, 'x');
  EXPECT_EQ(Refusal(std::as_bytes(std::span(file))),
            "the/file: DICOM: the file ends within an element: 4294967280 bytes expected, 200 left");
}

TEST_F(Dicom, NothingOfTheHeaderIsInAnError) {
  for (const auto& [name, tensor] : WithPrefix(golden_, "file/")) {
    std::vector<std::byte> bytes(tensor.bytes.begin(), tensor.bytes.end());
    for (size_t i = 132; i < std::min<size_t>(bytes.size(), 900); i += 3) {
      const std::byte before = std::exchange(bytes[i], std::byte{0x7F});
      EXPECT_EQ(Refusal(bytes).find("Canary"), std::string::npos) << name;
      bytes[i] = before;
    }
  }
}

TEST_F(Dicom, IsRecognisedBeforeTiff) {
  std::vector<std::byte> file(File("linear").begin(), File("linear").end());
  const std::string_view tiff("II*\0\x08\0\0\0", 8);
  std::ranges::copy(std::as_bytes(std::span(tiff)), file.begin());
  EXPECT_TRUE(IsDicom(file));
  ExpectSame(Decode(file, {}, "file"), ToImage(*golden_.Find("shown/linear#0")), "linear");
  EXPECT_FALSE(IsDicom(std::as_bytes(std::span(tiff))));
}

// A data set in explicit VR and little-endian order.
class DataSet {
 public:
  DataSet() : bytes_(std::string(128, '\0') + "DICM") {}
  DataSet& Add(uint32_t tag, std::string_view vr, std::string_view value) {
    Put<uint16_t>(tag >> 16).Put<uint16_t>(tag).bytes_ += vr;
    if (vr == "OW" || vr == "SQ") {
      Put<uint16_t>(0).Put<uint32_t>(value.size());
    } else {
      Put<uint16_t>(value.size());
    }
    bytes_ += value;
    return *this;
  }
  template <typename T>
  DataSet& Add(uint32_t tag, std::string_view vr, const std::vector<T>& values) {
    return Add(tag, vr, std::string_view(reinterpret_cast<const char*>(values.data()), sizeof(T) * values.size()));
  }
  std::span<const std::byte> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  template <typename T>
  DataSet& Put(uint64_t value) {
    const T number = static_cast<T>(value);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    return *this;
  }

  std::string bytes_;
};

DataSet FourPixels(std::string_view photometric) {
  DataSet set;
  set.Add<uint16_t>(0x00280002, "US", {1}).Add(0x00280004, "CS", photometric);
  set.Add<uint16_t>(0x00280010, "US", {2}).Add<uint16_t>(0x00280011, "US", {2});
  set.Add<uint16_t>(0x00280100, "US", {16}).Add<uint16_t>(0x00280101, "US", {16});
  return set;
}

// Entries beyond a table would be read.
TEST_F(Dicom, TablesOfImpossibleSizesAreRefused) {
  const std::vector<uint16_t> pixels = {0, 1, 2, 3}, entries = {5, 6, 7, 8};
  for (const double count : {-65536.0, -1e300, 1e300, 70000.0, std::numeric_limits<double>::quiet_NaN()}) {
    DataSet palette = FourPixels("PALETTE COLOR ");
    for (uint32_t colour = 1; colour <= 3; ++colour) {
      palette.Add<double>(0x00281100 + colour, "FD", {count, 0, 16});
    }
    for (uint32_t colour = 1; colour <= 3; ++colour) palette.Add(0x00281200 + colour, "OW", entries);
    EXPECT_NE(Refusal(palette.Add(0x7FE00010, "OW", pixels).bytes()).find("description"), std::string::npos) << count;
    DataSet item;
    item.Add<double>(0x00283002, "FD", {count, 0, 16}).Add(0x00283006, "OW", entries);
    const std::string_view table(reinterpret_cast<const char*>(item.bytes().data()) + 132, item.bytes().size() - 132);
    std::string sequence("\xFE\xFF\x00\xE0", 4);
    const auto length = static_cast<uint32_t>(table.size());
    sequence.append(reinterpret_cast<const char*>(&length), 4).append(table);
    DataSet grey = FourPixels("MONOCHROME2 ");
    grey.Add(0x00283010, "SQ", sequence).Add(0x7FE00010, "OW", pixels);
    EXPECT_NE(Refusal(grey.bytes()).find("description"), std::string::npos) << count;
  }
}

}  // namespace
}  // namespace qkv::image
