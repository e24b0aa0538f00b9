// Enumerations by name: rows of {value, name}, of which a value's first row has the name that is written.
#pragma once

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

namespace qkv {

/// The value must be in the table.
template <typename Rows, typename T>
std::string_view FindName(const Rows& rows, T value) {
  return std::find_if(std::begin(rows), std::end(rows), [&](const auto& row) { return row.first == value; })->second;
}

template <typename T, typename Rows>
std::optional<T> FindIn(const Rows& rows, std::string_view name) {
  const auto row = std::find_if(std::begin(rows), std::end(rows), [&](const auto& r) { return r.second == name; });
  return row == std::end(rows) ? std::nullopt : std::optional<T>(row->first);
}

}  // namespace qkv
