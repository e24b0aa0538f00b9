// Damaged and hostile TIFFs: whatever a byte says, reading ends, with pixels or an Error that names the file.
#include <array>
#include <cstring>
#include <fstream>
#include <utility>

#include "qkv/core/memory.h"
#include "tests/slide/read/tiff_files.h"
#include "tests/support/errors.h"

namespace qkv::slide {
namespace {

class HostileTiffs : public testing::Test {
 protected:
  /// Opens the bytes and reads all of it. Returns the first message; empty if all is well.
  std::string ReadAll(std::string_view bytes) {
    const std::filesystem::path path = folder_ / "slide.tiff";
    std::ofstream(path, std::ios::binary) << bytes;
    return ErrorMessage([&] {
      std::string why;
      const auto slide = OpenTiff(path, {}, why);
      if (slide == nullptr) throw Error(path.string() + ": " + why);
      image::Image pixels;
      for (int level = 0; level < std::ssize(slide->facts().levels); ++level)
        slide->Read(level, {0, 0, 64, 64}, pixels);
      for (const std::string& name : slide->facts().associated) slide->ReadAssociated(name);
      ReadOverview(*slide, 64);
    });
  }

  /// The golden's bytes with all `from` replaced by `to`, which is as long.
  static std::string Replaced(const std::string& name, std::string_view from, std::string_view to) {
    std::string bytes = ReadBytes(TiffGoldens() / (name + ".tiff"));
    EXPECT_EQ(from.size(), to.size());
    size_t found = 0;
    for (size_t at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at + 1), ++found)
      bytes.replace(at, from.size(), to);
    EXPECT_GT(found, 0u) << name << " has no " << from;
    return bytes;
  }

  /// With a tag of directory `directory` changed by `change`, which gets the entry of 12 bytes.
  template <typename F>
  static std::string WithEntry(const std::string& name, uint16_t tag, F&& change, int directory = 0) {
    std::string bytes = ReadBytes(TiffGoldens() / (name + ".tiff"));
    const auto number = [&](size_t at, size_t size) {
      uint32_t value = 0;
      std::memcpy(&value, bytes.data() + at, size);
      return value;
    };
    size_t at = number(4, 4);
    for (; directory > 0; --directory) at = number(at + 2 + 12 * number(at, 2), 4);
    for (uint32_t i = 0; i < number(at, 2); ++i) {
      if (number(at + 2 + 12 * i, 2) != tag) continue;
      change(bytes, at + 2 + 12 * i);
      return bytes;
    }
    ADD_FAILURE() << name << " has no tag " << tag;
    return bytes;
  }

  static void Put(std::string& bytes, size_t at, uint32_t value) { std::memcpy(bytes.data() + at, &value, 4); }

  const TemporaryFolder folder_;
};

TEST_F(HostileTiffs, CutAnywhere) {
  for (const char* name : {"svs_jpeg", "svs_33003", "ome_sub", "pyramid_big", "flat_strips"}) {
    const std::string bytes = ReadBytes(TiffGoldens() / (std::string(name) + ".tiff"));
    const size_t step = std::max<size_t>(1, bytes.size() / 40);
    for (size_t length = 0; length < bytes.size(); length += length < 32 ? 1 : step) {
      const std::string error = ReadAll(std::string_view(bytes).substr(0, length));
      EXPECT_NE(error.find("slide.tiff"), std::string::npos) << name << " cut to " << length << ": " << error;
    }
  }
}

TEST_F(HostileTiffs, FlippedBytes) {
  for (const char* name : {"svs_jpeg", "svs_33005", "ome_sub", "flat_planar"}) {
    std::string bytes = ReadBytes(TiffGoldens() / (std::string(name) + ".tiff"));
    const size_t step = std::max<size_t>(1, bytes.size() / 60);
    for (size_t at = 4; at < bytes.size(); at += step) {
      for (const char flip : {'\x01', '\xC0'}) {
        const char kept = std::exchange(bytes[at], static_cast<char>(bytes[at] ^ flip));
        const std::string error = ReadAll(bytes);
        EXPECT_TRUE(error.empty() || error.find("slide.tiff") != error.npos) << name << " at " << at << ": " << error;
        bytes[at] = kept;
      }
    }
  }
}

// The defects that OpenSlide's own tests name for Aperio and generic TIFF (openslide, test/cases).
TEST_F(HostileTiffs, DefectsThatOpenSlideTests) {
  constexpr uint16_t kDescription = 270, kCompression = 259, kOffsets = 324, kCounts = 325, kDepth = 32997;
  const auto value = [](uint32_t to) { return [to](std::string& b, size_t entry) { Put(b, entry + 8, to); }; };
  // bad-compression, and one that libtiff does not have
  EXPECT_NE(ReadAll(WithEntry("svs_jpeg", kCompression, value(65000))).find("compression 65000 is not read"),
            std::string::npos);
  // bad-imagedescription-pointer, truncated-imagedescription
  EXPECT_NE(ReadAll(WithEntry("svs_jpeg", kDescription, value(0x7FFFFFFF))), "");
  // bad-imagedepth: a tag that the picture did not have takes the place of another
  const auto to_depth = [](std::string& b, size_t entry) {
    const uint16_t tag = kDepth;
    std::memcpy(b.data() + entry, &tag, 2);
    Put(b, entry + 8, 7);
  };
  EXPECT_NE(ReadAll(WithEntry("svs_jpeg", 284, to_depth)).find("depth 7"), std::string::npos);
  // tile-missing, tile-zero-length, truncated-top-level
  EXPECT_NE(ReadAll(WithEntry("svs_33003", kOffsets, value(0x7FFFFFFF))), "");
  EXPECT_NE(ReadAll(WithEntry("svs_33003", kCounts, value(0x7FFFFFFF))), "");
  EXPECT_EQ(ReadAll(WithEntry("svs_33003", kCounts,
                              [](std::string& b, size_t entry) {
                                uint32_t place = 0;
                                std::memcpy(&place, b.data() + entry + 8, 4);
                                std::memset(b.data() + place, 0, 4);  // two tiles of 16 bits, or one of 32
                              })),
            "");
  // jp2k-bad-image, jp2k-bad-width, jp2k-bad-numcomps, jp2k-bad-eoc
  using namespace std::string_literals;
  EXPECT_NE(ReadAll(Replaced("svs_33003", "\xFF\x4F\xFF\x51"s, "\xFF\x4F\xFF\x50"s)).find("no codestream"),
            std::string::npos);
  EXPECT_NE(ReadAll(Replaced("svs_33003", "\0\0\0\x10\0\0\0\x10\0\0\0\0"s, "\0\0\0\x0F\0\0\0\x10\0\0\0\0"s)), "");
  EXPECT_NE(ReadAll(Replaced("svs_33003", "\0\x03\x07\x01\x01\x07\x01\x01"s, "\0\x02\x07\x01\x01\x07\x01\x01"s)), "");
  // imagedescription-property-empty, -no-value, -decimal-comma: the goldens of Aperio have all three, and are read
  EXPECT_EQ(ReadAll(Replaced("svs_jpeg", "MPP = 0,4990", "MPP = abcdef")), "");
}

TEST_F(HostileTiffs, ScannersWithReadersOfTheirOwnAreDeclined) {
  const auto why_of = [&](const std::string& bytes) {
    std::ofstream(folder_ / "slide.tiff", std::ios::binary) << bytes;
    std::string why;
    EXPECT_EQ(OpenTiff(folder_ / "slide.tiff", {}, why), nullptr);
    return why;
  };
  EXPECT_EQ(why_of("no TIFF at all"), "not a TIFF");
  const auto to_ndpi = [](std::string& b, size_t entry) {
    const uint16_t tag = 65420;
    std::memcpy(b.data() + entry, &tag, 2);
  };
  EXPECT_NE(why_of(WithEntry("jpeg_444", 282, to_ndpi)).find("Hamamatsu"), std::string::npos);
  EXPECT_NE(why_of(Replaced("svs_jpeg", "Aperio Image", "DPUfsImport ")).find("Philips"), std::string::npos);
  // DICOM's second face.
  std::string dicom = ReadBytes(TiffGoldens() / "svs_jpeg.tiff");
  dicom.replace(128, 4, "DICM");
  EXPECT_EQ(why_of(dicom), "not a TIFF");
}

TEST_F(HostileTiffs, OmesXmlIsBounded) {
  EXPECT_NE(ReadAll(Replaced("ome_sub", "</Image></OME>", "</Image></OMX>")).find("line "), std::string::npos);
  EXPECT_NE(ReadAll(Replaced("ome_sub", "<TiffData IFD=\"0\"", "<TiffData IFD=\"9\"")).find("directory 9"),
            std::string::npos);
  EXPECT_NE(
      ReadAll(Replaced("ome_sub", "SizeZ=\"1\" SizeT=\"1\" Phys", "SizeZ=\"5\" SizeT=\"1\" Phys")).find("5 planes"),
      std::string::npos);
  // Deep nesting, and entities, in the place of the comment and what follows it.
  std::string bytes = ReadBytes(TiffGoldens() / "ome_sub.tiff");
  const size_t begin = bytes.find("<OME xmlns="), end = bytes.find("</OME>");
  ASSERT_NE(begin, bytes.npos);
  std::string deep = "<OME >";
  while (deep.size() + 3 <= end - begin) deep += "<a>";
  deep.resize(end - begin, ' ');
  bytes.replace(begin, deep.size(), deep);
  EXPECT_NE(ReadAll(bytes).find("OME-TIFF"), std::string::npos);
}

TEST_F(HostileTiffs, LargePiecesAreHeldToTheMemoryLimit) {
  // A tile that is declared far larger than the picture.
  const auto large = [](std::string& b, size_t entry) { Put(b, entry + 8, 16000); };
  const int64_t kept = MemoryLimit();
  SetMemoryLimit(int64_t{1} << 20);
  const std::string error = ReadAll(WithEntry("pyramid_lzw", 322, large));
  SetMemoryLimit(kept);
  EXPECT_NE(error.find("slide.tiff"), std::string::npos) << error;
}

// Directories that share one text in the file would take its bytes each.
TEST_F(HostileTiffs, ManyDirectoriesWithOneText) {
  constexpr uint32_t kDirectories = 80, kTextBytes = 1 << 20, kEntries = 6, kSize = 2 + 12 * kEntries + 4;
  std::string bytes(8 + kDirectories * kSize, '\0');
  const auto put_short = [&](size_t at, uint16_t value) { std::memcpy(bytes.data() + at, &value, 2); };
  bytes.replace(0, 4, std::string_view("II*\0", 4));
  Put(bytes, 4, 8);
  for (uint32_t d = 0; d < kDirectories; ++d) {
    size_t at = 8 + size_t{d} * kSize;
    put_short(at, kEntries);
    at += 2;
    const uint32_t text = 8 + kDirectories * kSize;
    for (const auto& [tag, type, count, value] : {std::array<uint32_t, 4>{256, 4, 1, 16},
                                                  {257, 4, 1, 16},
                                                  {262, 3, 1, 1},
                                                  {270, 2, kTextBytes, text},
                                                  {273, 4, 1, 8},
                                                  {279, 4, 1, 32}}) {
      put_short(at, static_cast<uint16_t>(tag));
      put_short(at + 2, static_cast<uint16_t>(type));
      Put(bytes, at + 4, count);
      Put(bytes, at + 8, value);
      at += 12;
    }
    Put(bytes, at, d + 1 < kDirectories ? static_cast<uint32_t>(at + 4) : 0);
  }
  bytes += std::string(kTextBytes - 1, 'x') + '\0';
  EXPECT_NE(ReadAll(bytes).find("descriptions of more than"), std::string::npos) << ReadAll(bytes);
}

}  // namespace
}  // namespace qkv::slide
