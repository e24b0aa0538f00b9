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
  const bool sequences = results.unit == "sequences", pairs = results.unit == "pairs";
  Notes notes;
  notes.accuracies = fmt::format(
      "Accuracies are those of the validation data after the last step, in percent{}; intervals hold the mean of all "
      "seeds with a probability of 95 % (Student's t), if accuracies vary about normally from seed to seed.",
      sequences ? " of the tokens that something is asked of"
      : pairs   ? " of the targets' tokens, each after the right ones before it"
                : "");
  if (pairs) {
    notes.accuracies +=
        " BLEU, of 0 to 100, is that of the validation lines, each translated by its most probable token after the "
        "last "
        "step.";
  }
  notes.differences =
      "Differences are paired: a seed draws the same batches for every arm, so what it does to both falls out. An "
      "interval that holds 0 leaves open which of the two is better; of many intervals, one in twenty misses by "
      "chance.";
  notes.costs = fmt::format(
      "Parameters and multiply-adds (counted twice, of the forward pass of one of the {0}{1}) are counted; {0} a "
      "second "
      "are measured on this machine, all arms in turns{2}",
      results.unit, pairs ? ", of average lengths" : "", pairs ? ", and answers are all of 16 tokens" : "");
  const std::vector<std::string> data = results.Data();
  notes.costs += data.size() > 1 ? fmt::format(", with the models of {}.", shown(data[0])) : ".";
  notes.learned =
      "Symmetry (−1 to 1) and ranks are those of M = W_QᵀW_K after LayerNorm, means over all heads, as `qkv qk "
      "inspect` "
      "has them: effective rank, and how many directions hold 99 % of the energy. Where scores are of places alone "
      "there is no such M.";
  if (pairs) notes.learned.clear();
  return notes;
}

std::string Fixed(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : std::string("–");
}

// For machine-readable output: empty if there is no number.
std::string Plain(double value) { return std::isfinite(value) ? fmt::format("{}", value) : std::string(); }

// BLEU: "58.31 ± 0.42", with `sign` "+0.12 ± 0.42".
std::string Points(const Interval& bleu, bool sign) { return Percent({bleu.mean / 100, bleu.half / 100}, sign); }

bool AnyFinite(const std::vector<ArmSummary>& arms, Interval ArmSummary::*value) {
  return std::ranges::any_of(arms, [&](const ArmSummary& arm) { return std::isfinite((arm.*value).mean); });
}
bool HasBleu(const std::vector<ArmSummary>& arms) { return AnyFinite(arms, &ArmSummary::bleu); }

// A quantity of arms and runs that charts show.
struct Measure {
  const char *name, *unit, *axis;
  double scale;  // of the stored numbers
  double RunResult::*of_run;
  Interval ArmSummary::*of_arm;
  Interval ArmSummary::*difference;
};
constexpr Measure kAccuracy = {
    "accuracy", " %", "accuracy, %", 100, &RunResult::top1, &ArmSummary::top1, &ArmSummary::difference};
constexpr Measure kBleu = {"BLEU", "", "BLEU", 1, &RunResult::bleu, &ArmSummary::bleu, &ArmSummary::bleu_difference};

std::string Capital(std::string text) {
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

report::IntervalChart MeanChart(const Measure& m, const std::vector<ArmSummary>& arms, std::string_view data) {
  Require(!arms.empty(), "ablation: no arm to draw");
  report::IntervalChart chart{
      .heading = {fmt::format("{} on {}", Capital(m.name), data),
                  fmt::format("{} of every run, and the mean of each arm with its interval of 95 %.", Capital(m.name))},
      .value_name = m.axis,
      .rows = {},
      .guide = m.scale * (arms[0].*m.of_arm).mean,
      .greatest = 100};
  for (const ArmSummary& arm : arms) {
    auto& row = chart.rows.emplace_back();
    row.name = arm.arm, row.mean = m.scale * (arm.*m.of_arm).mean, row.half = m.scale * (arm.*m.of_arm).half;
    for (const RunResult* run : arm.runs) {
      const double value = m.scale * run->*m.of_run;
      row.values.emplace_back(value, fmt::format("{}, seed {}: {:.2f}{}", arm.arm, run->seed, value, m.unit));
    }
  }
  return chart;
}

report::IntervalChart PairedChart(const Measure& m, const std::vector<ArmSummary>& arms, std::string_view data) {
  Require(!arms.empty(), "ablation: no arm to draw");
  const bool percent = m.scale != 1;
  report::IntervalChart chart{
      .heading = {fmt::format("Difference to {} on {}{}", arms[0].arm, data, percent ? "" : ", BLEU"),
                  fmt::format("Paired differences of {}, seed by seed, and their means with intervals of 95 %.",
                              m.name)},
      .value_name = percent ? "difference, percentage points" : "difference, BLEU",
      .rows = {},
      .guide = 0};
  for (const ArmSummary& arm : arms) {
    const Interval& mean = arm.*m.difference;
    if (std::isnan(mean.mean)) continue;
    auto& row = chart.rows.emplace_back();
    row.name = arm.arm, row.mean = m.scale * mean.mean, row.half = m.scale * mean.half;
    for (const RunResult* run : arm.runs) {
      for (const RunResult* first : arms[0].runs) {
        if (first->seed != run->seed) continue;
        const double difference = m.scale * (run->*m.of_run - first->*m.of_run);
        row.values.emplace_back(difference, fmt::format("{}, seed {}: {:+.2f}", arm.arm, run->seed, difference));
      }
    }
  }
  return chart;
}

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
                           "symmetry", "effective_rank", "rank99", "bleu"}) {
    table.columns.push_back({name});
  }
  for (const RunResult& run : results.runs) {
    table.rows.push_back({run.data, run.arm, fmt::format("{}", run.seed), Plain(run.top1), Plain(run.loss),
                          Plain(run.train_top1), fmt::format("{}", run.steps), fmt::format("{}", run.parameters),
                          Plain(run.flops), Plain(run.symmetry), Plain(run.effective_rank), Plain(run.rank99),
                          Plain(run.bleu)});
  }
  return table;
}

// One row per arm of a data set; "half" is half the width of the 95 % interval.
Table ArmTable(const AblationResults& results) {
  Table table{.title = {}, .columns = {}, .rows = {}};
  for (const char* name : {"data",
                           "arm",
                           "seeds",
                           "top1",
                           "top1_half",
                           "difference",
                           "difference_half",
                           "train_top1",
                           "loss",
                           "loss_half",
                           "parameters",
                           "flops",
                           "steps",
                           "training_images_per_second",
                           "inference_images_per_second",
                           "symmetry",
                           "effective_rank",
                           "rank99",
                           "bleu",
                           "bleu_half",
                           "bleu_difference",
                           "bleu_difference_half"}) {
    table.columns.push_back({name});
  }
  for (const std::string& data : results.Data()) {
    for (const ArmSummary& arm : Summarise(results, data)) {
      const Speed speed = FindSpeed(results, arm.arm);
      const auto rate = [](double x) { return x > 0 ? Plain(x) : std::string(); };
      const RunResult& run = *arm.runs[0];
      table.rows.push_back({data,
                            arm.arm,
                            fmt::format("{}", arm.runs.size()),
                            Plain(arm.top1.mean),
                            Plain(arm.top1.half),
                            Plain(arm.difference.mean),
                            Plain(arm.difference.half),
                            Plain(arm.train_top1),
                            Plain(arm.loss.mean),
                            Plain(arm.loss.half),
                            fmt::format("{}", run.parameters),
                            Plain(run.flops),
                            fmt::format("{}", run.steps),
                            rate(speed.training),
                            rate(speed.inference),
                            Plain(arm.symmetry),
                            Plain(arm.effective_rank),
                            Plain(arm.rank99),
                            Plain(arm.bleu.mean),
                            Plain(arm.bleu.half),
                            Plain(arm.bleu_difference.mean),
                            Plain(arm.bleu_difference.half)});
    }
  }
  return table;
}

// A mean, or a difference, of each arm on all data sets, as `show` writes it.
Table Overview(const AblationResults& results, Interval ArmSummary::*value, bool signs, std::string_view title,
               std::string (*show)(const Interval&, bool)) {
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
      row.push_back(found == arms.end() ? "–" : show((*found).*value, signs));
    }
  }
  return table;
}

// Overviews if there is more than one data set.
std::vector<Table> OverviewTables(const AblationResults& results) {
  if (results.Data().size() < 2) return {};
  const bool pairs = results.unit == "pairs", several = results.arms.size() > 1;
  const std::string to_first = fmt::format("Difference to {}", results.arms[0]);
  std::vector<Table> tables;
  if (pairs) tables.push_back(Overview(results, &ArmSummary::bleu, false, "BLEU", Points));
  if (pairs && several) {
    tables.push_back(Overview(results, &ArmSummary::bleu_difference, true, to_first + ", BLEU", Points));
  }
  tables.push_back(Overview(results, &ArmSummary::top1, false, "Accuracy, %", Percent));
  if (several) {
    tables.push_back(Overview(results, &ArmSummary::difference, true, to_first + ", percentage points", Percent));
  }
  return tables;
}

// Those of one data set.
std::vector<Table> DataTables(const AblationResults& results, const std::vector<ArmSummary>& arms,
                              std::string_view title) {
  std::vector<Table> tables = {AccuracyTable(arms, title), CostTable(results, arms)};
  if (results.unit != "pairs") tables.push_back(LearnedTable(arms));
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
    for (const Table& table : DataTables(results, arms, "")) text += report::ToMarkdown(table) + "\n";
  }
  const Notes notes = MakeNotes(results, report::EscapeMarkdown);
  text += fmt::format("{}\n\n{}\n\n{}\n", notes.accuracies, notes.differences, notes.costs);
  if (!notes.learned.empty()) text += "\n" + notes.learned + "\n";
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
    const char* const means =
        "Small marks are runs, large ones means with their intervals of 95 %; the upright line is the first arm's "
        "mean.";
    const char* const differences = "An interval that does not reach the line at 0 tells the two apart.";
    if (HasBleu(arms)) {
      page.Figure(report::Draw(BleuChart(arms, data)), means);
      if (AnyFinite(arms, &ArmSummary::bleu_difference)) {
        page.Figure(report::Draw(BleuDifferenceChart(arms, data)), differences);
      }
    }
    page.Figure(report::Draw(AccuracyChart(arms, data)), means);
    if (AnyFinite(arms, &ArmSummary::difference)) page.Figure(report::Draw(DifferenceChart(arms, data)), differences);
    page.Add(AccuracyTable(arms, ""));
    page.Note(notes.accuracies);
    page.Note(notes.differences);
    page.Section("What it costs on " + data);
    page.Add(CostTable(results, arms));
    page.Note(notes.costs);
    if (notes.learned.empty()) continue;
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
  const bool bleu = HasBleu(arms);
  Table table{.title = std::string(title), .columns = {{"arm", Align::kLeft}, {"seeds"}}, .rows = {}};
  if (bleu) table.columns.insert(table.columns.end(), {{"BLEU"}, {"difference"}});
  table.columns.insert(table.columns.end(),
                       {{bleu ? "tokens right, %" : "accuracy, %"}, {"difference"}, {"training, %"}, {"loss"}});
  for (const ArmSummary& arm : arms) {
    std::vector<std::string>& row = table.rows.emplace_back();
    row = {arm.arm, fmt::format("{}", arm.runs.size())};
    if (bleu) row.insert(row.end(), {Points(arm.bleu, false), Points(arm.bleu_difference, true)});
    std::string loss = Fixed(arm.loss.mean, 4);
    if (bleu && std::isfinite(arm.loss.half)) loss += fmt::format(" ± {:.4f}", arm.loss.half);
    row.insert(row.end(),
               {Percent(arm.top1), Percent(arm.difference, true), Fixed(100 * arm.train_top1, 2), std::move(loss)});
  }
  return table;
}

report::IntervalChart AccuracyChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  return MeanChart(kAccuracy, arms, data);
}
report::IntervalChart DifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  return PairedChart(kAccuracy, arms, data);
}
report::IntervalChart BleuChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  return MeanChart(kBleu, arms, data);
}
report::IntervalChart BleuDifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data) {
  return PairedChart(kBleu, arms, data);
}

std::string ToText(const AblationResults& results) {
  std::vector<Table> tables;
  for (const std::string& data : results.Data()) {
    const std::vector<ArmSummary> arms = Summarise(results, data);
    std::ranges::move(DataTables(results, arms, data), std::back_inserter(tables));
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
    const std::vector<ArmSummary> arms = Summarise(results, data);
    WriteFile(folder / fmt::format("accuracy-{}.svg", data), report::Draw(AccuracyChart(arms, data)));
    if (HasBleu(arms)) WriteFile(folder / fmt::format("bleu-{}.svg", data), report::Draw(BleuChart(arms, data)));
  }
}

}  // namespace qkv::lab
