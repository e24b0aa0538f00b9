// Words and numbers as documents show them: escaped, and with the digits that count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace qkv::report {

/// Text as it stands between tags or inside of a quoted attribute of XML and HTML. Characters that XML forbids, and
/// bytes that are not UTF-8, become U+FFFD.
std::string EscapeXml(std::string_view text);

/// Text without marks of Markdown, on one line, fit for a cell of a table.
std::string EscapeMarkdown(std::string_view text);

/// A field of RFC 4180: quoted where it holds a comma, a quote or a line's end.
std::string EscapeCsv(std::string_view text);

/// How many characters (code points) text has: its width in a terminal, but for wide and combining ones.
int64_t CountCharacters(std::string_view text);

/// `digits` significant ones: 0.0123, 7.31, 1465 (no digit before the point is rounded away), 64 for an integer, 1.2e-7
/// and 3.5e9 beyond 1e-4 … 1e7; "–" for NaN, "∞" and "−∞". A minus sign is the ASCII one, so that programs read it.
std::string Number(double value, int digits = 3);

/// A time: "31.1 µs", "2.93 s".
std::string Seconds(double seconds, int digits = 3);

/// "12,345,678"
std::string WithCommas(int64_t number);

}  // namespace qkv::report
