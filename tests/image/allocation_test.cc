// Another image of a kind allocates nothing that is ours; the formats' libraries take what they need from malloc.
#include <gtest/gtest.h>

#include "qkv/image/preprocess.h"
#include "qkv/image/workspace.h"
#include "tests/image/golden.h"
#include "tests/support/allocations.h"

namespace qkv::image {
namespace {

// Of every format, grey and ink that become RGB, palettes, pictures that are turned, and all filters.
TEST(Allocation, TheSecondPhotoNeedsNone) {
  Preprocess p{.resize = Preprocess::Resize::kShortestEdge,
               .resize_height = 30,
               .crop = Preprocess::Crop::kTorchvision,
               .crop_height = 24,
               .crop_width = 24,
               .mean = {0.5f, 0.5f, 0.5f},
               .std = {0.5f, 0.5f, 0.5f}};
  Tensor<float> out({3, 24, 24});
  const DecodeOptions options;
  const auto golden = io::SafeTensors::Open(GoldenFolder() / "decode.safetensors");
  for (const io::StoredTensor& file : golden.tensors()) {
    if (!file.name.starts_with("file/")) continue;
    const std::string name = file.name.substr(5);
    const auto bytes = file.bytes;
    for (const Filter filter : {Filter::kNearest, Filter::kBilinear, Filter::kBicubic}) {
      p.filter = filter;
      Workspace workspace;
      Image image;
      int64_t allocations = 0;
      for (int i = 0; i < 3; ++i) {
        const int64_t before = g_allocations.load();
        Decode(bytes, options, name, workspace, image);
        Apply(p, image, workspace, out);
        allocations = g_allocations.load() - before;
        if (i == 0) {
          EXPECT_GT(allocations, 0) << "nothing is counted";
        }
      }
      EXPECT_EQ(allocations, 0) << name;
    }
  }
}

}  // namespace
}  // namespace qkv::image
