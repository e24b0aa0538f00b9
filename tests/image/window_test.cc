// Grey levels through a window, as medical images need it.
#include "tests/image/golden.h"

namespace qkv::image {
namespace {

Image DecodeText(const std::string& file, std::optional<std::pair<double, double>> window) {
  DecodeOptions options;
  options.window = window;
  return Decode(std::as_bytes(std::span(file)), options, "test");
}

std::vector<int> Levels(const Image& image) { return {image.pixels.span().begin(), image.pixels.span().end()}; }

TEST(Window, SixteenBitGrey) {
  const std::string file = "P2 5 1 65535\n0 1000 1500 2000 65535";
  EXPECT_EQ(Levels(DecodeText(file, {{1000, 2000}})), (std::vector{0, 0, 128, 255, 255}));
  EXPECT_EQ(Levels(DecodeText(file, {{2000, 1000}})), (std::vector{255, 255, 128, 0, 0}));  // upside down
  EXPECT_EQ(Levels(DecodeText(file, {{0, 65535}})), (std::vector{0, 4, 6, 8, 255}));
  EXPECT_EQ(Levels(DecodeText(file, {})), (std::vector{0, 255, 255, 255, 255}));
}

TEST(Window, EightBitGreyAndColour) {
  EXPECT_EQ(Levels(DecodeText("P2 3 1 255\n10 20 30", {{10, 30}})), (std::vector{0, 128, 255}));
  EXPECT_EQ(Levels(DecodeText("P3 1 1 255\n10 20 30", {{10, 30}})), (std::vector{0, 128, 255}));
}

// The 16-bit pictures of all formats, against the samples in the plain file.
TEST(Window, EveryFormat) {
  const auto golden = io::SafeTensors::Open(GoldenFolder() / "decode.safetensors");
  const DecodeOptions options{.window = std::pair{30.0, 230.0}};
  const auto read = [&](const std::string& name) { return Decode(golden.Find("file/" + name)->bytes, options, name); };
  // The same levels (a 16-bit gradient, shifted down by 7) in two containers.
  ExpectSame(read("tiff_grey_16.tif"), read("pnm_p5_16bit.pgm"), "grey");
  ExpectSame(read("tiff_grey_16_big_endian.tif"), read("pnm_p5_16bit.pgm"), "grey, big endian");
  ExpectSame(read("tiff_white_is_zero_16.tif"), read("pnm_p5_16bit.pgm"), "grey, white is zero: the levels as stored");
  ExpectSame(read("png_grey_16_small.png"), read("pnm_p5_16bit.pgm"), "PNG");
  ExpectSame(read("png_rgb_16.png"), read("pnm_p6_16bit.ppm"), "RGB PNG");
  ExpectSame(read("tiff_rgb_16.tif"), read("pnm_p6_16bit.ppm"), "RGB TIFF");
  // 8 bits: the level of each sample, alpha untouched.
  const Image plain = Decode(golden.Find("file/png_rgba_8.png")->bytes, {}, ""), windowed = read("png_rgba_8.png");
  for (int64_t i = 0; i < plain.pixels.size(); ++i) {
    const int level = plain.pixels[i];
    const auto scaled = static_cast<int>(std::lround(255 * std::clamp((level - 30) / 200.0, 0.0, 1.0)));
    ASSERT_EQ(windowed.pixels[i], i % 4 == 3 ? level : scaled);
  }
}

TEST(Window, RefusesAnEmptyOne) {
  EXPECT_THROW(DecodeText("P2 1 1 255\n10", {{5, 5}}), Error);
  EXPECT_THROW(DecodeText("P2 1 1 255\n10", {{0, HUGE_VAL}}), Error);
}

}  // namespace
}  // namespace qkv::image
