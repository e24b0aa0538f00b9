// What an ablation found, as tables, pictures and documents.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/lab/ablation_results.h"
#include "qkv/report/charts.h"
#include "qkv/report/table.h"

namespace qkv::lab {

/// "58.31 ± 0.42" of a share, in percent; "+0.12 ± 0.42" with its sign; without ± where the interval is not known, and
/// "–" where nothing is.
std::string Percent(const Interval& share, bool sign = false);

/// A line an arm: accuracy, difference, training accuracy, loss.
report::Table AccuracyTable(const std::vector<ArmSummary>& arms, std::string_view title);
/// Every run's accuracy, and the arms' means with their intervals. Throws Error for no arms.
report::IntervalChart AccuracyChart(const std::vector<ArmSummary>& arms, std::string_view data);
/// The same for differences to the first arm.
report::IntervalChart DifferenceChart(const std::vector<ArmSummary>& arms, std::string_view data);

/// Tables of each data set, and of all where there are several, for a terminal.
std::string ToText(const AblationResults& results);

/// report.html, report.md, accuracy-DATA.svg, arms.csv, runs.csv and results.json, each whole or not at all.
void WriteAblationReport(const AblationResults& results, const std::filesystem::path& folder);

}  // namespace qkv::lab
