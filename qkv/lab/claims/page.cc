#include "qkv/lab/claims/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/report/page.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

report::Table CheckTable(const Result& result) {
  report::Table table{
      "", {{"what", report::Align::kLeft}, {"predicted"}, {"measured"}, {"", report::Align::kLeft}}, {}};
  for (const Check& check : result.checks) {
    const bool decides = check.relation != Relation::kObserved;
    table.rows.push_back({check.what, Predicted(check), Measured(check),
                          !decides        ? ""
                          : check.holds() ? "✓"
                                          : "✗ contradicts"});
  }
  return table;
}

report::Badge MakeBadge(const Result& result) {
  using Kind = report::Badge::Kind;
  if (!result.agrees()) return {Kind::kBad, "contradicted here"};
  switch (result.verdict) {
    case Verdict::kHolds:
      return {Kind::kGood, std::string(Name(result.verdict))};
    case Verdict::kHoldsUnderConditions:
      return {Kind::kPartly, std::string(Name(result.verdict))};
    case Verdict::kDoesNotHold:
      return {Kind::kBad, std::string(Name(result.verdict))};
    case Verdict::kOpen:
    case Verdict::kNotMeasured:
      return {Kind::kPlain, std::string(Name(result.verdict))};
  }
  return {};
}

std::string Indented(const std::string& text) {
  std::string out = "    ";
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n') out += "    ";
  }
  return out + "\n";
}

// "  claim    words that are wrapped\n           to a second line\n"
std::string Paragraph(std::string_view name, std::string_view words) {
  constexpr int64_t kWidth = 100;
  std::string text = fmt::format("  {:<9}", name);
  int64_t at = 0;
  for (size_t begin = 0; begin < words.size();) {
    const size_t end = std::min(words.find(' ', begin), words.size());
    const std::string_view word = words.substr(begin, end - begin);
    const int64_t width = report::CountCharacters(word);
    if (at > 0 && at + 1 + width > kWidth) {
      text += fmt::format("\n{:11}", "");
      at = 0;
    }
    text += at > 0 ? " " : "";
    text += word;
    at += width + (at > 0);
    begin = end + 1;
  }
  return text + "\n";
}

std::string_view Name(Relation relation) {
  switch (relation) {
    case Relation::kEquals:
      return "equals";
    case Relation::kAtMost:
      return "at_most";
    case Relation::kAtLeast:
      return "at_least";
    case Relation::kObserved:
      return "observed";
  }
  return "?";
}

io::Json Finite(double value) { return std::isfinite(value) ? io::Json(value) : io::Json(); }

}  // namespace

std::string Summary(std::span<const Result> results) {
  report::Table table{
      "",
      {{"", report::Align::kLeft}, {"claim", report::Align::kLeft}, {"verdict", report::Align::kLeft}, {"checks"}},
      {}};
  int64_t agreeing = 0;
  for (const Result& result : results) {
    int64_t deciding = 0, holding = 0;
    for (const Check& check : result.checks) {
      if (check.relation == Relation::kObserved) continue;
      ++deciding;
      holding += check.holds() ? 1 : 0;
    }
    agreeing += result.agrees() ? 1 : 0;
    const std::string checks =
        deciding == 0 ? "–" : fmt::format("{}/{} {}", holding, deciding, holding == deciding ? "✓" : "✗");
    table.rows.push_back({result.id, result.title, std::string(Name(result.verdict)), checks});
  }
  return fmt::format("{}\n{} of {} claims gave here what the verdict says\n", report::ToText(table), agreeing,
                     results.size());
}

std::string ToText(const Result& result) {
  std::string text = fmt::format("{:<4} {}: {}{}\n", result.id, result.title, Name(result.verdict),
                                 result.agrees() ? "" : ", but what was measured here CONTRADICTS it");
  text += Paragraph("claim", result.claim) + Paragraph("run", result.run);
  text += Indented(report::ToText(CheckTable(result)));
  for (const report::Table& table : result.tables) text.append("\n").append(Indented(report::ToText(table)));
  return text + Paragraph("because", result.reason) + "\n";
}

io::Json ToJson(const Result& result) {
  io::Json checks = io::Json::array();
  for (const Check& check : result.checks) {
    checks.push_back({{"what", check.what},
                      {"relation", Name(check.relation)},
                      {"predicted", Finite(check.predicted)},
                      {"measured", Finite(check.measured)},
                      {"tolerance", Finite(check.tolerance)},
                      {"unit", check.unit},
                      {"holds", check.holds()}});
  }
  io::Json tables = io::Json::array();
  for (const report::Table& table : result.tables) {
    io::Json columns = io::Json::array();
    for (const report::Column& column : table.columns) columns.push_back(column.name);
    tables.push_back({{"title", table.title}, {"columns", columns}, {"rows", table.rows}});
  }
  return {{"id", result.id},
          {"title", result.title},
          {"claim", result.claim},
          {"run", result.run},
          {"verdict", Name(result.verdict)},
          {"reason", result.reason},
          {"agrees", result.agrees()},
          {"checks", checks},
          {"tables", tables}};
}

std::string ToPage(std::span<const Result> results, const std::string& model, const std::string& machine) {
  report::Page page(
      "What separate queries and keys do",
      "Claims of three texts on attention, replayed: what was predicted, what was measured, what is true.");
  page.Facts({{"trained weights", model}, {"machine", machine}});
  page.Note(
      "A check mark says that what was measured is what theory gives. Times and what one training happened to give "
      "are shown and never decide.");
  for (const Result& result : results) {
    page.Section(fmt::format("{} · {}", result.id, result.title), MakeBadge(result));
    page.Prose(result.claim);
    page.Note(fmt::format("Run: {}.", result.run));
    page.Prose(result.reason);
    for (const Picture& picture : result.pictures) {
      page.Figure(std::visit([](const auto& chart) { return report::Draw(chart); }, picture.chart), picture.caption);
    }
    page.Add(CheckTable(result));
    for (const report::Table& table : result.tables) page.Add(table);
  }
  return page.Html();
}

}  // namespace qkv::lab
