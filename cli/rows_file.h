// Results of many images as a table, .csv, or as JSON Lines, .jsonl.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::cli {

class RowsFile {
 public:
  /// Throws Error, which begins with the command's name, unless `path` ends in .csv or .jsonl.
  RowsFile(std::string path, std::string_view command);

  bool is_csv() const { return path_.ends_with(".csv"); }
  /// The first row of a .csv; nothing in .jsonl.
  void Header(const std::vector<std::string>& names);
  /// cells: of a .csv, quoted where needed.
  void AddCells(const std::vector<std::string>& cells);
  /// json: a line of .jsonl.
  void AddLine(const io::Json& json);
  /// Writes the file whole, or not at all.
  void Save() const;

 private:
  std::string path_, text_;
};

}  // namespace qkv::cli
