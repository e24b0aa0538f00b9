#include "qkv/report/text.h"

#include <fmt/format.h>

#include <cmath>

#include "qkv/core/text.h"

namespace qkv::report {
namespace {

// XML 1.0 §2.2: only these three control characters, and not U+FFFE or U+FFFF.
bool IsXmlCharacter(std::string_view c) {
  if (c.size() == 1) return static_cast<unsigned char>(c[0]) >= 0x20 || c == "\t" || c == "\n" || c == "\r";
  return c != "\xEF\xBF\xBE" && c != "\xEF\xBF\xBF";
}

}  // namespace

std::string EscapeXml(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view c = text.substr(0, length == 0 ? 1 : length);
    if (length == 0 || !IsXmlCharacter(c)) {
      out += kReplacementCharacter;
    } else if (c == "&") {
      out += "&amp;";
    } else if (c == "<") {
      out += "&lt;";
    } else if (c == ">") {
      out += "&gt;";
    } else if (c == "\"") {
      out += "&quot;";
    } else if (c == "'") {
      out += "&#39;";
    } else {
      out += c;
    }
    text.remove_prefix(c.size());
  }
  return out;
}

std::string EscapeMarkdown(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n' || c == '\r') {
      out += ' ';
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else {
      if (std::string_view("\\|*_`[]~").find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string EscapeCsv(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

int64_t CountCharacters(std::string_view text) {
  int64_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string Number(double value, int digits) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  // Integers have no fractional digits.
  if (value == std::round(value) && std::abs(value) < 1e7) return fmt::format("{:.0f}", value == 0 ? 0.0 : value);
  // Round first, so that 999.9 is formatted like 1000.
  const double rounded = std::stod(fmt::format("{:.{}e}", value, digits - 1));
  const int exponent = static_cast<int>(std::floor(std::log10(std::abs(rounded))));
  if (exponent >= 7 || exponent < -4) {
    const std::string text = fmt::format("{:.{}e}", value, digits - 1);
    const size_t e = text.find('e');
    return fmt::format("{}e{}", text.substr(0, e), std::stoi(text.substr(e + 1)));
  }
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - exponent));
}

std::string Seconds(double seconds, int digits) {
  if (!std::isfinite(seconds)) return Number(seconds);
  const double magnitude = std::abs(seconds);
  if (magnitude >= 1 || magnitude == 0) return Number(seconds, digits) + " s";
  if (magnitude >= 1e-3) return Number(seconds * 1e3, digits) + " ms";
  if (magnitude >= 1e-6) return Number(seconds * 1e6, digits) + " µs";
  return Number(seconds * 1e9, digits) + " ns";
}

std::string WithCommas(int64_t number) {
  std::string text = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = text.size(); at > first + 3;) text.insert(at -= 3, 1, ',');
  return text;
}

}  // namespace qkv::report
