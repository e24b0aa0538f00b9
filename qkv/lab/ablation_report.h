// Reports of an ablation: tables, charts and documents.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/lab/ablation_results.h"
#include "qkv/report/charts.h"
#include "qkv/report/table.h"

namespace qkv::lab {

/// A fraction in percent: "58.31 ± 0.42"; with `sign` "+0.12 ± 0.42"; without ± if the interval is unknown; "–" if the
/// mean is unknown.
std::string Percent(const Interval& share, bool sign = false);

/// One row per arm: accuracy, difference, training accuracy, loss; of pairs also BLEU and its difference.
report::Table AccuracyTable(const std::vector<ArmSummary>& arms, std::string_view title);
/// The accuracy of every run, and the arms' means with their intervals. Throws Error without arms.
report::IntervalChart AccuracyChart(const std::vector<ArmSummary>& arms, std::string_view data);
/// The same for differences from the first arm.
report::IntervalChart DifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data);

/// The same for BLEU, for pairs.
report::IntervalChart BleuChart(const std::vector<ArmSummary>& arms, std::string_view data);
report::IntervalChart BleuDifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data);

/// Tables of each data set, and an overview if there are several, for a terminal.
std::string ToText(const AblationResults& results);

/// Writes report.html, report.md, accuracy-DATA.svg, arms.csv, runs.csv and results.json, of pairs also bleu-DATA.svg,
/// each atomically.
void WriteAblationReport(const AblationResults& results, const std::filesystem::path& folder);

}  // namespace qkv::lab
