// Values that users write as text: sizes, lists, precisions. `option` is the value's name for users, such as "--size";
// it begins the message of an Error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/simd/gemm/gemm.h"

namespace qkv::app {

/// Size of a model's input, in pixels; 0 x 0: each image's own, in whole patches.
struct InputSize {
  int64_t height = 0, width = 0;

  bool native() const { return height == 0; }

  bool operator==(const InputSize&) const = default;
};

/// "224x160", "224" or "native". Throws Error otherwise.
InputSize ParseSize(std::string_view text, std::string_view option);
/// "224x160" or "native"
std::string ToText(const InputSize& size);

/// "1,3,5", "all", or empty: numbers in [first, last], each once. Throws Error otherwise.
std::vector<int64_t> ParseList(std::string_view text, int64_t first, int64_t last, std::string_view option);

/// "0.5" or "0.485,0.456,0.406". Throws Error for anything else, and for numbers that are not finite.
std::vector<double> ParseNumbers(std::string_view text, std::string_view option);

/// "LOW,HIGH": the grey levels that become black and white; or a name of the usual windows of CT, in Hounsfield units,
/// such as "lung". Throws Error for other names, and unless LOW is below HIGH.
std::pair<double, double> ParseWindow(std::string_view text, std::string_view option);

/// "fp32", "bf16", "int8", or "auto": bf16 if this machine is faster in it, else fp32. Throws Error otherwise.
simd::Precision ParsePrecision(std::string_view name, std::string_view option);
/// "fp32", "bf16" or "int8".
std::string_view PrecisionName(simd::Precision precision);

}  // namespace qkv::app
