// Requests and answers of the explorer as bytes: a JSON object and named arrays behind it (docs/explore_protocol.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::explore {

/// Types of the elements of arrays.
enum class ArrayType { kU8, kF32, kI32 };

/// "u8", "f32", "i32"
std::string_view Name(ArrayType type);

/// A dense array of numbers as they lie in memory, little-endian.
struct Array {
  ArrayType type = ArrayType::kU8;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;

  int64_t size() const;  // number of elements
  /// The elements. T: uint8_t, float or int32_t, as `type` says. Throws Error for another type.
  template <typename T>
  std::span<const T> As() const;
};

/// Copies elements. T: uint8_t, float or int32_t.
template <typename T>
Array MakeArray(View<const T> values);
template <typename T>
Array MakeArray(const Tensor<T>& values) {
  return MakeArray<T>(values.view());
}
/// Bytes of a file, [size].
Array MakeArray(std::string_view file);

/// One request or answer.
struct Packet {
  io::Json json = io::Json::object();  // without "arrays"
  std::map<std::string, Array, std::less<>> arrays;

  /// The array of this name; null if there is none.
  const Array* Find(std::string_view name) const;
};

/// As bytes: uint32 length of the JSON, JSON, zeros up to a multiple of 8, arrays, each padded to 8.
std::string Encode(const Packet& packet);

/// The reverse. JSON alone is a packet without arrays. Throws Error for a malformed packet: lengths beyond its end,
/// arrays that overlap the end or whose shape does not fit their bytes, or JSON that is not an object.
Packet Decode(std::span<const std::byte> bytes);

}  // namespace qkv::explore
