// The operations on images equal Pillow's, byte for byte.
#include "qkv/train/data/image_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::train {
namespace {

using image::Image;

Image ToImage(const io::StoredTensor& tensor) {
  Image image{Tensor<uint8_t>({tensor.shape[0], tensor.shape[1], tensor.shape.rank() == 3 ? tensor.shape[2] : 1})};
  std::copy_n(reinterpret_cast<const uint8_t*>(tensor.bytes.data()), image.pixels.size(), image.pixels.data());
  return image;
}

// False for an operation that is not known.
bool Operate(const std::string& operation, double argument, Image& image) {
  const uint8_t all[] = {12, 130, 250};
  const std::span<const uint8_t> fill = std::span(all).first(static_cast<size_t>(image.channels()));
  const auto factor = static_cast<float>(argument);
  const int number = static_cast<int>(argument);
  Image spare;
  const auto width = static_cast<double>(image.width()), height = static_cast<double>(image.height());
  if (operation == "flip") return FlipHorizontally(image), true;
  if (operation == "auto_contrast") return AutoContrast(image), true;
  if (operation == "equalize") return Equalize(image), true;
  if (operation == "invert") return Invert(image), true;
  if (operation == "posterize") return Posterize(image, number), true;
  if (operation == "solarize") return Solarize(image, number), true;
  if (operation == "solarize_add") return SolarizeAdd(image, number), true;
  if (operation == "brightness") return Brightness(image, factor), true;
  if (operation == "contrast") return Contrast(image, factor), true;
  if (operation == "saturation") return Saturation(image, factor), true;
  if (operation == "sharpness") return Sharpness(image, factor, spare), true;
  if (operation == "hue") return ShiftHue(image, static_cast<uint8_t>(number)), true;
  if (operation == "rotate") {
    return Affine(image, Rotation(argument, image.height(), image.width()), fill, spare), true;
  }
  if (operation == "shear_x") return Affine(image, {1, argument, 0, 0, 1, 0}, fill, spare), true;
  if (operation == "shear_y") return Affine(image, {1, 0, 0, argument, 1, 0}, fill, spare), true;
  if (operation == "translate_x") return Affine(image, {1, 0, argument * width, 0, 1, 0}, fill, spare), true;
  if (operation == "translate_y") return Affine(image, {1, 0, 0, 0, 1, argument * height}, fill, spare), true;
  return false;
}

TEST(ImageOps, EqualPillows) {
  const auto golden = io::SafeTensors::Open(SourceFolder() / "tests/train/golden/image_ops.safetensors");
  int cases = 0;
  for (const io::StoredTensor& tensor : golden.tensors()) {
    const size_t first = tensor.name.find('/'), second = tensor.name.rfind('/');
    if (first == tensor.name.npos) continue;
    Image image = ToImage(*golden.Find(tensor.name.substr(0, first)));
    const std::string operation = tensor.name.substr(first + 1, second - first - 1);
    ASSERT_TRUE(Operate(operation, std::stod(tensor.name.substr(second + 1)), image)) << tensor.name;
    const Image expected = ToImage(tensor);
    ASSERT_EQ(image.pixels.shape(), expected.pixels.shape()) << tensor.name;
    int64_t differ = 0;
    int most = 0;
    for (int64_t i = 0; i < image.pixels.size(); ++i) {
      differ += image.pixels[i] != expected.pixels[i];
      most = std::max(most, std::abs(image.pixels[i] - expected.pixels[i]));
    }
    EXPECT_EQ(differ, 0) << tensor.name << ": " << differ << " bytes differ, by at most " << most;
    ++cases;
  }
  EXPECT_GT(cases, 300);
}

}  // namespace
}  // namespace qkv::train
