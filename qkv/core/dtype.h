// The element types that a file can hold, and the two half-precision formats as plain bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace qkv {

enum class DType : uint8_t { kBool, kU8, kI8, kI16, kU16, kF16, kBF16, kI32, kU32, kF32, kF64, kI64, kU64 };

/// Bytes of one element.
size_t ElementSize(DType dtype);

/// The name in a safetensors header, such as "BF16".
std::string_view Name(DType dtype);

/// IEEE 754 binary16, as stored.
struct Half {
  uint16_t bits = 0;
};

/// The upper half of an IEEE 754 binary32, as stored.
struct BFloat16 {
  uint16_t bits = 0;
};

/// How elements of a type are stored.
template <typename T>
constexpr DType DTypeFor() {
  if constexpr (std::is_same_v<T, float>) return DType::kF32;
  if constexpr (std::is_same_v<T, double>) return DType::kF64;
  if constexpr (std::is_same_v<T, Half>) return DType::kF16;
  if constexpr (std::is_same_v<T, BFloat16>) return DType::kBF16;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::kU8;
  if constexpr (std::is_same_v<T, int64_t>) return DType::kI64;
}

inline float ToFloat(BFloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }
float ToFloat(Half x);

/// Rounds to nearest, ties to even. Values out of range become infinity; NaN stays NaN.
BFloat16 ToBFloat16(float x);
Half ToHalf(float x);

}  // namespace qkv
