// Members of a request's JSON, checked: a missing or wrong one is an Error that says what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::explore {

/// A text; `otherwise` if it is missing or null.
std::string TextField(const io::Json& json, std::string_view key, std::string_view otherwise);
/// A text. Throws Error if it is missing.
std::string TextField(const io::Json& json, std::string_view key);

/// A number in [low, high]; `otherwise` if it is missing or null.
double NumberField(const io::Json& json, std::string_view key, double low, double high, double otherwise);
/// Likewise a whole number.
int64_t IntegerField(const io::Json& json, std::string_view key, int64_t low, int64_t high, int64_t otherwise);
/// A whole number. Throws Error if it is missing.
int64_t IntegerField(const io::Json& json, std::string_view key, int64_t low, int64_t high);

/// "all", which is also what a missing list is, or a list of whole numbers in [0, count), sorted and each once.
std::vector<int64_t> ListField(const io::Json& json, std::string_view key, int64_t count);

}  // namespace qkv::explore
