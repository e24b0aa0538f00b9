// Tables as text: CSV (RFC 4180), or TSV if the first line has a tab.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::io {

/// One line of a table; a quoted field may span several.
struct CsvRecord {
  int64_t line = 0;  // its first line, from 1
  std::vector<std::string> fields;
};

/// Reads record by record and skips empty lines. `text` and `where` must outlive it; `where` is the prefix of errors.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view where);

  /// Returns false at the end. Throws Error for a quoted field without an end or with text behind it.
  bool Next(CsvRecord* record);

 private:
  bool ReadField(CsvRecord* record);
  void ReadQuoted(std::string* field);

  std::string_view text_, where_;
  char comma_ = ',';
  size_t at_ = 0;
  int64_t line_ = 1;
};

}  // namespace qkv::io
