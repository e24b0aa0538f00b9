#include "qkv/io/csv.h"

#include <algorithm>

#include "qkv/core/error.h"

namespace qkv::io {

CsvReader::CsvReader(std::string_view text, std::string_view where) : text_(text), where_(where) {
  if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);  // byte order mark
  const std::string_view first = text_.substr(0, text_.find('\n'));
  if (first.find('\t') != first.npos) comma_ = '\t';
}

bool CsvReader::Next(CsvRecord* record) {
  do {
    if (at_ == text_.size()) return false;
    record->line = line_;
    record->fields.clear();
    while (ReadField(record)) {
    }
  } while (record->fields.size() == 1 && record->fields[0].empty());
  return true;
}

// Returns true if another field follows on the line.
bool CsvReader::ReadField(CsvRecord* record) {
  std::string& field = record->fields.emplace_back();
  if (at_ < text_.size() && text_[at_] == '"') {
    ReadQuoted(&field);
  } else {
    const size_t end = std::min(text_.find_first_of(comma_ == ',' ? ",\r\n" : "\t\r\n", at_), text_.size());
    field = text_.substr(at_, end - at_);
    at_ = end;
  }
  if (at_ < text_.size() && text_[at_] == '\r') ++at_;
  if (at_ == text_.size()) return false;
  Require(text_[at_] == comma_ || text_[at_] == '\n', "{}:{}: unexpected text after a quoted field", where_, line_);
  const bool more = text_[at_] == comma_;
  line_ += !more;
  ++at_;
  return more;
}

void CsvReader::ReadQuoted(std::string* field) {
  const int64_t begin = line_;
  for (++at_;; ++at_) {
    Require(at_ < text_.size(), "{}:{}: a quoted field without an end", where_, begin);
    if (text_[at_] == '"') {
      if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
      ++at_;
    }
    line_ += text_[at_] == '\n';
    field->push_back(text_[at_]);
  }
  ++at_;
}

}  // namespace qkv::io
