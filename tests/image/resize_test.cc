// Every filter against Pillow's resize, byte for byte.
#include "qkv/image/resize.h"

#include "qkv/core/rng.h"
#include "qkv/image/resize_region.h"
#include "qkv/image/workspace.h"
#include "qkv/simd/dispatch.h"
#include "qkv/simd/isa.h"
#include "tests/image/golden.h"

namespace qkv::image {
namespace {

Filter ParseFilter(const std::string& name) {
  if (name == "nearest") return Filter::kNearest;
  if (name == "box") return Filter::kBox;
  if (name == "bilinear") return Filter::kBilinear;
  if (name == "hamming") return Filter::kHamming;
  if (name == "lanczos") return Filter::kLanczos;
  return Filter::kBicubic;
}

void ExpectGolden() {
  const auto golden = io::SafeTensors::Open(GoldenFolder() / "resize.safetensors");
  int cases = 0;
  for (const io::StoredTensor& tensor : golden.tensors()) {
    if (tensor.name.starts_with("in/")) continue;
    const size_t first = tensor.name.find('/'), last = tensor.name.rfind('/');
    const std::string filter = tensor.name.substr(0, first), in = tensor.name.substr(first + 1, last - first - 1);
    const Image expected = ToImage(tensor);
    const Image got =
        Resize(ToImage(*golden.Find("in/" + in)), expected.height(), expected.width(), ParseFilter(filter));
    ExpectSame(got, expected, tensor.name);
    ++cases;
  }
  EXPECT_GE(cases, 120);
}

TEST(Resize, EqualsPillowOnEveryInstructionSet) {
  const simd::Isa active = simd::ActiveIsa();
  for (const simd::Isa isa : simd::AvailableIsas()) {
    SCOPED_TRACE(simd::Name(isa));
    simd::SetIsa(isa);
    ExpectGolden();
  }
  simd::SetIsa(simd::Isa::kBaseline);
  simd::internal::SetPortableForTest(true);
  ExpectGolden();
  simd::internal::SetPortableForTest(false);
  simd::SetIsa(active);
}

Image RandomImage(int64_t height, int64_t width, int64_t channels) {
  Image image{Tensor<uint8_t>({height, width, channels})};
  Rng rng(static_cast<uint64_t>(height * 1000 + width));
  for (uint8_t& x : image.pixels.span()) x = static_cast<uint8_t>(rng.Next());
  return image;
}

TEST(ResizeRegion, IsACropOfTheWhole) {
  Workspace workspace;  // the same for all: nothing of one image shows in the next
  for (const int channels : {1, 2, 3, 4}) {
    const Image image = RandomImage(31, 47, channels);
    for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kBicubic, Filter::kLanczos}) {
      for (const auto& [height, width] : {std::pair{20, 30}, {31, 30}, {20, 47}, {31, 47}, {50, 90}}) {
        const Image whole = Resize(image, height, width, filter);
        const Image& part = ResizeRegion(image, {height, width, 3, 5, 14, 22}, filter, workspace);
        Image expected{Tensor<uint8_t>({14, 22, channels})};
        for (int64_t y = 0; y < 14; ++y)
          std::copy_n(whole.pixels.view().at(y + 3, 5), 22 * channels, expected.pixels.view().at(y));
        ExpectSame(part, expected, fmt::format("{} channels to {} x {}", channels, height, width));
      }
    }
  }
}

// Wide enough to be resized in several stripes; the parts are made in one.
TEST(ResizeRegion, VeryWideImagesHaveNoSeams) {
  Workspace workspace;
  const Image image = RandomImage(3, 400'000, 3);
  const Image whole = Resize(image, 2, 600, Filter::kBicubic);
  for (int64_t left = 0; left < 600; left += 50) {
    const Image& part = ResizeRegion(image, {2, 600, 0, left, 2, 50}, Filter::kBicubic, workspace);
    Image expected{Tensor<uint8_t>({2, 50, 3})};
    for (int64_t y = 0; y < 2; ++y) std::copy_n(whole.pixels.view().at(y, left), 150, expected.pixels.view().at(y));
    ExpectSame(part, expected, fmt::format("columns from {}", left));
  }
}

// Widths around the vector lengths, each with its own end of the row.
TEST(Resize, AConstantStaysConstantAtEveryWidth) {
  for (int64_t width = 1; width <= 70; ++width) {
    Image image{Tensor<uint8_t>({3, width, 3})};
    std::fill_n(image.pixels.data(), image.pixels.size(), uint8_t{137});
    for (const Filter filter :
         {Filter::kBox, Filter::kBilinear, Filter::kHamming, Filter::kBicubic, Filter::kLanczos}) {
      const Image resized = Resize(image, 5, 71 - width, filter);
      for (const uint8_t x : resized.pixels.span()) ASSERT_EQ(x, 137) << width;
    }
  }
}

TEST(Resize, TheSameSizeIsACopy) {
  for (const int channels : {1, 2, 3, 4}) {
    const Image image = RandomImage(9, 8, channels);
    ExpectSame(Resize(image, 9, 8, Filter::kLanczos), image, "copy");
  }
}

TEST(Resize, RefusesEmptyImages) {
  const Image image = RandomImage(4, 4, 3);
  EXPECT_THROW(Resize(image, 0, 4, Filter::kBicubic), Error);
  EXPECT_THROW(Resize(image, 4, -1, Filter::kNearest), Error);
  EXPECT_THROW(Resize(Image{}, 4, 4, Filter::kBicubic), Error);
  EXPECT_THROW(Resize(Image{Tensor<uint8_t>({0, 4, 3})}, 4, 4, Filter::kBicubic), Error);
}

}  // namespace
}  // namespace qkv::image
