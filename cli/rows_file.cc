#include "cli/rows_file.h"

#include <utility>

#include "qkv/app/open/json_line.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/report/text.h"

namespace qkv::cli {

RowsFile::RowsFile(std::string path, std::string_view command) : path_(std::move(path)) {
  Require(is_csv() || path_.ends_with(".jsonl"), "{}: expected a file that ends in .csv or .jsonl, got {}", command,
          path_);
}

void RowsFile::Header(const std::vector<std::string>& names) {
  if (is_csv()) AddCells(names);
}

void RowsFile::AddCells(const std::vector<std::string>& cells) {
  for (size_t i = 0; i < cells.size(); ++i) text_.append(i > 0 ? "," : "").append(report::EscapeCsv(cells[i]));
  text_ += '\n';
}

void RowsFile::AddLine(const io::Json& json) { text_.append(app::JsonLine(json)).append(1, '\n'); }

void RowsFile::Save() const { WriteFile(path_, text_); }

}  // namespace qkv::cli
