// Slides in TIFF against OpenSlide and tifffile (golden/generate_tiff.py).
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "qkv/io/json.h"
#include "tests/slide/read/tiff_files.h"
#include "tests/support/errors.h"

namespace qkv::slide {
namespace {

uint32_t CrcOf(const image::Image& image) {
  return static_cast<uint32_t>(::crc32(0, image.pixels.data(), static_cast<uInt>(image.pixels.size())));
}

io::Json ExpectedTiffs() { return io::ReadJson(TiffGoldens() / "expected.json"); }

/// The greatest difference from stored pixels; 256 if sizes differ.
int GreatestDifference(const image::Image& image, const std::string& bytes) {
  if (image.pixels.size() != std::ssize(bytes)) return 256;
  int greatest = 0;
  for (int64_t i = 0; i < image.pixels.size(); ++i)
    greatest = std::max(greatest, std::abs(image.pixels[i] - static_cast<uint8_t>(bytes[static_cast<size_t>(i)])));
  return greatest;
}

template <typename F>
void ExpectError(F&& f, const char* part) {
  const std::string message = ErrorMessage(f);
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(TiffSlides, EqualOpenSlideAndTifffile) {
  int slides = 0;
  const io::Json document = ExpectedTiffs();
  for (const auto& [name, expected] : document["slides"].items()) {
    const auto slide = OpenTiffSlide(TiffGoldens() / (name + ".tiff"));
    ASSERT_NE(slide, nullptr);
    const SlideFacts& facts = slide->facts();
    ASSERT_EQ(facts.levels.size(), expected["levels"].size()) << name;
    for (size_t i = 0; i < facts.levels.size(); ++i) {
      const io::Json& level = expected["levels"][i];
      EXPECT_EQ(facts.levels[i].width, level["width"].get<int64_t>()) << name;
      EXPECT_EQ(facts.levels[i].height, level["height"].get<int64_t>()) << name;
      EXPECT_DOUBLE_EQ(facts.levels[i].downsample, level["downsample"].get<double>()) << name;
      const image::Image pixels = ReadLevel(*slide, static_cast<int>(i));
      if (level.contains("crc")) {
        EXPECT_EQ(CrcOf(pixels), level["crc"].get<uint32_t>()) << name << ", level " << i;
      } else {
        // OpenSlide fills absent tiles of Aperio's coarser levels by bilinear interpolation, qkv by boxes.
        const int allowed = name == "svs_sparse" && i > 0 ? 60 : 1;
        const std::string stored = ReadBytes(TiffGoldens() / (name + "_" + std::to_string(i) + ".rgb"));
        EXPECT_LE(GreatestDifference(pixels, stored), allowed) << name << ", level " << i;
      }
    }
    const auto number = [&facts_of = expected](const char* key) {
      return facts_of[key].is_null() ? std::nullopt : std::optional(facts_of[key].get<double>());
    };
    EXPECT_EQ(facts.magnification, number("magnification")) << name;
    EXPECT_EQ(facts.mpp_x.has_value(), number("mpp").has_value()) << name;
    EXPECT_NEAR(facts.mpp_x.value_or(0), number("mpp").value_or(0), 1e-12) << name;
    EXPECT_EQ(facts.associated.size(), expected["pictures"].size()) << name;
    for (const auto& [picture, crc] : expected["pictures"].items())
      EXPECT_EQ(CrcOf(slide->ReadAssociated(picture)), crc.get<uint32_t>()) << name << ": " << picture;
    ++slides;
  }
  EXPECT_EQ(slides, 27);
}

TEST(TiffSlides, NameFormatsAndScales) {
  const auto ome = OpenTiffSlide(TiffGoldens() / "ome_sub.tiff");
  EXPECT_EQ(ome->facts().format, "OME-TIFF");
  EXPECT_EQ(ome->facts().reader, "libtiff");
  EXPECT_DOUBLE_EQ(*ome->facts().mpp_x, 0.25);  // given in millimetres
  EXPECT_DOUBLE_EQ(*ome->facts().mpp_y, 0.26);  // in microns, which is the default
  EXPECT_EQ(OpenTiffSlide(TiffGoldens() / "svs_jpeg.tiff")->facts().format, "Aperio");
  const auto pyramid = OpenTiffSlide(TiffGoldens() / "pyramid_deflate.tiff");
  EXPECT_EQ(pyramid->facts().format, "TIFF pyramid");
  EXPECT_NEAR(*pyramid->facts().mpp_y, 10000.0 / 39000, 1e-6);
  EXPECT_EQ(OpenTiffSlide(TiffGoldens() / "flat_strips.tiff")->facts().format, "flat TIFF");
  // Used only where the slide does not say.
  std::string why;
  const SlideOptions options{.openslide = {}, .mpp = 0.5};
  EXPECT_EQ(OpenTiff(TiffGoldens() / "pyramid_lzw.tiff", options, why)->facts().mpp_x, 0.5);
  EXPECT_EQ(OpenTiff(TiffGoldens() / "ome_sub.tiff", options, why)->facts().mpp_x, 0.25);
}

TEST(TiffSlides, RegionsArePartsOfTheLevelAndWhiteBeyondIt) {
  for (const char* name : {"svs_33005", "jpeg_422", "flat_strips", "sparse"}) {
    const auto slide = OpenTiffSlide(TiffGoldens() / (std::string(name) + ".tiff"));
    const image::Image whole = ReadLevel(*slide, 0);
    image::Image part;
    for (const Region& region : {Region{-3, -2, 9, 8}, Region{15, 16, 17, 1}, Region{40, 30, 30, 30},
                                 Region{0, 41, 53, 1}, Region{100, 100, 4, 5}, Region{-1000000, 0, 5, 5}}) {
      slide->Read(0, region, part);
      ASSERT_EQ(part.pixels.shape(), Shape({region.height, region.width, 3}));
      for (int64_t y = 0; y < region.height; ++y) {
        for (int64_t x = 0; x < region.width; ++x) {
          const int64_t from_x = region.x + x, from_y = region.y + y;
          const bool inside = from_x >= 0 && from_y >= 0 && from_x < whole.width() && from_y < whole.height();
          for (int64_t c = 0; c < 3; ++c) {
            const uint8_t expected = inside ? *whole.pixels.view().at(from_y, from_x, c) : 255;
            ASSERT_EQ(*part.pixels.view().at(y, x, c), expected) << name << " at " << from_x << ", " << from_y;
          }
        }
      }
    }
    ExpectError([&] { slide->Read(3, {0, 0, 1, 1}, part); }, "level 3 of");
    ExpectError([&] { slide->Read(0, {0, 0, 0, 1}, part); }, "a region of 0 x 1 pixels");
    ExpectError([&] { slide->Read(0, {0, 0, int64_t{1} << 30, int64_t{1} << 30}, part); }, "a region of");
    ExpectError([&] { slide->ReadAssociated("x-ray"); }, "no picture is called x-ray");
  }
}

TEST(TiffSlides, DamagedTilesAreNamedAndOthersStayReadable) {
  for (const auto& [name, message] : {std::pair("damaged_lzw", "level 0, tile 6 at (32, 16)"),
                                      std::pair("damaged_jp2", "level 0, tile 6 at (32, 16)")}) {
    const auto slide = OpenTiffSlide(TiffGoldens() / (std::string(name) + ".tiff"));
    image::Image pixels;
    const std::string error = ErrorMessage([&] { slide->Read(0, {33, 17, 4, 4}, pixels); });
    EXPECT_NE(error.find(message), std::string::npos) << error;
    EXPECT_THROW(slide->Read(0, {30, 10, 20, 20}, pixels), DamagedRegion) << name;
    slide->Read(0, {0, 0, 53, 16}, pixels);
    slide->Read(0, {0, 0, 32, 42}, pixels);
    slide->Read(1, {0, 0, 26, 21}, pixels);
  }
}

TEST(TiffSlides, ManyThreadsReadTheSame) {
  const auto slide = OpenTiffSlide(TiffGoldens() / "svs_jpeg.tiff");
  const image::Image whole = ReadLevel(*OpenTiffSlide(TiffGoldens() / "svs_jpeg.tiff"), 0);
  std::vector<std::thread> threads;
  std::vector<int> wrong(6, 0);
  for (size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      image::Image part;
      for (int64_t i = 0; i < 60; ++i) {
        const Region region{i * 7 % 40, i * 5 % 30, 13, 12};
        slide->Read(0, region, part);
        for (int64_t y = 0; y < region.height; ++y)
          wrong[t] += std::memcmp(part.pixels.view().at(y), whole.pixels.view().at(region.y + y, region.x), 39) != 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(6, 0));
}

TEST(TiffSlides, RealRegionsEqualOpenSlides) {
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  const io::Json document = ExpectedTiffs();
  for (const auto& [name, regions] : document["regions"].items()) {
    const std::filesystem::path path = DataFolder() / "medical" / name;
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    const auto slide = OpenTiffSlide(path);
    image::Image pixels;
    for (const io::Json& r : regions) {
      const auto at = [&](size_t i) { return r[i].get<int64_t>(); };
      slide->Read(static_cast<int>(at(0)), {at(1), at(2), at(3), at(4)}, pixels);
      EXPECT_EQ(CrcOf(pixels), r[5].get<uint32_t>()) << name << ": " << r.dump();
    }
  }
}

}  // namespace
}  // namespace qkv::slide
