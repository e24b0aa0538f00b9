// The 100 photos: decoded, resized and cropped exactly as Pillow, timm and transformers (PIL backend) do.
// Needs QKV_DATA, the folder with photos/ in it.
#include <array>
#include <fstream>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"
#include "tests/image/golden.h"

namespace qkv::image {
namespace {

/// zlib's CRC-32.
uint32_t Crc(std::span<const uint8_t> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> entries;
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit) entries[i] = entries[i] >> 1 ^ (entries[i] & 1 ? 0xEDB88320u : 0);
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (const uint8_t byte : bytes) crc = crc >> 8 ^ table[(crc ^ byte) & 255];
  return ~crc;
}

/// The pixels before normalisation, [3, 224, 224].
uint32_t PipelineCrc(Preprocess preprocess, const Image& image) {
  preprocess.rescale = 1;
  Tensor<float> out(OutputShape(preprocess, image.height(), image.width()));
  Apply(preprocess, image, out);
  std::vector<uint8_t> levels;
  for (const float x : out.span()) levels.push_back(static_cast<uint8_t>(x));
  return Crc(levels);
}

TEST(Photos, EqualPillowTimmAndTransformers) {
  const std::filesystem::path folder = DataFolder() / "photos";
  if (DataFolder().empty()) GTEST_SKIP() << "QKV_DATA is not set";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is not there";
  using enum Preprocess::Resize;
  const std::pair<const char*, Preprocess> pipelines[] = {
      {"timm",
       {.resize = kShortestEdge,
        .resize_height = 248,
        .filter = Filter::kBicubic,
        .crop = Preprocess::Crop::kTorchvision,
        .crop_height = 224,
        .crop_width = 224}},
      {"vit", {.resize = kExact, .resize_height = 224, .resize_width = 224, .filter = Filter::kBilinear}},
      {"dinov2",
       {.resize = kShortestEdge,
        .resize_height = 256,
        .filter = Filter::kBicubic,
        .crop = Preprocess::Crop::kHuggingFace,
        .crop_height = 224,
        .crop_width = 224}},
  };
  std::map<std::string, int> equal;
  const io::Json digests = io::ReadJson(GoldenFolder() / "photos.json");
  for (const auto& [name, digest] : digests.items()) {
    const Image image = DecodeFile(folder / name);
    EXPECT_EQ(image.channels(), digest["channels"].get<int>()) << name;
    equal["decoded"] += Crc(image.pixels.span()) == digest["decoded"].get<uint32_t>();
    const Image rgb = ToChannels(image, 3);
    const Image small = Resize(rgb, 224, 224, Filter::kBicubic);
    equal["resized"] += Crc(small.pixels.span()) == digest["resized"].get<uint32_t>();
    for (const auto& [pipeline, preprocess] : pipelines)
      equal[pipeline] += PipelineCrc(preprocess, image) == digest[pipeline].get<uint32_t>();
  }
  for (const auto& [what, count] : equal) {
    std::printf("%s: %d of %zu photos are exactly equal\n", what.c_str(), count, digests.size());
    EXPECT_EQ(count, static_cast<int>(digests.size())) << what;
  }
}

}  // namespace
}  // namespace qkv::image
