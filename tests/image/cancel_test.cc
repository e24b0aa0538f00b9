// Work on images that is given up: nothing is swallowed, and the memory serves the next image.
#include <gtest/gtest.h>

#include "qkv/core/work.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/workspace.h"
#include "tests/image/golden.h"
#include "tests/support/errors.h"

namespace qkv::image {
namespace {

class Cancelling : public testing::Test {
 protected:
  const io::SafeTensors heif_ = io::SafeTensors::Open(GoldenFolder() / "heif.safetensors");
  const io::SafeTensors jpeg2000_ = io::SafeTensors::Open(GoldenFolder() / "jpeg2000.safetensors");
  const io::SafeTensors decode_ = io::SafeTensors::Open(GoldenFolder() / "decode.safetensors");
  const io::SafeTensors large_ = io::SafeTensors::Open(GoldenFolder() / "large.safetensors");
};

bool IsHeif(std::string_view name) { return name.ends_with(".heic") || name.ends_with(".avif"); }
bool IsWebp(std::string_view name) { return name.ends_with(".webp"); }

TEST_F(Cancelling, EndsEveryDecoder) {
  Workspace workspace;
  Image image;
  auto files = WithPrefix(decode_, "file/");
  for (const io::SafeTensors* others : {&heif_, &jpeg2000_})
    for (const auto& file : WithPrefix(*others, "file/")) files.push_back(file);
  for (const auto& [name, file] : files) {
    const Image expected = Decode(file.bytes, {}, name);
    {
      const CancelScope scope([] { return true; });
      EXPECT_THROW(Decode(file.bytes, {}, name, workspace, image), Cancelled) << name;
    }
    Decode(file.bytes, {}, name, workspace, image);
    ExpectSame(image, expected, name);
  }
}

// Decoders count at least a step for every eighth pixel, so that a long image asks often. libwebp and libheif count
// none: the first is asked between its pieces, the second before it begins.
TEST_F(Cancelling, DecodersCountTheirPixels) {
  for (const auto& [name, file] : WithPrefix(large_, "file/")) {
    if (IsWebp(name) || IsHeif(name)) continue;
    const int64_t before = StepsDone();
    const Image image = Decode(file.bytes, {}, name);
    EXPECT_GE(StepsDone() - before, image.height() * image.width() / 8) << name;
  }
}

// A budget that ends in the middle: through the C libraries, at any place.
TEST_F(Cancelling, BudgetsEndDecodersAnywhere) {
  Workspace workspace;
  Image image;
  for (const auto& entry : WithPrefix(large_, "file/")) {
    const auto& name = std::get<0>(entry);  // Clang 14 captures no structured binding
    const auto& file = std::get<1>(entry);
    if (IsWebp(name) || IsHeif(name)) continue;
    int64_t steps = StepsDone();
    const Image expected = Decode(file.bytes, {}, name);
    steps = StepsDone() - steps;
    for (const int64_t part : {0, 3, 7}) {
      const WorkBudget budget(steps * part / 8, "decode");
      const std::string error = ErrorMessage([&] { Decode(file.bytes, {}, name, workspace, image); });
      EXPECT_NE(error.find("takes more than"), std::string::npos) << name << " " << part << ": " << error;
    }
    Decode(file.bytes, {}, name, workspace, image);
    ExpectSame(image, expected, name);
  }
}

// A WebP file of any length is decoded in pieces, and each asks.
TEST_F(Cancelling, WebpAsksBetweenItsPieces) {
  for (const auto& [name, file] : WithPrefix(large_, "file/")) {
    if (!IsWebp(name)) continue;
    int asked = 0;
    const CancelScope scope([&] {
      ++asked;
      return false;
    });
    Decode(file.bytes, {}, name);
    EXPECT_GE(asked, 1) << name;
  }
}

TEST_F(Cancelling, EndsResizingAndPreparing) {
  const Preprocess p{.resize = Preprocess::Resize::kExact, .resize_height = 30, .resize_width = 20};
  const Image image = Decode(large_.Find("file/png_rgba_16.png")->bytes, {}, "png");
  Workspace workspace;
  Tensor<float> out({3, 30, 20}), expected({3, 30, 20});
  Apply(p, image, expected);
  for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kBicubic}) {
    const Image resized = Resize(image, 40, 50, filter);
    int64_t steps = StepsDone();
    Resize(image, 40, 50, filter);
    steps = StepsDone() - steps;
    EXPECT_GE(steps, filter == Filter::kNearest ? 40 * 50 : image.height() * image.width());
    for (const int64_t part : {0, 1, 3, 5, 7}) {
      const WorkBudget budget(steps * part / 8, "resize");
      EXPECT_THROW(Resize(image, 40, 50, filter, workspace), Error) << part;
    }
    ExpectSame(Resize(image, 40, 50, filter, workspace), resized, "resized");
    const CancelScope scope([] { return true; });
    EXPECT_THROW(Resize(image, 40, 50, filter, workspace), Cancelled);
    EXPECT_THROW(Apply(p, image, workspace, out), Cancelled);
    EXPECT_THROW(ToChannels(image, 1), Cancelled);
  }
  Apply(p, image, workspace, out);
  EXPECT_TRUE(std::ranges::equal(out.span(), expected.span()));
}

}  // namespace
}  // namespace qkv::image
