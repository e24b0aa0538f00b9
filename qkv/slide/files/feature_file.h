// Vectors of a slide's tiles in HDF5, as TRIDENT and CLAM read them, and back. libhdf5, loaded at the first file,
// writes them; hdf5_file.h reads them.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "qkv/core/tensor.h"

namespace qkv::slide {

/// A value of an attribute.
using Attribute = std::variant<int64_t, double, std::string>;
using Attributes = std::map<std::string, Attribute>;
/// A whole or real number of this name; nothing if there is none, or it is a text.
std::optional<double> FindNumber(const Attributes& attributes, const std::string& name);

/// A dataset of features and one of coordinates.
struct FeatureFile {
  Tensor<float> features;                      // [tiles, D]
  std::vector<std::array<int64_t, 2>> coords;  // [tiles] at level 0
  Attributes feature_attributes, coord_attributes;
};

/// Writes `features` and `coords` with their attributes, if any: chunks of one row, an unlimited first axis. Equal
/// contents are equal bytes, whichever release of libhdf5 writes them. The file is whole or not there. Numbers of rows
/// may differ: a slide's vector goes with the coordinates of its tiles. Needs memory for the whole file. Throws Error
/// with the system's or the library's reason.
void WriteFeatureFile(const std::filesystem::path& path, const FeatureFile& file);
/// Coordinates alone, as TRIDENT's patches/NAME_patches.h5.
void WriteCoords(const std::filesystem::path& path, std::span<const std::array<int64_t, 2>> coords,
                 const Attributes& attributes);

/// Reads files of TRIDENT, CLAM and qkv: `features` of float16, float32 or float64, [tiles, D] or [1, tiles, D], and
/// `coords`, if any, of integers. Attributes are those that are one number or one text (hdf5_file.h). Throws Error for
/// anything else, before it allocates more than the file can hold.
FeatureFile ReadFeatureFile(const std::filesystem::path& path);
/// As ReadFeatureFile; `where` begins messages.
FeatureFile ReadFeatureBytes(std::span<const std::byte> bytes, std::string_view where);

/// A PyTorch file that torch.load(weights_only=True) reads as a tensor [tiles, D], for CLAM's pt_files/.
void WriteTorchTensor(const std::filesystem::path& path, View<const float> values);

}  // namespace qkv::slide
