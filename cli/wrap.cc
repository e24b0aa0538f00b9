#include "cli/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <system_error>

namespace qkv::cli {

size_t TerminalColumns() {
  constexpr size_t kLeast = 40, kDefault = 100;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return std::max<size_t>(size.ws_col, kLeast);
  const char* const given = std::getenv("COLUMNS");
  const std::string_view text = given == nullptr ? std::string_view() : given;
  size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  if (error != std::errc() || end != text.data() + text.size() || columns == 0) return kDefault;
  return std::max(columns, kLeast);
}

size_t CountColumns(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

std::string Wrap(std::string_view text, size_t columns, size_t indent, size_t used) {
  std::string out;
  bool begins = true;  // nothing of the text is on the line yet
  while (!text.empty()) {
    size_t end = text.find_first_of(" |,\n");
    if (end == text.npos) end = text.size();
    if (end < text.size() && (text[end] == '|' || text[end] == ',')) ++end;
    const size_t width = CountColumns(text.substr(0, end));
    if (!begins && used + width > columns) {
      while (out.ends_with(' ')) out.pop_back();
      out += '\n' + std::string(indent, ' ');
      used = indent;
    }
    out += text.substr(0, end);
    used += width;
    begins = false;
    text.remove_prefix(end);
    if (text.empty() || (text[0] != ' ' && text[0] != '\n')) continue;
    const bool ends = text[0] == '\n';
    out += ends ? '\n' + std::string(indent, ' ') : " ";
    used = ends ? indent : used + 1;
    begins = ends;
    text.remove_prefix(1);
  }
  return out;
}

}  // namespace qkv::cli
