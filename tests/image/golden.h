// The expected pixels that generate_golden.py wrote.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "qkv/image/image.h"
#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::image {

inline std::filesystem::path GoldenFolder() { return SourceFolder() / "tests/image/golden"; }

/// The tensors whose names begin with `prefix`, with the rest of their names.
inline std::vector<std::pair<std::string, io::StoredTensor>> WithPrefix(const io::SafeTensors& tensors,
                                                                        const std::string& prefix) {
  std::vector<std::pair<std::string, io::StoredTensor>> found;
  for (const io::StoredTensor& tensor : tensors.tensors())
    if (tensor.name.starts_with(prefix)) found.emplace_back(tensor.name.substr(prefix.size()), tensor);
  return found;
}

inline const uint8_t* Bytes(const io::StoredTensor& tensor) {
  return reinterpret_cast<const uint8_t*>(tensor.bytes.data());
}

/// tensor: U8, [height, width] or [height, width, channels]
inline Image ToImage(const io::StoredTensor& tensor) {
  Image image{Tensor<uint8_t>({tensor.shape[0], tensor.shape[1], tensor.shape.rank() == 3 ? tensor.shape[2] : 1})};
  std::copy_n(Bytes(tensor), image.pixels.size(), image.pixels.data());
  return image;
}

/// How many bytes differ, and by how much at most; everything when the shapes differ.
struct Difference {
  int64_t count = 0;
  int greatest = 0;
};

inline Difference Compare(const Image& a, const Image& b) {
  if (!(a.pixels.shape() == b.pixels.shape())) return {std::max(a.pixels.size(), b.pixels.size()), 256};
  Difference difference;
  for (int64_t i = 0; i < a.pixels.size(); ++i) {
    difference.count += a.pixels[i] != b.pixels[i];
    difference.greatest = std::max(difference.greatest, std::abs(a.pixels[i] - b.pixels[i]));
  }
  return difference;
}

inline void ExpectSame(const Image& got, const Image& expected, const std::string& what) {
  EXPECT_EQ(got.pixels.shape(), expected.pixels.shape()) << what;
  const Difference difference = Compare(got, expected);
  EXPECT_EQ(difference.count, 0) << what << ": bytes that differ, by up to " << difference.greatest;
}

}  // namespace qkv::image
