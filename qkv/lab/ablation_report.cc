#include "qkv/lab/ablation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/report/page.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

using report::Align, report::Number, report::Table;

// Explanations of the tables, a sentence or two each.
struct Notes {
  std::string accuracies, differences, costs, learned;
};

// `shown` formats a name for the document.
Notes MakeNotes(const AblationResults& results, const std::function<std::string(const std::string&)>& shown) {
  const bool sequences = results.unit == "sequences";
  Notes notes;
  notes.accuracies = fmt::format(
      "Accuracies are those of the validation data after the last step, in percent{}; intervals hold the mean of all "
      "seeds with a probability of 95 % (Student's t), if accuracies vary about normally from seed to seed.",
      sequences ? " of the tokens that something is asked of" : "");
  notes.differences =
      "Differences are paired: a seed draws the same batches for every arm, so what it does to both falls out. An "
      "interval that holds 0 leaves open which of the two is better; of many intervals, one in twenty misses by "
      "chance.";
  notes.costs = fmt::format(
      "Parameters and multiply-adds (counted twice, of the forward pass of one of the {0}) are counted; {0} a second "
      "are measured on this machine, all arms in turns",
      results.unit);
  const std::vector<std::string> data = results.Data();
  notes.costs += data.size() > 1 ? fmt::format(", with the models of {}.", shown(data[0])) : ".";
  notes.learned =
      "Symmetry (−1 to 1) and ranks are those of M = W_QᵀW_K after LayerNorm, means over all heads, as `qkv qk "
      "inspect` "
      "has them: effective rank, and how many directions hold 99 % of the energy. Where scores are of places alone "
      "there is no such M.";
  return notes;
}

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("–");
}

// For machine-readable output: empty if there is no number.
std::string Plain(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

Speed FindSpeed(const AblationResults& results, const std::string& arm) {
  const auto found = results.speeds.find(arm);
  return found == results.speeds.end() ? Speed() : found->second;
}

Table CostTable(const AblationResults& results, const std::vector<ArmSummary>& arms) {
  Table table{.title = {},
              .columns = {{"arm", Align::kLeft},
                          {"parameters"},
                          {"MFLOP"},
                          {"steps"},
                          {fmt::format("trains, {}/s", results.unit)},
                          {fmt::format("answers, {}/s", results.unit)}},
              .rows = {}};
  for (const ArmSummary& arm : arms) {
    const Speed speed = FindSpeed(results, arm.arm);
    const auto rate = [](double x) { return x > 0 ? Number(x) : std::string("–"); };
    const RunResult& run = *arm.runs[0];
    table.rows.push_back({arm.arm, report::WithCommas(run.parameters), Number(run.flops / 1e6),
                          report::WithCommas(run.steps), rate(speed.training), rate(speed.inference)});
  }
  return table;
}

Table LearnedTable(const std::vector<ArmSummary>& arms) {
  Table table{
      .title = {}, .columns = {{"arm", Align::kLeft}, {"symmetry"}, {"effective rank"}, {"rank for 99 %"}}, .rows = {}};
  for (const ArmSummary& arm : arms) {
    table.rows.push_back({arm.arm, Fixed(arm.symmetry, 2), Fixed(arm.effective_rank, 1), Fixed(arm.rank99, 1)});
  }
  return table;
}

// One row per run.
Table RunTable(const AblationResults& results) {
  Table table{.title = {}, .columns = {}, .rows = {}};
  for (const char* name : {"data", "arm", "seed", "top1", "loss", "train_top1", "steps", "parameters", "flops",
                           "symmetry", "effective_rank", "rank99"}) {
    table.columns.push_back({name});
  }
  for (const RunResult& run : results.runs) {
    table.rows.push_back({run.data, run.arm, fmt::format("{}", run.seed), Plain(run.top1), Plain(run.loss),
                          Plain(run.train_top1), fmt::format("{}", run.steps), fmt::format("{}", run.parameters),
                          Plain(run.flops), Plain(run.symmetry), Plain(run.effective_rank), Plain(run.rank99)});
  }
  return table;
}

// One row per arm of a data set; "half" is half the width of the 95 % interval.
Table ArmTable(const AblationResults& results) {
  Table table{.title = {}, .columns = {}, .rows = {}};
  for (const char* name : {"data", "arm", "seeds", "top1", "top1_half", "difference", "difference_half", "train_top1",
                           "loss", "loss_half", "parameters", "flops", "steps", "training_images_per_second",
                           "inference_images_per_second", "symmetry", "effective_rank", "rank99"}) {
    table.columns.push_back({name});
  }
  for (const std::string& data : results.Data()) {
    for (const ArmSummary& arm : Summarise(results, data)) {
      const Speed speed = FindSpeed(results, arm.arm);
      const auto rate = [](double x) { return x > 0 ? Plain(x) : std::string(); };
      const RunResult& run = *arm.runs[0];
      table.rows.push_back({data, arm.arm, fmt::format("{}", arm.runs.size()), Plain(arm.top1.mean),
                            Plain(arm.top1.half), Plain(arm.difference.mean), Plain(arm.difference.half),
                            Plain(arm.train_top1), Plain(arm.loss.mean), Plain(arm.loss.half),
                            fmt::format("{}", run.parameters), Plain(run.flops), fmt::format("{}", run.steps),
                            rate(speed.training), rate(speed.inference), Plain(arm.symmetry), Plain(arm.effective_rank),
                            Plain(arm.rank99)});
    }
  }
  return table;
}

// Accuracy, or difference, of each arm on all data sets.
Table Overview(const AblationResults& results, Interval ArmSummary::*value, std::string_view title) {
  const bool signs = value == &ArmSummary::difference;
  const std::vector<std::string> data = results.Data();
  Table table{.title = std::string(title), .columns = {{"arm", Align::kLeft}}, .rows = {}};
  for (const std::string& name : data) table.columns.push_back({name});
  for (const std::string& arm : results.arms) {
    if (signs && arm == results.arms[0]) continue;
    std::vector<std::string>& row = table.rows.emplace_back();
    row.push_back(arm);
    for (const std::string& name : data) {
      const std::vector<ArmSummary> arms = Summarise(results, name);
      const auto found = std::ranges::find(arms, arm, &ArmSummary::arm);
      row.push_back(found == arms.end() ? "–" : Percent((*found).*value, signs));
    }
  }
  return table;
}

// Overviews if there is more than one data set.
std::vector<Table> OverviewTables(const AblationResults& results) {
  if (results.Data().size() < 2) return {};
  std::vector<Table> tables = {Overview(results, &ArmSummary::top1, "Accuracy, %")};
  if (results.arms.size() > 1) {
    tables.push_back(Overview(results, &ArmSummary::difference,
                              fmt::format("Difference to {}, percentage points", results.arms[0])));
  }
  return tables;
}

std::string RunsThatEnded(const AblationResults& results) {
  return fmt::format("{} of {} ended", results.runs.size(), results.planned);
}

std::string ReportMarkdown(const AblationResults& results) {
  std::string text = "# " + report::EscapeMarkdown(results.title) + "\n\n- Runs: " + RunsThatEnded(results) + "\n";
  for (const auto& [name, value] : results.facts) {
    text += fmt::format("- {}: {}\n", report::EscapeMarkdown(name), report::EscapeMarkdown(value));
  }
  for (const Table& table : OverviewTables(results)) text += "\n" + report::ToMarkdown(table);
  for (const std::string& data : results.Data()) {
    const std::vector<ArmSummary> arms = Summarise(results, data);
    text += fmt::format("\n## {}\n\n", report::EscapeMarkdown(data));
    for (const Table& table : {AccuracyTable(arms, ""), CostTable(results, arms), LearnedTable(arms)}) {
      text += report::ToMarkdown(table) + "\n";
    }
  }
  const Notes notes = MakeNotes(results, report::EscapeMarkdown);
  text += fmt::format("{}\n\n{}\n\n{}\n\n{}\n", notes.accuracies, notes.differences, notes.costs, notes.learned);
  return text;
}

std::string ReportPage(const AblationResults& results) {
  report::Page page(results.title, "The same training for each kind of attention, and what differs in the end.");
  std::vector<std::pair<std::string, std::string>> facts = {{"Runs", RunsThatEnded(results)}};
  facts.insert(facts.end(), results.facts.begin(), results.facts.end());
  page.Facts(facts);
  const Notes notes = MakeNotes(results, [](const std::string& name) { return name; });
  const std::vector<Table> overviews = OverviewTables(results);
  if (!overviews.empty()) page.Section("All data sets");
  for (const Table& table : overviews) page.Add(table);
  for (const std::string& data : results.Data()) {
    const std::vector<ArmSummary> arms = Summarise(results, data);
    page.Section("Accuracy on " + data);
    page.Figure(report::Draw(AccuracyChart(arms, data)),
                "Small marks are runs, large ones means with their intervals of 95 %; the upright line is the first "
                "arm's mean.");
    if (std::ranges::any_of(arms, [](const ArmSummary& arm) { return std::isfinite(arm.difference.mean); })) {
      page.Figure(report::Draw(DifferenceChart(arms, data)),
                  "An interval that does not reach the line at 0 tells the two apart.");
    }
    page.Add(AccuracyTable(arms, ""));
    page.Note(notes.accuracies);
    page.Note(notes.differences);
    page.Section("What it costs on " + data);
    page.Add(CostTable(results, arms));
    page.Note(notes.costs);
    page.Section("What was learned on " + data);
    page.Add(LearnedTable(arms));
    page.Note(notes.learned);
  }
  return page.Html();
}

}  // namespace

std::string Percent(const Interval& share, bool sign) {
  if (std::isnan(share.mean)) return "–";
  const std::string mean = sign ? fmt::format("{:+.2f}", 100 * share.mean) : fmt::format("{:.2f}", 100 * share.mean);
  return std::isfinite(share.half) ? fmt::format("{} ± {:.2f}", mean, 100 * share.half) : mean;
}

Table AccuracyTable(const std::vector<ArmSummary>& arms, std::string_view title) {
  Table table{.title = std::string(title),
              .columns = {{"arm", Align::kLeft}, {"seeds"}, {"accuracy, %"}, {"difference"}, {"training, %"}, {"loss"}},
              .rows = {}};
  for (const ArmSummary& arm : arms) {
    table.rows.push_back({arm.arm, fmt::format("{}", arm.runs.size()), Percent(arm.top1), Percent(arm.difference, true),
                          Fixed(100 * arm.train_top1, 2), Fixed(arm.loss.mean, 4)});
  }
  return table;
}

report::IntervalChart AccuracyChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  Require(!arms.empty(), "ablation: no arm to draw");
  report::IntervalChart chart{.heading = {fmt::format("Accuracy on {}", data),
                                          "Accuracy of every run, and the mean of each arm with its interval of 95 %."},
                              .value_name = "accuracy, %",
                              .rows = {},
                              .guide = 100 * arms[0].top1.mean,
                              .greatest = 100};
  for (const ArmSummary& arm : arms) {
    auto& row = chart.rows.emplace_back();
    row.name = arm.arm, row.mean = 100 * arm.top1.mean, row.half = 100 * arm.top1.half;
    for (const RunResult* run : arm.runs) {
      row.values.emplace_back(100 * run->top1,
                              fmt::format("{}, seed {}: {:.2f} %", arm.arm, run->seed, 100 * run->top1));
    }
  }
  return chart;
}

report::IntervalChart DifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  Require(!arms.empty(), "ablation: no arm to draw");
  report::IntervalChart chart{
      .heading = {fmt::format("Difference to {} on {}", arms[0].arm, data),
                  "Paired differences of accuracy, seed by seed, and their means with intervals of 95 %."},
      .value_name = "difference, percentage points",
      .rows = {},
      .guide = 0};
  for (const ArmSummary& arm : arms) {
    if (std::isnan(arm.difference.mean)) continue;
    auto& row = chart.rows.emplace_back();
    row.name = arm.arm, row.mean = 100 * arm.difference.mean, row.half = 100 * arm.difference.half;
    for (const RunResult* run : arm.runs) {
      for (const RunResult* first : arms[0].runs) {
        if (first->seed != run->seed) continue;
        const double difference = 100 * (run->top1 - first->top1);
        row.values.emplace_back(difference, fmt::format("{}, seed {}: {:+.2f}", arm.arm, run->seed, difference));
      }
    }
  }
  return chart;
}

std::string ToText(const AblationResults& results) {
  std::vector<Table> tables;
  for (const std::string& data : results.Data()) {
    const std::vector<ArmSummary> arms = Summarise(results, data);
    tables.push_back(AccuracyTable(arms, data));
    tables.push_back(CostTable(results, arms));
    tables.push_back(LearnedTable(arms));
  }
  std::ranges::move(OverviewTables(results), std::back_inserter(tables));
  std::string text;
  for (const Table& table : tables) text += (text.empty() ? "" : "\n") + report::ToText(table);
  return text;
}

void WriteAblationReport(const AblationResults& results, const std::filesystem::path& folder) {
  WriteFile(folder / "results.json", results.ToJson());
  WriteFile(folder / "runs.csv", report::ToCsv(RunTable(results)));
  WriteFile(folder / "arms.csv", report::ToCsv(ArmTable(results)));
  WriteFile(folder / "report.md", ReportMarkdown(results));
  WriteFile(folder / "report.html", ReportPage(results));
  for (const std::string& data : results.Data()) {
    WriteFile(folder / fmt::format("accuracy-{}.svg", data),
              report::Draw(AccuracyChart(Summarise(results, data), data)));
  }
}

}  // namespace qkv::lab
