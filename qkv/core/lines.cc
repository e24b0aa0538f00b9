#include "qkv/core/lines.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "qkv/core/error.h"
#include "qkv/core/file.h"

namespace qkv {

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  return text;
}

std::string ReadStandardInput(size_t max_bytes, std::string_view what, std::string_view advice) {
  std::string text;
  std::array<char, 1 << 16> block;
  for (size_t got = 1; got > 0; text.append(block.data(), got)) {
    got = std::fread(block.data(), 1, block.size(), stdin);
    Require(text.size() + got <= max_bytes, "{} on standard input has more than {} bytes; {}", what, max_bytes, advice);
  }
  return text;
}

std::string ReadFileOrInput(const std::filesystem::path& file, size_t max_bytes, std::string_view what) {
  return file == "-" ? ReadStandardInput(max_bytes, what, "split it") : ReadFile(file, max_bytes);
}

std::vector<std::string_view> SplitLines(std::string_view text) {
  text = WithoutByteOrderMark(text);
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::vector<std::string_view> SplitFilledLines(std::string_view text) {
  // Without a mark every second byte or more of a Latin text is zero.
  const std::string_view begin = text.substr(0, 1024);
  const bool marked = begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF");
  Require(!marked && std::ranges::count(begin, '\0') * 4 <= std::ssize(begin),
          "the texts are in UTF-16 or UTF-32, expected UTF-8: convert them with iconv -f UTF-16 -t UTF-8");
  std::vector<std::string_view> lines = SplitLines(text);
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace qkv
