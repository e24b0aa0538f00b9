#include "qkv/report/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "qkv/report/text.h"

namespace qkv::report {
namespace {

void Check(const Table& table) {
  Require(!table.columns.empty(), "table \"{}\": expected columns, got none", table.title);
  for (size_t i = 0; i < table.rows.size(); ++i) {
    Require(table.rows[i].size() == table.columns.size(), "table \"{}\": expected {} cells in row {}, got {}",
            table.title, table.columns.size(), i, table.rows[i].size());
  }
}

std::vector<std::string> Names(const Table& table) {
  std::vector<std::string> names;
  for (const Column& column : table.columns) names.push_back(column.name);
  return names;
}

std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return Printable(text);
}

}  // namespace

std::string ToMarkdown(const Table& table) {
  Check(table);
  const auto line = [](const std::vector<std::string>& cells) {
    std::string text = "|";
    for (const std::string& cell : cells) text += fmt::format(" {} |", EscapeMarkdown(cell));
    return text + "\n";
  };
  std::string text;
  if (!table.title.empty()) text += fmt::format("**{}**\n\n", EscapeMarkdown(table.title));
  text += line(Names(table)) + "|";
  for (const Column& column : table.columns) text += column.align == Align::kRight ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string ToCsv(const Table& table) {
  Check(table);
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    for (size_t i = 0; i < cells.size(); ++i) text += fmt::format("{}{}", i > 0 ? "," : "", EscapeCsv(cells[i]));
    text += "\n";
  };
  add(Names(table));
  for (const auto& row : table.rows) add(row);
  return text;
}

std::string ToText(const Table& table) {
  Check(table);
  std::vector<int64_t> widths(table.columns.size());
  std::vector<std::vector<std::string>> rows = {Names(table)};
  rows.insert(rows.end(), table.rows.begin(), table.rows.end());
  for (auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = OneLine(std::move(row[i]));
      widths[i] = std::max(widths[i], CountCharacters(row[i]));
    }
  }
  std::string text;
  if (!table.title.empty()) text += OneLine(table.title) + "\n";
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(static_cast<size_t>(widths[i] - CountCharacters(row[i])), ' ');
      line += i > 0 ? "  " : "";
      line += table.columns[i].align == Align::kRight ? space + row[i] : row[i] + space;
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string ToHtml(const Table& table) {
  Check(table);
  const auto cell = [&](const char* tag, size_t i, const std::string& words) {
    const bool head = std::string_view(tag) == "th", right = table.columns[i].align == Align::kRight;
    return fmt::format("<{0}{1}{2}>{3}</{0}>", tag, head ? " scope=\"col\"" : "", right ? " class=\"number\"" : "",
                       EscapeXml(words));
  };
  std::string text = "<table>\n";
  if (!table.title.empty()) text += fmt::format("<caption>{}</caption>\n", EscapeXml(table.title));
  text += "<thead><tr>";
  for (size_t i = 0; i < table.columns.size(); ++i) text += cell("th", i, table.columns[i].name);
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (size_t i = 0; i < row.size(); ++i) text += cell("td", i, row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n";
}

}  // namespace qkv::report
