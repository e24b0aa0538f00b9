// Text tables, and four output formats.
#pragma once

#include <string>
#include <vector>

namespace qkv::report {

enum class Align { kLeft, kRight };

struct Column {
  std::string name;
  Align align = Align::kRight;  // for numbers; text uses kLeft
};

struct Table {
  std::string title;  // may be empty
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
};

// All throw Error if the table has no columns, or a row does not have one cell per column.

/// GitHub's Markdown.
std::string ToMarkdown(const Table& table);
/// RFC 4180 with a header line and without the title; lines end in "\n", as everywhere here.
std::string ToCsv(const Table& table);
/// Aligned with spaces, for a terminal; no trailing spaces.
std::string ToText(const Table& table);
/// <table> with a caption, a head and a body.
std::string ToHtml(const Table& table);

}  // namespace qkv::report
