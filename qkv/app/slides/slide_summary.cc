#include "qkv/app/slides/slide_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "qkv/core/file.h"
#include "qkv/report/page.h"
#include "qkv/report/table.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// Thumbnails of a page: more would make it too large to open.
constexpr size_t kPicturesOfPage = 500;
constexpr size_t kMostBytesOfPicture = size_t{4} << 20;

std::string SecondsOf(const SlideState& state) {
  double all = 0;
  for (const auto& [step, seconds] : state.seconds) all += seconds;
  return fmt::format("{:.1f}", all);
}

std::string StatusOf(const SlideState& state) {
  if (!state.error.empty()) return "failed";
  if (state.tiles == 0) return "no tissue";
  // Problems without a damaged tile: tissue was sought where nothing could be read.
  return state.damaged > 0 || !state.problems.empty() ? "damaged" : "done";
}

std::string Optional(const std::optional<double>& number) { return number ? report::Number(*number, 4) : ""; }

// "head: class", in a fixed order.
std::set<std::pair<std::string, std::string>> AnswerColumns(const std::vector<SlideState>& states) {
  std::set<std::pair<std::string, std::string>> columns;
  for (const SlideState& state : states) {
    for (const auto& [head, classes] : state.answers) {
      for (const auto& [name, probability] : classes) columns.emplace(head, name);
    }
  }
  return columns;
}

// `with_errors`: the page has a section of its own for them.
report::Table TableOf(const std::vector<SlideState>& states, bool with_errors) {
  using report::Align;
  report::Table table{.columns = {{"slide", Align::kLeft},
                                  {"status", Align::kLeft},
                                  {"width"},
                                  {"height"},
                                  {"mpp"},
                                  {"magnification"},
                                  {"tissue mm2"},
                                  {"tiles"},
                                  {"damaged"},
                                  {"seconds"}}};
  const auto answers = AnswerColumns(states);
  for (const auto& [head, name] : answers) table.columns.push_back({head + ": " + name});
  if (with_errors) table.columns.push_back({"error", Align::kLeft});
  table.columns.push_back({"path", Align::kLeft});
  for (const SlideState& state : states) {
    std::vector<std::string> row = {state.name,
                                    StatusOf(state),
                                    std::to_string(state.width),
                                    std::to_string(state.height),
                                    Optional(state.mpp),
                                    Optional(state.magnification),
                                    state.tissue > 0 ? report::Number(state.tissue, 4) : "",
                                    std::to_string(state.tiles),
                                    std::to_string(state.damaged),
                                    SecondsOf(state)};
    for (const auto& [head, name] : answers) {
      const auto of_head = state.answers.find(head);
      const bool known = of_head != state.answers.end() && of_head->second.contains(name);
      row.push_back(known ? fmt::format("{:.4f}", of_head->second.at(name)) : "");
    }
    if (with_errors) row.push_back(state.error);
    row.push_back(state.path);
    table.rows.push_back(std::move(row));
  }
  return table;
}

// A thumbnail, or nothing where it cannot be read any more.
std::string ReadPicture(const std::filesystem::path& file) {
  try {
    return ReadFile(file, kMostBytesOfPicture);
  } catch (const Error&) {
    return "";
  }
}

std::string PageOf(const SlideFolder& folder, const std::vector<SlideState>& states) {
  const auto failed = std::ranges::count_if(states, [](const SlideState& state) { return !state.error.empty(); });
  int64_t tiles = 0, damaged = 0;
  for (const SlideState& state : states) {
    tiles += state.tiles;
    damaged += state.damaged;
  }
  report::Page page("Slides", fmt::format("{} slides, {} failed; {} tiles, {} of them damaged", states.size(), failed,
                                          report::WithCommas(tiles), report::WithCommas(damaged)));
  page.Section("Pictures");
  std::vector<report::Picture> pictures;
  for (const SlideState& state : states) {
    if (pictures.size() == kPicturesOfPage) break;
    pictures.push_back({.webp = ReadPicture(folder.Contours(state.name)),
                        .caption = state.name,
                        .detail = state.error.empty()
                                      ? fmt::format("{} tiles, {} s", report::WithCommas(state.tiles), SecondsOf(state))
                                      : StatusOf(state),
                        .tip = state.error,
                        .marked = !state.error.empty()});
  }
  page.Gallery(pictures);
  if (states.size() > kPicturesOfPage) page.Note(fmt::format("The first {} of {}.", kPicturesOfPage, states.size()));
  page.Section("Numbers");
  page.Add(TableOf(states, /*with_errors=*/false));
  report::Table problems{.columns = {{"slide", report::Align::kLeft}, {"what went wrong", report::Align::kLeft}}};
  for (const SlideState& state : states) {
    if (!state.error.empty()) problems.rows.push_back({state.name, state.error});
    for (const std::string& problem : state.problems) problems.rows.push_back({state.name, problem});
  }
  if (!problems.rows.empty()) {
    page.Section("Failures", {report::Badge::Kind::kBad, std::to_string(problems.rows.size())});
    page.Add(problems);
  }
  return page.Html();
}

}  // namespace

std::vector<SlideState> WriteSummary(const SlideFolder& folder) {
  std::vector<SlideState> states = ReadStates(folder);
  Require(!states.empty(), "slide: {}: no results of slides to sum up", folder.root().string());
  WriteFile(folder.root() / "summary.csv", report::ToCsv(TableOf(states, /*with_errors=*/true)));
  WriteFile(folder.root() / "summary.html", PageOf(folder, states));
  return states;
}

}  // namespace qkv::app
