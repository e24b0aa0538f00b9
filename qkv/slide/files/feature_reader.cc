// Reads feature files of TRIDENT, CLAM and qkv.
#include <algorithm>
#include <cstring>
#include <utility>

#include "qkv/core/dtype.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/files/hdf5_file.h"

namespace qkv::slide {
namespace {

// [tiles, width] of a dataset [tiles, width] or [1, tiles, width].
std::pair<int64_t, int64_t> RowsOf(const Hdf5Dataset& dataset, std::string_view where) {
  std::vector<uint64_t> shape = dataset.shape;
  if (shape.size() == 3 && shape[0] == 1) shape.erase(shape.begin());
  constexpr uint64_t kMostExtent = uint64_t{1} << 40;
  Require(shape.size() == 2 && std::all_of(shape.begin(), shape.end(), [](uint64_t n) { return n <= kMostExtent; }),
          "{}: expected {} of shape [tiles, D] or [1, tiles, D], got [{}]", where, dataset.name,
          fmt::join(dataset.shape, ", "));
  return {static_cast<int64_t>(shape[0]), static_cast<int64_t>(shape[1])};
}

template <typename Stored, typename Convert>
void ConvertElements(std::span<const std::byte> stored, std::span<float> to, const Convert& convert) {
  for (size_t i = 0; i < to.size(); ++i) {
    Stored value;
    std::memcpy(&value, stored.data() + sizeof(Stored) * i, sizeof(Stored));
    to[i] = convert(value);
  }
}

Tensor<float> ReadFloats(const Hdf5File& file, const Hdf5Dataset& dataset, std::string_view where) {
  Require(dataset.type.kind == Hdf5Type::Kind::kFloat, "{}: expected {} of float16, float32 or float64, got {}", where,
          dataset.name, dataset.type.name);
  const auto [rows, width] = RowsOf(dataset, where);
  const size_t bytes = file.Size(dataset), element = dataset.type.size;
  RequireMemory(static_cast<double>(bytes) * (1 + sizeof(float) / static_cast<double>(element)), where);
  Tensor<float> values = Tensor<float>::Uninitialised({rows, width});
  if (element == sizeof(float)) {
    file.Read(dataset, std::as_writable_bytes(values.span()));
    return values;
  }
  std::vector<std::byte> stored(bytes);
  file.Read(dataset, stored);
  if (element == sizeof(Half)) {
    ConvertElements<Half>(stored, values.span(), [](Half value) { return ToFloat(value); });
  } else {
    ConvertElements<double>(stored, values.span(), [](double value) { return static_cast<float>(value); });
  }
  return values;
}

std::vector<std::array<int64_t, 2>> ReadPlaces(const Hdf5File& file, const Hdf5Dataset& dataset,
                                               std::string_view where) {
  const auto [rows, width] = RowsOf(dataset, where);
  Require(dataset.type.kind == Hdf5Type::Kind::kInteger && width == 2,
          "{}: expected {} of integers [tiles, 2], got {} [{}]", where, dataset.name, dataset.type.name,
          fmt::join(dataset.shape, ", "));
  const size_t bytes = file.Size(dataset), element = dataset.type.size;
  RequireMemory(static_cast<double>(bytes) * (1 + sizeof(int64_t) / static_cast<double>(element)), where);
  std::vector<std::byte> stored(bytes);
  file.Read(dataset, stored);
  std::vector<std::array<int64_t, 2>> places(static_cast<size_t>(rows));
  for (size_t i = 0; i < places.size(); ++i) {
    for (size_t side = 0; side < 2; ++side) {
      const auto value = ParseValue(dataset.type, std::span(stored).subspan(element * (2 * i + side), element));
      Require(value.has_value(), "{}: {} has a number above 2^63 - 1", where, dataset.name);
      places[i][side] = std::get<int64_t>(*value);
    }
  }
  return places;
}

}  // namespace

std::optional<double> FindNumber(const Attributes& attributes, const std::string& name) {
  const auto found = attributes.find(name);
  if (found == attributes.end()) return std::nullopt;
  if (const int64_t* const whole = std::get_if<int64_t>(&found->second)) return static_cast<double>(*whole);
  if (const double* const real = std::get_if<double>(&found->second)) return *real;
  return std::nullopt;
}

FeatureFile ReadFeatureBytes(std::span<const std::byte> bytes, std::string_view where) {
  const Hdf5File file(bytes, where);
  const Hdf5Dataset features = file.Open("features");
  FeatureFile result{.features = ReadFloats(file, features, where), .feature_attributes = features.attributes};
  if (file.Has("coords")) {
    const Hdf5Dataset coords = file.Open("coords");
    result.coords = ReadPlaces(file, coords, where);
    result.coord_attributes = coords.attributes;
  }
  return result;
}

FeatureFile ReadFeatureFile(const std::filesystem::path& path) {
  const MappedFile file(path);
  const std::string where = path.string();
  FeatureFile result = ReadFeatureBytes(file.bytes(), where);
  file.RequireUnchanged(where);
  return result;
}

}  // namespace qkv::slide
