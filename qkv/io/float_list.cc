#include "qkv/io/float_list.h"

#include <array>
#include <charconv>
#include <cmath>

namespace qkv::io {

double ShortestDouble(float value) {
  if (!std::isfinite(value)) return value;
  std::array<char, 32> digits;  // 9 digits, sign, point and exponent
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  double shortest = value;
  std::from_chars(digits.data(), end, shortest);
  return shortest;
}

Json FloatList(std::span<const float> values) {
  Json list = Json::array();
  list.get_ref<Json::array_t&>().reserve(values.size());
  for (const float value : values) list.push_back(ShortestDouble(value));
  return list;
}

}  // namespace qkv::io
