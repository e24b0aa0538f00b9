// A slide that is decoded as one picture, and what is said of that.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "qkv/image/image.h"
#include "tests/support/errors.h"
#include "tests/support/tiff_levels.h"

namespace qkv::image {
namespace {

// What is said of a file that can be decoded.
std::string NoteOf(const std::string& tiff) {
  std::string note;
  const Image image =
      Decode(std::as_bytes(std::span(tiff)), {.remark = [&](std::string_view text) { note += text; }}, "f");
  EXPECT_EQ(image.height(), 64);
  EXPECT_EQ(image.pixels[0], 0x80);
  return note;
}

TEST(Slide, IsNamedWithItsSize) {
  EXPECT_EQ(NoteOf(TiffInLevels({{64, 96}, {32, 48}})).find("a picture in levels of 96 x 64 pixels, "), 0u);
  const std::string note = NoteOf(TiffInLevels({{64, 96}}, "Aperio Image Library v11"));
  EXPECT_EQ(note.find("a slide of 96 x 64 pixels, "), 0u);
  EXPECT_NE(note.find("qkv slide embed"), note.npos);
  EXPECT_NE(NoteOf(TiffInLevels({{64, 96}}, "<scn xmlns=\"http://www.leica-microsystems.com/scn/2010/10/01\">")), "");
}

TEST(Slide, IsNoPlainPicture) {
  EXPECT_EQ(NoteOf(TiffInLevels({{64, 96}})), "");
  EXPECT_EQ(NoteOf(TiffInLevels({{64, 96}}, "a scan of Aperio paper")), "");
  EXPECT_EQ(NoteOf(TiffInLevels({{64, 96}, {64, 96}})), "");  // pages
  EXPECT_EQ(NoteOf(TiffInLevels({{64, 96}, {32, 32}})), "");  // another shape
}

TEST(Slide, AboveTheLimitIsRefusedWithAdvice) {
  const std::string slide = TiffInLevels({{64, 96}, {32, 48}});
  const std::string error = ErrorMessage([&] { Decode(std::as_bytes(std::span(slide)), {.max_pixels = 6000}, "f"); });
  EXPECT_NE(error.find("a picture in levels of 96 x 64 pixels, more than the limit of 6000"), error.npos) << error;
  EXPECT_NE(error.find("qkv slide embed"), error.npos) << error;
}

// The directory of a level may lie; the first picture is decoded as ever.
TEST(Slide, MayBeDamagedBehindTheFirstLevel) {
  const std::string slide = TiffInLevels({{64, 96}, {32, 48}}), one = TiffInLevels({{64, 96}});
  for (size_t size = one.size() + 4; size < slide.size(); size += 7) NoteOf(slide.substr(0, size));
  std::string loop = slide;
  loop.replace(loop.size() - 4, 4, loop.substr(4, 4));  // the last directory is followed by the first
  EXPECT_NE(NoteOf(loop), "");
}

TEST(Slide, RealOnesAreTold) {
  const char* data = std::getenv("QKV_DATA");
  if (data == nullptr) GTEST_SKIP() << "QKV_DATA is not set";
  const std::filesystem::path folder = std::filesystem::path(data) / "medical";
  for (const auto& [file, told] : {std::pair("slides/cmu_small_region.svs", true),
                                   {"dicom-wsi/small.svs", true},
                                   {"dicom-wsi/boxes.tiff", true},
                                   {"slides/kidney-48-5.tif", false}}) {
    std::string note;
    try {
      DecodeFile(folder / file, {.remark = [&](std::string_view text) { note += text; }});
    } catch (const Error&) {  // a codec that is not read
    }
    EXPECT_EQ(!note.empty(), told) << file << note;
  }
}

}  // namespace
}  // namespace qkv::image
