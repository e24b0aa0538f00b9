// A table of words, and the four ways it is written.
#pragma once

#include <string>
#include <vector>

namespace qkv::report {

enum class Align { kLeft, kRight };

struct Column {
  std::string name;
  Align align = Align::kRight;  // numbers; words want kLeft
};

struct Table {
  std::string title;  // may be empty
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // each as long as columns
};

// All throw Error when the table has no columns, or a row has not as many cells as there are columns.

/// GitHub's Markdown.
std::string ToMarkdown(const Table& table);
/// RFC 4180 with a line of names and without the title; lines end in "\n", as everywhere here.
std::string ToCsv(const Table& table);
/// Aligned with spaces, for a terminal; nothing follows the last word of a line.
std::string ToText(const Table& table);
/// <table> with a caption, a head and a body.
std::string ToHtml(const Table& table);

}  // namespace qkv::report
