// The page of qkv qk inspect: pictures of all heads, how to read them, and what stands out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <numeric>

#include "qkv/app/inspection.h"
#include "qkv/report/charts.h"
#include "qkv/report/heatmap.h"
#include "qkv/report/page.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

using Values = std::vector<double>;  // of every head
using Circuit = inspect::Circuit inspect::HeadWeights::*;

// A curve has at most this many points: pages of large models stay small.
constexpr size_t kCurvePoints = 33;

Values Collect(const Inspection& inspection, const std::function<double(size_t)>& of) {
  Values values;
  for (size_t i = 0; i < inspection.heads(); ++i) values.push_back(of(i));
  return values;
}

// q: 0, 0.5 or 1
double Quantile(Values values, double q) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  if (values.empty()) return report::kMissing;
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  return std::midpoint(values[static_cast<size_t>(std::floor(at))], values[static_cast<size_t>(std::ceil(at))]);
}
double Median(const Values& values) { return Quantile(values, 0.5); }

// The head with the greatest finite value, of those that have one; the first where none has.
size_t Greatest(const Values& values) {
  const auto rank = [](double x) { return std::isfinite(x) ? x : -INFINITY; };
  return static_cast<size_t>(std::ranges::max_element(values, {}, rank) - values.begin());
}
size_t Least(const Values& values) {
  const auto rank = [](double x) { return std::isfinite(x) ? x : INFINITY; };
  return static_cast<size_t>(std::ranges::min_element(values, {}, rank) - values.begin());
}

std::string HeadName(const Inspection& inspection, size_t i) {
  return fmt::format("block {} head {}", inspection.block(i), inspection.head(i));
}

// With a true minus sign, as prose wants it.
std::string Signed(double value, int digits = 2) {
  const std::string number = fmt::format("{:.{}f}", std::abs(value), digits);
  return (value < 0 && number.find_first_not_of("0.") != std::string::npos ? "−" : "") + number;
}

// "58 %", "0.4 %"
std::string Percent(double share) { return Signed(100 * share, std::abs(share) < 0.1 ? 1 : 0) + " %"; }

// --- Pictures -------------------------------------------------------------------------------------------------------

// Pictures beside each other, as many as there is room for.
std::string SideBySide(const std::vector<std::string>& pictures) {
  std::string html = "<div style=\"display:flex;flex-wrap:wrap;gap:.5rem 1.5rem\">\n";
  for (const std::string& picture : pictures) html += "<div style=\"max-width:100%\">" + picture + "</div>\n";
  return html + "</div>\n";
}

std::vector<std::string> Count(int64_t count) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(fmt::format("{}", i));
  return names;
}

struct Scale {
  std::string name;
  image::ColourMap map = image::ColourMap::kSequential;
  double low = 0, high = 0;
};

std::string DrawHeatmap(const Inspection& inspection, const std::string& title, const Scale& scale,
                        const Values& values) {
  const model::VitConfig& c = inspection.config;
  return Draw(
      report::Heatmap{.heading = {title, title + " of every head, blocks downwards"},
                      .row_name = "block",
                      .column_name = "head",
                      .rows = Count(c.depth),
                      .columns = Count(c.block.attention.heads),
                      .row_count = c.depth,
                      .column_count = c.block.attention.heads,
                      .values = values,
                      .map = scale.map,
                      .low = scale.low,
                      .high = scale.high,
                      .value_name = scale.name,
                      .cell = std::clamp(std::floor(260 / static_cast<double>(c.block.attention.heads)), 8.0, 40.0)});
}

const Scale kSigned{"", image::ColourMap::kDiverging, -1, 1};
const Scale kShare{"share", image::ColourMap::kSequential, 0, 1};

// From nothing to the greatest of these: shares that are all small.
Scale FromZero(const Values& values) {
  return {"share", image::ColourMap::kSequential, 0, std::max(0.01, values[Greatest(values)])};
}

// One small plot a block, with all its heads: σ_i / σ_1 over i.
std::string Spectra(const Inspection& inspection, const char* title, Circuit circuit) {
  const model::VitConfig& c = inspection.config;
  constexpr int64_t kColumns = 4;
  constexpr double kWidth = 128, kHeight = 84, kLeft = 42, kTop = 44, kRight = 6;
  double least = 1;
  size_t width = 1;
  for (const inspect::HeadWeights& head : inspection.weights) {
    const std::vector<double>& s = (head.*circuit).singular_values;
    width = std::max(width, s.size());
    for (size_t i = 0; i < static_cast<size_t>((head.*circuit).rank); ++i) least = std::min(least, s[i] / s[0]);
  }
  const report::Axis x{.low = 1, .high = std::max(2.0, static_cast<double>(width))};
  const double low = std::max(1e-4, std::pow(10, std::floor(std::log10(least))));
  report::Axis y{.log = true, .low = std::min(low, 0.1), .high = 1};
  for (double tick = 1; tick >= y.low * 0.99; tick /= 10) y.ticks.push_back({tick, fmt::format("{:.1g}", tick)});
  report::Svg svg(title, "Singular values of every head, one plot a block, on a logarithmic axis");
  svg.Words({12, 20}, title, "title");
  for (int64_t block = 0; block < c.depth; ++block) {
    const report::Point corner{kLeft + static_cast<double>(block % kColumns) * (kWidth + kLeft + kRight),
                               kTop + 12 + static_cast<double>(block / kColumns) * (kHeight + kTop + 8)};
    svg.Words({corner.x, corner.y - 8}, fmt::format("block {}", block), "small muted");
    report::Plot plot(svg, corner, kWidth, kHeight, x, y);
    for (int64_t h = 0; h < c.block.attention.heads; ++h) {
      const std::vector<double>& s =
          (inspection.weights[static_cast<size_t>(block * c.block.attention.heads + h)].*circuit).singular_values;
      std::vector<report::Point> points;
      for (size_t k = 0; k < std::min(kCurvePoints, s.size()) && s[0] > 0; ++k) {
        const size_t i = s.size() <= kCurvePoints ? k : k * (s.size() - 1) / (kCurvePoints - 1);
        points.push_back({static_cast<double>(i + 1), s[i] / s[0]});
      }
      plot.Curve(points, fmt::format("s{} thin", h % 6));
    }
  }
  const auto rows = static_cast<double>((c.depth + kColumns - 1) / kColumns);
  return svg.Finish(kColumns * (kWidth + kLeft + kRight) + 10, kTop + rows * (kHeight + kTop + 8) - 4);
}

// λ / |λ_1| of one head's QK circuit, in the complex plane.
std::string Eigenvalues(const Inspection& inspection, size_t i, const std::string& what) {
  const std::vector<std::complex<double>>& eigenvalues = inspection.weights[i].qk.eigenvalues;
  const double greatest = eigenvalues.empty() ? 0 : std::abs(eigenvalues[0]);
  const std::vector<report::Tick> ticks = {{-1, "-1"}, {0, "0"}, {1, "1"}};
  report::Svg svg("Eigenvalues, " + what, "Eigenvalues of the QK circuit of " + HeadName(inspection, i));
  svg.Words({8, 20}, what, "title");
  svg.Words({8, 36}, fmt::format("{}: symmetry {}", HeadName(inspection, i), Signed(inspection.weights[i].qk.symmetry)),
            "small muted");
  report::Plot plot(svg, {30, 66}, 150, 150, {.name = "real", .low = -1.1, .high = 1.1, .ticks = ticks},
                    {.name = "imaginary", .low = -1.1, .high = 1.1, .ticks = ticks});
  plot.Vertical(0, ""), plot.Horizontal(0, "");
  for (const std::complex<double>& z : eigenvalues) {
    if (greatest > 0) plot.Mark({z.real() / greatest, z.imag() / greatest}, "f0", {}, 2.5);
  }
  return svg.Finish(204, 262);
}

std::string DrawScatter(const Inspection& inspection, const Values& x, const Values& y, const report::Axis& x_axis,
                        const report::Axis& y_axis, const std::string& title) {
  report::Scatter scatter{.heading = {title, title + ", a mark for every head"}, .x = x_axis, .y = y_axis};
  scatter.series = {"first third of the blocks", "middle third", "last third"};
  for (size_t i = 0; i < inspection.heads(); ++i) {
    const auto third = static_cast<size_t>(3 * inspection.block(i) / inspection.config.depth);
    scatter.marks.push_back({.at = {x[i], y[i]}, .series = third, .tip = HeadName(inspection, i)});
  }
  return Draw(scatter);
}

// --- Words ----------------------------------------------------------------------------------------------------------

std::string Range(const Inspection& inspection, const Values& values, const std::function<std::string(double)>& show) {
  const size_t least = Least(values), greatest = Greatest(values);
  if (!std::isfinite(values[least])) return "not known for any head";
  return fmt::format("from {} ({}) to {} ({})", show(values[least]), HeadName(inspection, least),
                     show(values[greatest]), HeadName(inspection, greatest));
}

std::string DescribeSymmetry(const Inspection& inspection, const Values& symmetry) {
  // Of normal random weights of D features: mean 1/D, standard deviation √2/D.
  const double features = static_cast<double>(inspection.config.block.width) - 1;
  const auto beyond = std::ranges::count_if(
      symmetry, [&](double x) { return std::abs(x - 1 / features) > 3 * std::sqrt(2.0) / features; });
  return fmt::format(
      "One weight for queries and keys would score 1 in every head. Here the median is {}, {}. Random weights score "
      "{:.3f} ± {:.3f}; {} of {} heads are more than three of these deviations away.",
      Signed(Median(symmetry)), Range(inspection, symmetry, [](double x) { return Signed(x); }), 1 / features,
      std::sqrt(2.0) / features, beyond, symmetry.size());
}

std::string DescribeRank(const Inspection& inspection, const Values& rank90, const Values& rank99) {
  return fmt::format(
      "Of {} features of its queries and keys the median head needs {:.0f} for 90 % of the energy of M and {:.0f} for "
      "99 %; for 99 % heads range {}. That is about the matrix alone: how much of it tokens use is another question.",
      inspection.weights[0].qk.singular_values.size(), Median(rank90), Median(rank99),
      Range(inspection, rank99, [](double x) { return fmt::format("{:.0f}", x); }));
}

std::string DescribeOutput(const Values& sign) {
  const auto copy = std::ranges::count_if(sign, [](double x) { return x > 0.5; });
  const auto negate = std::ranges::count_if(sign, [](double x) { return x < -0.5; });
  return fmt::format(
      "By the eigenvalues of the OV circuit {} of {} heads mostly copy what they read (sign above 0.5), {} mostly "
      "negate it (below −0.5); the median is {}.",
      copy, sign.size(), negate, Signed(Median(sign)));
}

std::string DescribeGauge(const Inspection& inspection, const Values& excess) {
  double squares = 0, saved = 0;
  Values ratio;
  for (const inspect::HeadWeights& head : inspection.weights) {
    const double own = head.query_norm * head.query_norm + head.key_norm * head.key_norm;
    squares += own, saved += own * head.gauge_excess, ratio.push_back(head.query_norm / head.key_norm);
  }
  return fmt::format(
      "Balanced factors would give the same attention with {:.1f} % less of ‖W_Q‖² + ‖W_K‖², which is what weight "
      "decay sees; a head could save at most {}. ‖W_Q‖/‖W_K‖ lies between {:.2f} and {:.2f}.",
      squares > 0 ? 100 * saved / squares : 0,
      fmt::format("{:.1f} % ({})", 100 * excess[Greatest(excess)], HeadName(inspection, Greatest(excess))),
      Quantile(ratio, 0), Quantile(ratio, 1));
}

std::string DescribeKeyBias(const Inspection& inspection) {
  const Values norm = Collect(inspection, [&](size_t i) { return inspection.weights[i].key_bias_norm; });
  if (norm[Greatest(norm)] == 0) return "There is none, or it is zero.";
  const double against = Median(Collect(
      inspection, [&](size_t i) { return inspection.weights[i].key_bias_norm / inspection.weights[i].key_norm; }));
  std::string words = fmt::format(
      "b_K is there, in the median {:.1f} % as long as W_K, and softmax sees nothing of it.", 100 * against);
  if (inspection.tokens && !inspection.tokens->logits.empty()) {
    words += fmt::format(
        " On these tokens it makes {} of the norm of the median head's logits.",
        Percent(Median(Collect(inspection, [&](size_t i) { return inspection.tokens->logits[i].key_bias; }))));
  }
  return words;
}

Values Shares(const Inspection& inspection, size_t part) {
  return Collect(inspection, [&](size_t i) { return inspection.tokens->logits[i].share[part]; });
}

std::string DescribePosition(const Inspection& inspection) {
  const Values position = Shares(inspection, inspect::kPositionPosition),
               content = Shares(inspection, inspect::kContentContent),
               overlap = Collect(inspection, [&](size_t i) { return std::abs(inspection.tokens->logits[i].overlap); });
  const auto of_block = [&](int64_t block) {
    const auto begin = position.begin() + block * inspection.config.block.attention.heads;
    return Median(Values(begin, begin + inspection.config.block.attention.heads));
  };
  return fmt::format(
      "Where a query and its key stand decides {} of the logits' variance in the median head, {}; what both contain "
      "decides {}, and the rest is one of each. In the first block position has a median of {}, in the last {}. The "
      "parts overlap by at most {}.",
      Percent(Median(position)), Range(inspection, position, Percent), Percent(Median(content)), Percent(of_block(0)),
      Percent(of_block(inspection.config.depth - 1)), Percent(overlap[Greatest(overlap)]));
}

std::string DescribeReach(const Inspection& inspection) {
  const inspect::TokenStatistics& t = *inspection.tokens;
  const Values distance = Collect(inspection, [&](size_t i) { return t.attention[i].distance; });
  const Values entropy = Collect(inspection, [&](size_t i) { return std::exp(t.attention[i].entropy); });
  std::string words = fmt::format(
      "Patches look {} patches far, {}; uniform attention would look {:.1f}. Entropy is that of "
      "{:.0f} tokens of {} in the median head, {}.",
      report::Number(Median(distance), 2),
      Range(inspection, distance, [](double x) { return fmt::format("{:.1f}", x); }), t.uniform.distance,
      Median(entropy), t.tokens, Range(inspection, entropy, [](double x) { return fmt::format("{:.1f}", x); }));
  const Values class_token = Collect(inspection, [&](size_t i) { return t.attention[i].class_token; });
  if (inspection.config.class_token) {
    words += fmt::format(" The class token gets {} at most ({}).", Percent(class_token[Greatest(class_token)]),
                         HeadName(inspection, Greatest(class_token)));
  }
  return words;
}

// --- Sections -------------------------------------------------------------------------------------------------------

void AddFacts(const Inspection& inspection, report::Page& page) {
  const model::VitConfig& c = inspection.config;
  const inspect::HeadParameters& p = inspection.parameters;
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Model", inspection.source},
      {"Blocks", fmt::format("{} of width {}, {} heads of {}", c.depth, c.block.width, c.block.attention.heads,
                             c.block.attention.head_width)}};
  if (inspection.tokens) {
    facts.emplace_back("Tokens",
                       fmt::format("{} an image, of {} × {} patches; from {}", inspection.tokens->tokens,
                                   inspection.tokens->grid_height, inspection.tokens->grid_width, inspection.images));
  }
  if (inspection.free_gauge) {
    facts.emplace_back(
        "A head's W_Q and W_K",
        fmt::format("{} numbers are stored. {} of them its attention can see ({} after a LayerNorm, whose tokens lack "
                    "one direction). Merged into one matrix: {}; with a block of W_K the identity: {}",
                    report::WithCommas(p.count.separate), report::WithCommas(p.count.freedom),
                    report::WithCommas(p.seen), report::WithCommas(p.count.merged),
                    p.count.identity_block > 0 ? report::WithCommas(p.count.identity_block) : "not possible"));
  }
  page.Facts(facts);
  for (const std::string& caveat : inspection.caveats) page.Note(caveat);
}

void AddCircuits(const Inspection& inspection, report::Page& page) {
  const auto of = [&](Circuit circuit, double inspect::Circuit::*member) {
    return Collect(inspection, [&, circuit, member](size_t i) { return inspection.weights[i].*circuit.*member; });
  };
  const Values symmetry = of(&inspect::HeadWeights::qk, &inspect::Circuit::symmetry);
  page.Section("What attends to what: the QK circuits");
  page.Prose(
      "A head's logits are x M xᵀ with M = W_Qᵀ W_K. All numbers here are of M with the preceding LayerNorm folded in "
      "and its mean removed.");
  page.Figure(Spectra(inspection, "Singular values of M, relative to the greatest", &inspect::HeadWeights::qk),
              "A line for each head. If it falls early, the head compares tokens along few directions; if it is flat, "
              "the head uses its whole width.");
  page.Figure(
      SideBySide({DrawHeatmap(inspection, "Symmetry of M", kSigned, symmetry),
                  DrawHeatmap(inspection, "Sign of its eigenvalues", kSigned,
                              of(&inspect::HeadWeights::qk, &inspect::Circuit::eigenvalue_sign))}),
      "Symmetry: 1 if M is symmetric, as with W_Q = W_K: both tokens of a pair give each other the same score. −1 "
      "if M is antisymmetric: the two scores are opposite. 0 if it is as much of one as of the other. Sign: "
      "red if tokens attend to similar ones, blue if to dissimilar ones.");
  Values order(inspection.heads());
  for (size_t i = 0; i < order.size(); ++i) order[i] = std::abs(symmetry[i] - Median(symmetry));
  page.Figure(
      SideBySide({Eigenvalues(inspection, Greatest(symmetry), "Most symmetric"),
                  Eigenvalues(inspection, Least(order), "Median"),
                  Eigenvalues(inspection, Least(symmetry), "Least symmetric")}),
      "Eigenvalues of M in the complex plane, relative to the greatest. Right on the real axis: tokens attend to "
      "similar ones; left: to opposite ones. Far from the axis: M turns one direction into another, which no "
      "symmetric M, and so no shared projection, can do.");
  std::vector<std::string> pair = {DrawHeatmap(inspection, "Effective rank of M", {"features"},
                                               of(&inspect::HeadWeights::qk, &inspect::Circuit::effective_rank))};
  std::string caption = "Effective rank: exp of the entropy of the singular values, as if so many were equal.";
  if (inspection.free_gauge) {
    pair.push_back(DrawHeatmap(inspection, "Saved by the balanced gauge", {"of ‖W_Q‖² + ‖W_K‖²"},
                               Collect(inspection, [&](size_t i) { return inspection.weights[i].gauge_excess; })));
    caption +=
        " Balanced gauge: how much of their squared norm W_Q and W_K have, as they are stored, beyond what this "
        "attention needs.";
  }
  page.Figure(SideBySide(pair), caption);
}

void AddOutputs(const Inspection& inspection, report::Page& page) {
  const auto of = [&](double inspect::Circuit::*member) {
    return Collect(inspection, [&, member](size_t i) { return inspection.weights[i].ov.*member; });
  };
  page.Section("What is written: the OV circuits");
  page.Figure(Spectra(inspection, "Singular values of W_O W_V, relative to the greatest", &inspect::HeadWeights::ov),
              "As above, for what a head adds to the residual stream of the token that attends.");
  page.Figure(
      SideBySide(
          {DrawHeatmap(inspection, "Sign of the eigenvalues", kSigned, of(&inspect::Circuit::eigenvalue_sign)),
           DrawHeatmap(inspection, "Effective rank", {"of the features"}, of(&inspect::Circuit::effective_rank))}),
      "Sign: red if a head writes what it reads into the same directions, blue if it subtracts it.");
}

void AddTokens(const Inspection& inspection, report::Page& page) {
  const inspect::TokenStatistics& t = *inspection.tokens;
  const auto of = [&](double inspect::HeadAttention::*member) {
    return Collect(inspection, [&, member](size_t i) { return t.attention[i].*member; });
  };
  if (!t.logits.empty()) {
    page.Section("Position or content");
    page.Prose(
        fmt::format("On {}. Each normalised token is its mean over the images, which its position alone decides, plus "
                    "the rest, its content. Logits split exactly into four parts; a part's share is its covariance "
                    "with the logits over their variance, and the four sum to 1.",
                    inspection.images));
    page.Figure(
        SideBySide(
            {DrawHeatmap(inspection, "Position to position", kShare, Shares(inspection, inspect::kPositionPosition)),
             DrawHeatmap(inspection, "Content to content", kShare, Shares(inspection, inspect::kContentContent)),
             DrawHeatmap(inspection, "Position to content", kShare, Shares(inspection, inspect::kPositionContent)),
             DrawHeatmap(inspection, "Content to position", kShare, Shares(inspection, inspect::kContentPosition))}),
        "The query's part first. Position to position is a pattern that is the same for every image; in the other "
        "three it depends on the image.");
    const Values same = Collect(inspection, [&](size_t i) { return t.logits[i].same; });
    page.Figure(DrawHeatmap(inspection, "The same for all queries", kShare, same),
                "The share of the logits that does not depend on which token asks: a ranking of the keys, made by the "
                "mean query. If it is near 1, separate queries have no effect.");
    const Values position = Shares(inspection, inspect::kPositionPosition);
    page.Figure(
        DrawScatter(inspection, of(&inspect::HeadAttention::distance), position,
                    {.name = "mean distance of attention, in patches"},
                    {.name = "share of position alone", .low = 0, .high = 1}, "How far a head looks, and why"),
        "A mark for each head. Left: heads that look at their surroundings. Top: heads whose attention does not "
        "depend on the image.");
  }
  page.Section("How far, and at how much");
  Values entropy = of(&inspect::HeadAttention::entropy);
  const Values near = of(&inspect::HeadAttention::near), class_token = of(&inspect::HeadAttention::class_token),
               registers = of(&inspect::HeadAttention::registers);
  for (double& x : entropy) x /= std::max(t.uniform.entropy, 1e-9);
  std::vector<std::string> pictures = {
      DrawHeatmap(inspection, "Distance of attention", {"patches"}, of(&inspect::HeadAttention::distance)),
      DrawHeatmap(inspection, "Entropy", {"of log N"}, entropy),
      DrawHeatmap(inspection, "To itself and the eight around", FromZero(near), near)};
  if (inspection.config.class_token) {
    pictures.push_back(DrawHeatmap(inspection, "To the class token", FromZero(class_token), class_token));
  }
  if (inspection.config.registers > 0) {
    pictures.push_back(DrawHeatmap(inspection, "To the registers", FromZero(registers), registers));
  }
  page.Figure(SideBySide(pictures),
              fmt::format("Uniform attention would have a distance of {:.1f}, entropy 1, and {} of it would be near.",
                          t.uniform.distance, Percent(t.uniform.near)));
}

void AddTable(const Inspection& inspection, report::Page& page) {
  page.Section("All heads");
  report::Table table{.columns = {{"head"}, {"eff. rank"}, {"90 %"}, {"99 %"}, {"symmetry"}, {"QK sign"}, {"OV sign"}}};
  if (inspection.free_gauge) table.columns.push_back({"W_Q/W_K"});
  const bool tokens = inspection.tokens.has_value(), logits = tokens && !inspection.tokens->logits.empty();
  if (logits) table.columns.insert(table.columns.end(), {{"position"}, {"content"}, {"same"}});
  if (tokens) table.columns.insert(table.columns.end(), {{"distance"}, {"entropy"}});
  for (size_t i = 0; i < inspection.heads(); ++i) {
    const inspect::HeadWeights& head = inspection.weights[i];
    std::vector<std::string> row = {fmt::format("{}.{}", inspection.block(i), inspection.head(i)),
                                    fmt::format("{:.1f}", head.qk.effective_rank),
                                    fmt::format("{}", head.qk.energy_rank[0]),
                                    fmt::format("{}", head.qk.energy_rank[1]),
                                    fmt::format("{:.2f}", head.qk.symmetry),
                                    fmt::format("{:.2f}", head.qk.eigenvalue_sign),
                                    fmt::format("{:.2f}", head.ov.eigenvalue_sign)};
    if (inspection.free_gauge) row.push_back(report::Number(head.query_norm / head.key_norm));
    if (logits) {
      const inspect::LogitShares& head_logits = inspection.tokens->logits[i];
      row.insert(row.end(), {Percent(head_logits.share[inspect::kPositionPosition]),
                             Percent(head_logits.share[inspect::kContentContent]), Percent(head_logits.same)});
    }
    if (tokens) {
      const inspect::HeadAttention& a = inspection.tokens->attention[i];
      row.insert(row.end(), {report::Number(a.distance), report::Number(a.entropy)});
    }
    table.rows.push_back(std::move(row));
  }
  page.Add(table);
  page.Note(
      "`block.head`; ranks are of M. `qkv qk inspect --json` has every number, with the spectra; `-o heads.csv` one "
      "line a head.");
}

}  // namespace

std::string InspectionPage(const Inspection& inspection) {
  const std::filesystem::path source = inspection.source;
  report::Page page("The heads of " + (source.has_filename() ? source : source.parent_path()).filename().string(),
                    "What each attention head looks for, what it writes, and how far it looks.");
  AddFacts(inspection, page);
  const auto qk = [&](auto of) { return Collect(inspection, [&](size_t i) { return of(inspection.weights[i].qk); }); };
  page.Section("What stands out");
  std::vector<std::pair<std::string, std::string>> facts = {
      {"Symmetry", DescribeSymmetry(inspection, qk([](const auto& c) { return c.symmetry; }))},
      {"Rank", DescribeRank(inspection, qk([](const auto& c) { return static_cast<double>(c.energy_rank[0]); }),
                            qk([](const auto& c) { return static_cast<double>(c.energy_rank[1]); }))},
      {"Output",
       DescribeOutput(Collect(inspection, [&](size_t i) { return inspection.weights[i].ov.eigenvalue_sign; }))}};
  if (inspection.free_gauge) {
    facts.emplace_back(
        "Gauge",
        DescribeGauge(inspection, Collect(inspection, [&](size_t i) { return inspection.weights[i].gauge_excess; })));
    facts.emplace_back("Key bias", DescribeKeyBias(inspection));
  }
  if (inspection.tokens) {
    if (!inspection.tokens->logits.empty()) facts.emplace_back("Position", DescribePosition(inspection));
    facts.emplace_back("Reach", DescribeReach(inspection));
  }
  page.Facts(facts);
  AddCircuits(inspection, page);
  AddOutputs(inspection, page);
  if (inspection.tokens) AddTokens(inspection, page);
  AddTable(inspection, page);
  return page.Html();
}

}  // namespace qkv::app
