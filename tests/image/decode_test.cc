// Every format and mode against Pillow's pixels, byte for byte.
#include "qkv/image/workspace.h"
#include "tests/image/golden.h"

namespace qkv::image {
namespace {

class Decoding : public testing::Test {
 protected:
  Decoding() : golden_(io::SafeTensors::Open(GoldenFolder() / "decode.safetensors")) {}

  Image Read(const std::string& name, const DecodeOptions& options = {}) const {
    return Decode(golden_.Find("file/" + name)->bytes, options, name);
  }

  io::SafeTensors golden_;
};

TEST_F(Decoding, EqualsPillow) {
  const auto expected = WithPrefix(golden_, "rgb/");
  EXPECT_GE(expected.size(), 150u);
  for (const auto& [name, rgb] : expected) ExpectSame(ToChannels(Read(name), 3), ToImage(rgb), name);
}

TEST_F(Decoding, GreyEqualsPillow) {
  for (const auto& [name, grey] : WithPrefix(golden_, "grey/")) {
    ExpectSame(ToChannels(Read(name), 1), ToImage(grey), name);
    Image dropped = Read(name);
    if (dropped.channels() == 1) continue;
    DropChannels(dropped, 1);
    ExpectSame(dropped, ToImage(grey), name + " in place");
  }
}

TEST_F(Decoding, AlphaEqualsPillow) {
  for (const auto& [name, alpha] : WithPrefix(golden_, "alpha/")) {
    const Image image = Read(name);
    if (name == "tiff_rgba_unsaid.tif") {  // Pillow takes a fourth channel of no stated meaning for alpha
      EXPECT_EQ(image.channels(), 3);
      continue;
    }
    const int64_t channels = image.channels();
    ASSERT_TRUE(channels == 2 || channels == 4) << name;
    Image last{Tensor<uint8_t>({image.height(), image.width(), 1})};
    for (int64_t i = 0; i < last.pixels.size(); ++i) last.pixels[i] = image.pixels[i * channels + channels - 1];
    ExpectSame(last, ToImage(alpha), name);
  }
}

TEST_F(Decoding, OrientationCanBeLeftAlone) {
  const DecodeOptions as_stored{.exif_orientation = false};
  const auto turned = WithPrefix(golden_, "stored/");
  EXPECT_GE(turned.size(), 9u);
  for (const auto& [name, stored] : turned) ExpectSame(ToChannels(Read(name, as_stored), 3), ToImage(stored), name);
}

TEST_F(Decoding, FileAndEndings) {
  const TemporaryFolder folder;
  const auto bytes = golden_.Find("file/jpeg_444.jpg")->bytes;
  // What a file is, its first bytes say, not its name.
  const auto path = folder / "photo.png";
  WriteFile(path, [&](FileSink& sink) { sink.Write(bytes); });
  ExpectSame(DecodeFile(path), Read("jpeg_444.jpg"), "file");
  EXPECT_THROW(DecodeFile(folder / "none.jpg"), Error);
  EXPECT_TRUE(HasImageEnding("a/b.JPEG"));
  EXPECT_TRUE(HasImageEnding("a.b.tif"));
  EXPECT_FALSE(HasImageEnding("a.txt"));
  EXPECT_FALSE(HasImageEnding("jpg"));
}

// One image after the other into the same memory: nothing of one shows in the next.
TEST_F(Decoding, IntoUsedMemoryEqualsPillow) {
  Workspace workspace;
  Image image, converted;
  for (const auto& [name, rgb] : WithPrefix(golden_, "rgb/")) {
    Decode(golden_.Find("file/" + name)->bytes, {}, name, workspace, image);
    ToChannels(image, 3, converted);
    ExpectSame(converted, ToImage(rgb), name);
  }
}

TEST_F(Decoding, AsksBeforeItTakesMemory) {
  for (const auto& [name, rgb] : WithPrefix(golden_, "rgb/")) {
    int64_t admitted = 0;
    Read(name, {.admit = [&](int64_t pixels) { admitted = std::max(admitted, pixels); }});
    EXPECT_GE(admitted, rgb.shape[0] * rgb.shape[1]) << name;
    EXPECT_THROW(Read(name, {.admit = [](int64_t pixels) { Fail("{} are too many", pixels); }}), Error) << name;
  }
}

TEST(ToChannels, RefusesOtherNumbers) {
  const Image image{Tensor<uint8_t>({2, 2, 3})};
  EXPECT_THROW(ToChannels(image, 4), Error);
}

}  // namespace
}  // namespace qkv::image
