// What C++20 has and the libc++ 13 of Debian 12's emscripten lacks, from packages where there are some. Included before
// every source of the WebAssembly build; with a later libc++ it does nothing.
#pragma once

#include <version>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000

#include <fast_float/fast_float.h>

#include <atomic>
#include <charconv>
#include <cstdint>
#include <range/v3/algorithm/adjacent_find.hpp>
#include <range/v3/algorithm/all_of.hpp>
#include <range/v3/algorithm/any_of.hpp>
#include <range/v3/algorithm/binary_search.hpp>
#include <range/v3/algorithm/copy.hpp>
#include <range/v3/algorithm/copy_if.hpp>
#include <range/v3/algorithm/count.hpp>
#include <range/v3/algorithm/count_if.hpp>
#include <range/v3/algorithm/equal.hpp>
#include <range/v3/algorithm/fill.hpp>
#include <range/v3/algorithm/find.hpp>
#include <range/v3/algorithm/find_if.hpp>
#include <range/v3/algorithm/find_if_not.hpp>
#include <range/v3/algorithm/for_each.hpp>
#include <range/v3/algorithm/heap_algorithm.hpp>
#include <range/v3/algorithm/is_sorted.hpp>
#include <range/v3/algorithm/lower_bound.hpp>
#include <range/v3/algorithm/max.hpp>
#include <range/v3/algorithm/max_element.hpp>
#include <range/v3/algorithm/min_element.hpp>
#include <range/v3/algorithm/move.hpp>
#include <range/v3/algorithm/none_of.hpp>
#include <range/v3/algorithm/replace.hpp>
#include <range/v3/algorithm/replace_if.hpp>
#include <range/v3/algorithm/reverse.hpp>
#include <range/v3/algorithm/sort.hpp>
#include <range/v3/algorithm/stable_sort.hpp>
#include <range/v3/algorithm/transform.hpp>
#include <range/v3/algorithm/upper_bound.hpp>
#include <type_traits>

// Not while the packages themselves are compiled.
#if __has_include(<fmt/format.h>)
#define QKV_HAS_FMT
#include <fmt/format.h>
#endif

namespace std {

namespace ranges {
using ::ranges::adjacent_find;
using ::ranges::all_of;
using ::ranges::any_of;
using ::ranges::binary_search;
using ::ranges::copy;
using ::ranges::copy_if;
using ::ranges::count;
using ::ranges::count_if;
using ::ranges::equal;
using ::ranges::fill;
using ::ranges::find;
using ::ranges::find_if;
using ::ranges::find_if_not;
using ::ranges::for_each;
using ::ranges::is_sorted;
using ::ranges::lower_bound;
using ::ranges::max;
using ::ranges::max_element;
using ::ranges::min_element;
using ::ranges::move;
using ::ranges::none_of;
using ::ranges::pop_heap;
using ::ranges::push_heap;
using ::ranges::replace;
using ::ranges::replace_if;
using ::ranges::reverse;
using ::ranges::sort;
using ::ranges::sort_heap;
using ::ranges::stable_sort;
using ::ranges::transform;
using ::ranges::upper_bound;
}  // namespace ranges

template <typename To, typename From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

// Of numbers with a fraction; those without libc++ has.
template <typename Number>
enable_if_t<is_floating_point_v<Number>, from_chars_result> from_chars(const char* first, const char* last,
                                                                       Number& number) {
  const auto [end, error] = fast_float::from_chars(first, last, number);
  return {end, error};
}
#ifdef QKV_HAS_FMT
template <typename Number>
enable_if_t<is_floating_point_v<Number>, to_chars_result> to_chars(char* first, char* last, Number number) {
  const auto room = static_cast<size_t>(last - first);
  const auto written = fmt::format_to_n(first, room, "{}", number);
  return written.size > room ? to_chars_result{last, errc::value_too_large} : to_chars_result{written.out, errc{}};
}
#endif

template <typename T>
class atomic_ref {
 public:
  explicit atomic_ref(T& at) : at_(&at) {}
  void store(T value, memory_order order) const { __atomic_store_n(at_, value, static_cast<int>(order)); }
  T load(memory_order order) const { return __atomic_load_n(at_, static_cast<int>(order)); }

 private:
  T* at_;
};

}  // namespace std

#endif
