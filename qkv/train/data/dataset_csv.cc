// CSV and TSV tables of paths and labels.
#include <algorithm>
#include <cctype>
#include <unordered_map>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/io/csv.h"
#include "qkv/train/data/dataset_formats.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

// Column indices of path, label and split; the default order for a table without a header.
struct Columns {
  size_t path = 0, label = 1, split = 2;
  bool named = false;
};

Columns FindColumns(const std::vector<std::string>& fields) {
  const auto find = [&](std::initializer_list<std::string_view> names) {
    size_t i = 0;
    for (; i < fields.size(); ++i) {
      std::string name = fields[i];
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      if (std::ranges::find(names, name) != names.end()) break;
    }
    return i;
  };
  const size_t none = fields.size();
  const Columns columns{find({"path", "file", "filename", "file_name", "image"}), find({"label", "class", "category"}),
                        find({"split", "set", "subset"}), true};
  return columns.path != none && columns.label != none ? columns : Columns{};
}

bool IsTable(const fs::path& path) {
  const std::string ending = path.extension().string();
  return ending == ".csv" || ending == ".CSV" || ending == ".tsv" || ending == ".TSV";
}

}  // namespace

std::vector<CsvRow> ParseCsv(std::string_view text, std::string_view where) {
  io::CsvReader reader(text, where);
  std::vector<CsvRow> rows;
  io::CsvRecord record;
  Columns columns;
  bool first = true;
  while (reader.Next(&record)) {
    std::vector<std::string>& fields = record.fields;
    if (first) {
      first = false;
      columns = FindColumns(fields);
      if (columns.named) continue;
    }
    Require(fields.size() > std::max(columns.path, columns.label), "{}:{}: {} fields, expected a path and a label",
            where, record.line, fields.size());
    CsvRow row{fields[columns.path], fields[columns.label], columns.split < fields.size() ? fields[columns.split] : ""};
    Require(!row.path.empty() && !row.label.empty(), "{}:{}: no {}", where, record.line,
            row.path.empty() ? "path" : "label");
    Require(row.path.find('\0') == row.path.npos, "{}:{}: a path with a zero byte", where, record.line);
    if (!row.split.empty()) {
      const std::string_view split = SplitNamed(row.split);
      Require(!split.empty(), "{}:{}: expected train, val or test as the split, got \"{}\"", where, record.line,
              row.split);
      row.split = split;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::optional<Dataset> OpenCsv(const fs::path& path) {
  if (!fs::is_regular_file(path) || !IsTable(path)) return {};
  const std::string text = ReadFile(path);
  // A row of a few bytes becomes three strings, a path and a label.
  constexpr double kBytesOfRow = 400, kTimes = 3;
  const auto lines = static_cast<double>(std::ranges::count(text, '\n') + 1);
  RequireMemory(kTimes * static_cast<double>(text.size()) + kBytesOfRow * lines, path.string());
  const std::vector<CsvRow> rows = ParseCsv(text, path.string());
  Require(!rows.empty(), "{}: a table without rows", path.string());
  Dataset dataset{.format = "CSV"};
  for (const CsvRow& row : rows) dataset.classes.push_back(row.label);
  SortClasses(dataset.classes);
  std::unordered_map<std::string_view, int64_t> label_of;
  for (const std::string& name : dataset.classes) label_of.emplace(name, std::ssize(label_of));
  const bool in_splits = std::ranges::any_of(rows, [](const CsvRow& row) { return !row.split.empty(); });
  for (const char* name : {"all", "train", "val", "test"}) {
    Split split{.name = name};
    for (const CsvRow& row : rows) {
      Require(row.split.empty() != in_splits, "{}: {} has no split, others have", path.string(), row.path);
      if ((in_splits ? row.split : "all") != split.name) continue;
      split.files.push_back(path.parent_path() / row.path);
      split.labels.push_back(label_of.at(row.label));
    }
    dataset.splits.push_back(std::move(split));
  }
  return dataset;
}

}  // namespace qkv::train
