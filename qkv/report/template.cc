#include "qkv/report/template.h"

#include <algorithm>
#include <set>

#include "qkv/core/error.h"

namespace qkv::report {

std::string FillTemplate(std::string_view text,
                         std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  constexpr std::string_view kOpen = "{{", kClose = "}}";
  std::set<std::string_view> used;
  std::string filled;
  for (size_t open; (open = text.find(kOpen)) != text.npos;) {
    filled += text.substr(0, open);
    text.remove_prefix(open + kOpen.size());
    const size_t close = text.find(kClose);
    Require(close != text.npos, "template: a placeholder begins with {} and does not end", kOpen);
    const std::string_view name = text.substr(0, close);
    const auto value = std::ranges::find(values, name, &std::pair<std::string_view, std::string_view>::first);
    Require(value != values.end(), "template: no value for the placeholder {}", name);
    used.insert(name);
    filled += value->second;
    text.remove_prefix(close + kClose.size());
  }
  Require(used.size() == values.size(), "template: {} values for {} placeholders", values.size(), used.size());
  return filled.append(text);
}

std::string_view WithoutLastLineEnd(std::string_view text) {
  return text.substr(0, text.size() - (text.ends_with('\n') ? 1 : 0));
}

}  // namespace qkv::report
