// Formats text and numbers for documents: escaping and significant digits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::report {

/// Escapes text for XML and HTML, between tags or in a quoted attribute. Characters that XML forbids, and bytes that
/// are not UTF-8, become U+FFFD.
std::string EscapeXml(std::string_view text);

/// Escapes Markdown and joins lines, for table cells.
std::string EscapeMarkdown(std::string_view text);

/// A field by RFC 4180: quoted if it contains a comma, a quote or a line break.
std::string EscapeCsv(std::string_view text);

/// Number of code points: the terminal width, except for wide and combining characters.
int64_t CountCharacters(std::string_view text);

/// `digits` significant digits: 0.0123, 7.31, 1465 (digits before the point are never rounded away), 64 for an integer,
/// 1.2e-7 and 3.5e9 outside 1e-4 … 1e7; "–" for NaN, "∞" and "−∞". The minus sign of numbers is ASCII, so that programs
/// can parse it.
std::string Number(double value, int digits = 3);

/// A duration: "31.1 µs", "2.93 s".
std::string Seconds(double seconds, int digits = 3);

/// "12,345,678"
std::string WithCommas(int64_t number);

}  // namespace qkv::report
