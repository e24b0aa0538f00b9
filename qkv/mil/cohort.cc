#include "qkv/mil/cohort.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/core/rng.h"
#include "qkv/io/csv.h"
#include "qkv/io/json.h"

namespace qkv::mil {
namespace {

struct Column {
  std::string_view meaning;
  std::vector<std::string_view> names;
};

const std::array<Column, 4>& Columns() {
  static const std::array<Column, 4> columns = {
      {{"slide", {"slide", "slide_id", "slide_name", "wsi", "filename", "file", "image", "name"}},
       {"label", {"label", "class", "target", "diagnosis", "y"}},
       {"patient", {"patient", "patient_id", "case", "case_id", "subject", "subject_id"}},
       {"split", {"split", "set", "partition"}}}};
  return columns;
}

std::string Lower(std::string_view text) {
  std::string lower(Trim(text));
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// The column of each meaning in the header, or nothing.
std::array<std::optional<size_t>, 4> FindColumns(const io::CsvRecord& header, std::string_view where) {
  std::array<std::optional<size_t>, 4> found;
  for (size_t meaning = 0; meaning < found.size(); ++meaning) {
    for (size_t i = 0; i < header.fields.size(); ++i) {
      const std::string name = Lower(header.fields[i]);
      if (!std::ranges::count(Columns()[meaning].names, name)) continue;
      Require(!found[meaning].has_value(), "{}:{}: columns {} and {} both say the {}; keep one of them", where,
              header.line, header.fields[found[meaning].value_or(i)], header.fields[i], Columns()[meaning].meaning);
      found[meaning] = i;
    }
    Require(meaning > 1 || found[meaning].has_value(), "{}:{}: no column for the {}; expected a header with one of {}",
            where, header.line, Columns()[meaning].meaning, fmt::join(Columns()[meaning].names, ", "));
  }
  return found;
}

Split ParseSplit(std::string_view text, std::string_view where, int64_t line) {
  const std::string word = Lower(text);
  if (word.empty()) return Split::kNone;
  if (word == "train" || word == "training") return Split::kTrain;
  if (word == "val" || word == "valid" || word == "validation" || word == "tune" || word == "dev") {
    return Split::kValidation;
  }
  if (word == "test" || word == "testing") return Split::kTest;
  Fail("{}:{}: split is {}, expected train, val or test", where, line, io::Quoted(text));
}

void CheckTable(const std::vector<LabelledSlide>& rows, std::string_view where) {
  Require(!rows.empty(), "{}: no slides below the header", where);
  std::map<std::string, int64_t, std::less<>> slides;
  std::map<std::string, const LabelledSlide*, std::less<>> patients;
  for (const LabelledSlide& row : rows) {
    const auto [at, added] = slides.emplace(row.slide, row.line);
    Require(added, "{}:{}: slide {} is in line {} already", where, row.line, io::Quoted(row.slide), at->second);
    Require((row.split == Split::kNone) == (rows[0].split == Split::kNone),
            "{}:{}: some slides have a split and others none; fill the column or leave it out", where, row.line);
    const auto [patient, first] = patients.emplace(row.patient, &row);
    Require(first || patient->second->split == row.split,
            "{}:{}: patient {} is in another split in line {}; a patient's slides must stay together", where, row.line,
            io::Quoted(row.patient), patient->second->line);
  }
}

std::optional<double> AsNumber(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // "nan" is a name: it has no order.
  const bool is_number = error == std::errc() && end == text.data() + text.size() && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

void RequireClasses(const Cohort& cohort, const Fold& fold, size_t number) {
  Require(!fold.train.empty() && !fold.validation.empty() && !fold.test.empty(),
          "mil: fold {} has {} slides for training, {} for validation and {} for the test, expected some of each",
          number, fold.train.size(), fold.validation.size(), fold.test.size());
  std::vector<int64_t> counts(cohort.classes.size());
  for (const int64_t slide : fold.train) ++counts[static_cast<size_t>(cohort.slides[static_cast<size_t>(slide)].label)];
  for (size_t c = 0; c < counts.size(); ++c) {
    Require(counts[c] > 0, "mil: no slide of class {} is in the training part of fold {}",
            io::Quoted(cohort.classes[c]), number);
  }
}

Fold SplitFold(const Cohort& cohort) {
  Fold fold;
  for (size_t i = 0; i < cohort.slides.size(); ++i) {
    const Split split = cohort.slides[i].split;
    Require(split != Split::kNone, "mil: slide {} has no split, and others have", io::Quoted(cohort.slides[i].name));
    auto& part = split == Split::kTrain ? fold.train : split == Split::kValidation ? fold.validation : fold.test;
    part.push_back(static_cast<int64_t>(i));
  }
  if (fold.test.empty()) fold.test = fold.validation;
  return fold;
}

// Patients by class, that of most of their slides; of equally many the first.
std::vector<std::vector<std::string>> PatientsByClass(const Cohort& cohort) {
  std::map<std::string, std::vector<int64_t>, std::less<>> counts;
  for (const Cohort::Slide& slide : cohort.slides) {
    auto& of_patient = counts[slide.patient];
    of_patient.resize(cohort.classes.size());
    ++of_patient[static_cast<size_t>(slide.label)];
  }
  std::vector<std::vector<std::string>> patients(cohort.classes.size());
  for (const auto& [patient, of_patient] : counts) {
    const auto most = std::max_element(of_patient.begin(), of_patient.end()) - of_patient.begin();
    patients[static_cast<size_t>(most)].push_back(patient);
  }
  return patients;
}

}  // namespace

std::vector<LabelledSlide> ParseLabels(std::string_view text, std::string_view where) {
  io::CsvReader reader(text, where);
  io::CsvRecord record;
  Require(reader.Next(&record), "{}: the file is empty; expected a header with slide and label", where);
  const size_t width = record.fields.size();
  const auto columns = FindColumns(record, where);
  std::vector<LabelledSlide> rows;
  while (reader.Next(&record)) {
    Require(record.fields.size() == width, "{}:{}: {} fields, and the header has {}", where, record.line,
            record.fields.size(), width);
    const auto field = [&](size_t meaning) {
      return columns[meaning] ? std::string(Trim(record.fields[*columns[meaning]])) : std::string();
    };
    LabelledSlide row{.slide = field(0), .label = field(1), .patient = field(2), .line = record.line};
    Require(!row.slide.empty(), "{}:{}: the slide has no name", where, record.line);
    Require(!row.label.empty(), "{}:{}: slide {} has no label", where, record.line, io::Quoted(row.slide));
    Require(!columns[2] || !row.patient.empty(), "{}:{}: slide {} has no patient", where, record.line,
            io::Quoted(row.slide));
    if (!columns[2]) row.patient = row.slide;
    row.split = ParseSplit(field(3), where, record.line);
    rows.push_back(std::move(row));
  }
  CheckTable(rows, where);
  return rows;
}

std::vector<LabelledSlide> ReadLabels(const std::filesystem::path& path) {
  constexpr size_t kMost = size_t{256} << 20;
  return ParseLabels(ReadFile(path, kMost), path.string());
}

Cohort MakeCohort(const std::vector<LabelledSlide>& table, std::function<Bag(int64_t slide)> load) {
  Cohort cohort;
  for (const LabelledSlide& row : table) cohort.classes.push_back(row.label);
  const bool numbers =
      std::ranges::all_of(cohort.classes, [](const std::string& name) { return AsNumber(name).has_value(); });
  std::sort(cohort.classes.begin(), cohort.classes.end(), [&](const std::string& a, const std::string& b) {
    return numbers && *AsNumber(a) != *AsNumber(b) ? *AsNumber(a) < *AsNumber(b) : a < b;
  });
  cohort.classes.erase(std::unique(cohort.classes.begin(), cohort.classes.end()), cohort.classes.end());
  Require(cohort.classes.size() >= 2, "mil: all slides have the label {}; expected two classes at least",
          io::Quoted(cohort.classes.empty() ? std::string_view("") : std::string_view(cohort.classes[0])));
  for (const LabelledSlide& row : table) {
    const auto at = std::find(cohort.classes.begin(), cohort.classes.end(), row.label) - cohort.classes.begin();
    cohort.slides.push_back({row.slide, row.patient, at, row.split});
  }
  cohort.load = std::move(load);
  return cohort;
}

std::vector<Fold> MakeFolds(const Cohort& cohort, int64_t folds, uint64_t seed) {
  if (!cohort.slides.empty() && cohort.slides[0].split != Split::kNone) {
    std::vector<Fold> one = {SplitFold(cohort)};
    RequireClasses(cohort, one[0], 0);
    return one;
  }
  Require(folds >= 3 && folds <= 1000,
          "mil: {} folds, expected 3 at least: one is tested, one validates, the rest trains", folds);
  std::vector<std::vector<std::string>> patients = PatientsByClass(cohort);
  std::map<std::string, int64_t, std::less<>> part_of;
  int64_t next = 0;  // goes on from class to class, so that parts are equally large
  for (size_t c = 0; c < patients.size(); ++c) {
    Require(std::ssize(patients[c]) >= folds,
            "mil: {} patients of class {} cannot be dealt to {} folds; expected as many at least. Use fewer folds, or "
            "a split column",
            patients[c].size(), io::Quoted(cohort.classes[c]), folds);
    Rng rng(MixSeed(seed, c));
    for (size_t i = patients[c].size(); i > 1; --i) std::swap(patients[c][i - 1], patients[c][rng.Next() % i]);
    for (const std::string& patient : patients[c]) part_of[patient] = next++ % folds;
  }
  std::vector<Fold> result(static_cast<size_t>(folds));
  for (size_t i = 0; i < cohort.slides.size(); ++i) {
    const int64_t part = part_of.find(cohort.slides[i].patient)->second;
    for (int64_t f = 0; f < folds; ++f) {
      Fold& fold = result[static_cast<size_t>(f)];
      auto& to = part == f ? fold.test : part == (f + 1) % folds ? fold.validation : fold.train;
      to.push_back(static_cast<int64_t>(i));
    }
  }
  for (size_t f = 0; f < result.size(); ++f) RequireClasses(cohort, result[f], f);
  return result;
}

}  // namespace qkv::mil
