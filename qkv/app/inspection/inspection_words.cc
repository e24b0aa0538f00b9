#include "qkv/app/inspection/inspection_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "qkv/report/charts.h"
#include "qkv/report/text.h"

namespace qkv::app::heads {
namespace {

// q: 0, 0.5 or 1
double Quantile(Values values, double q) {
  std::erase_if(values, [](double x) { return !std::isfinite(x); });
  if (values.empty()) return report::kMissing;
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size() - 1);
  return std::midpoint(values[static_cast<size_t>(std::floor(at))], values[static_cast<size_t>(std::ceil(at))]);
}
}  // namespace

Values Collect(const InspectedPart& part, const std::function<double(size_t)>& of) {
  Values values;
  for (size_t i = 0; i < part.heads(); ++i) values.push_back(of(i));
  return values;
}

double Median(const Values& values) { return Quantile(values, 0.5); }

size_t Greatest(const Values& values) {
  const auto rank = [](double x) { return std::isfinite(x) ? x : -INFINITY; };
  return static_cast<size_t>(std::ranges::max_element(values, {}, rank) - values.begin());
}
size_t Least(const Values& values) {
  const auto rank = [](double x) { return std::isfinite(x) ? x : INFINITY; };
  return static_cast<size_t>(std::ranges::min_element(values, {}, rank) - values.begin());
}

std::string HeadName(const InspectedPart& part, size_t i) {
  return fmt::format("block {} head {}", part.block(i), part.head(i));
}

std::string Signed(double value, int digits) {
  const std::string number = fmt::format("{:.{}f}", std::abs(value), digits);
  return (value < 0 && number.find_first_not_of("0.") != std::string::npos ? "−" : "") + number;
}

std::string Percent(double share) { return Signed(100 * share, std::abs(share) < 0.1 ? 1 : 0) + " %"; }

namespace {

std::string Range(const InspectedPart& part, const Values& values, const std::function<std::string(double)>& show) {
  const size_t least = Least(values), greatest = Greatest(values);
  if (!std::isfinite(values[least])) return "not known for any head";
  return fmt::format("from {} ({}) to {} ({})", show(values[least]), HeadName(part, least), show(values[greatest]),
                     HeadName(part, greatest));
}

}  // namespace

std::string DescribeSymmetry(const InspectedPart& part) {
  const Values symmetry = Collect(part, [&](size_t i) { return part.weights[i].qk.symmetry; });
  // Normal random weights of D features: mean 1/D, standard deviation √2/D. A LayerNorm leaves D − 1 features.
  const double features = static_cast<double>(part.width) - (part.centred ? 1 : 0);
  const auto beyond = std::ranges::count_if(
      symmetry, [&](double x) { return std::abs(x - 1 / features) > 3 * std::sqrt(2.0) / features; });
  return fmt::format(
      "One weight for queries and keys would score 1 in every head. Here the median is {}, {}. Random weights score "
      "{:.3f} ± {:.3f}; {} of {} heads are more than three of these deviations away.",
      Signed(Median(symmetry)), Range(part, symmetry, [](double x) { return Signed(x); }), 1 / features,
      std::sqrt(2.0) / features, beyond, symmetry.size());
}

std::string DescribeRank(const InspectedPart& part) {
  const auto ranks = [&](size_t share) {
    return Collect(part, [&, share](size_t i) { return static_cast<double>(part.weights[i].qk.energy_rank[share]); });
  };
  const Values rank90 = ranks(0), rank99 = ranks(1);
  return fmt::format(
      "Of {} features of its queries and keys the median head needs {:.0f} for 90 % of the energy of M and {:.0f} for "
      "99 %; for 99 % heads range {}. That is about the matrix alone: how much of it tokens use is another question.",
      part.weights[0].qk.singular_values.size(), Median(rank90), Median(rank99),
      Range(part, rank99, [](double x) { return fmt::format("{:.0f}", x); }));
}

std::string DescribeWriting(const InspectedPart& part) {
  const Values sign = Collect(part, [&](size_t i) { return part.weights[i].ov.eigenvalue_sign; });
  const auto copy = std::ranges::count_if(sign, [](double x) { return x > 0.5; });
  const auto negate = std::ranges::count_if(sign, [](double x) { return x < -0.5; });
  return fmt::format(
      "By the eigenvalues of the OV circuit {} of {} heads mostly copy what they read (sign above 0.5), {} mostly "
      "negate it (below −0.5); the median is {}.",
      copy, sign.size(), negate, Signed(Median(sign)));
}

std::string DescribeGauge(const InspectedPart& part) {
  const Values excess = Collect(part, [&](size_t i) { return part.weights[i].gauge_excess; });
  double squares = 0, saved = 0;
  Values ratio;
  for (const inspect::HeadWeights& head : part.weights) {
    const double own = head.query_norm * head.query_norm + head.key_norm * head.key_norm;
    squares += own, saved += own * head.gauge_excess, ratio.push_back(head.query_norm / head.key_norm);
  }
  return fmt::format(
      "Balanced factors would give the same attention with {:.1f} % less of ‖W_Q‖² + ‖W_K‖², which is what weight "
      "decay sees; a head could save at most {}. ‖W_Q‖/‖W_K‖ lies between {:.2f} and {:.2f}.",
      squares > 0 ? 100 * saved / squares : 0,
      fmt::format("{:.1f} % ({})", 100 * excess[Greatest(excess)], HeadName(part, Greatest(excess))),
      Quantile(ratio, 0), Quantile(ratio, 1));
}

std::string DescribeKeyBias(const InspectedPart& part) {
  const Values norm = Collect(part, [&](size_t i) { return part.weights[i].key_bias_norm; });
  if (norm[Greatest(norm)] == 0) return "There is none, or it is zero.";
  const double against =
      Median(Collect(part, [&](size_t i) { return part.weights[i].key_bias_norm / part.weights[i].key_norm; }));
  std::string words = fmt::format(
      "b_K is there, in the median {:.1f} % as long as W_K, and softmax sees nothing of it.", 100 * against);
  if (part.tokens && !part.tokens->logits.empty()) {
    words += fmt::format(" On these tokens it makes {} of the norm of the median head's logits.",
                         Percent(Median(Collect(part, [&](size_t i) { return part.tokens->logits[i].key_bias; }))));
  }
  return words;
}

Values Shares(const InspectedPart& part, size_t which) {
  return Collect(part, [&](size_t i) { return part.tokens->logits[i].share[which]; });
}

std::string DescribePosition(const InspectedPart& part) {
  const Values position = Shares(part, inspect::kPositionPosition), content = Shares(part, inspect::kContentContent),
               overlap = Collect(part, [&](size_t i) { return std::abs(part.tokens->logits[i].overlap); });
  const auto of_block = [&](int64_t block) {
    const auto begin = position.begin() + block * part.heads_a_block;
    return Median(Values(begin, begin + part.heads_a_block));
  };
  return fmt::format(
      "Where a query and its key stand decides {} of the logits' variance in the median head, {}; what both contain "
      "decides {}, and the rest is one of each. In the first block position has a median of {}, in the last {}. The "
      "parts overlap by at most {}.",
      Percent(Median(position)), Range(part, position, Percent), Percent(Median(content)), Percent(of_block(0)),
      Percent(of_block(part.depth - 1)), Percent(overlap[Greatest(overlap)]));
}

namespace {

// How far the tokens of a text look, or what cross-attention reads.
std::string DescribeTextReach(const InspectedPart& part) {
  const inspect::TokenStatistics& t = *part.tokens;
  const auto of = [&](double inspect::HeadAttention::*member) {
    return Collect(part, [&, member](size_t i) { return t.attention[i].*member; });
  };
  const Values entropy = Collect(part, [&](size_t i) { return std::exp(t.attention[i].entropy); });
  const auto one_digit = [](double x) { return fmt::format("{:.1f}", x); };
  const std::string spread =
      fmt::format("Entropy is that of {:.1f} tokens in the median head, {}; of uniform attention {:.1f}.",
                  Median(entropy), Range(part, entropy, one_digit), std::exp(t.uniform.entropy));
  if (part.cross) {
    const Values diagonal = of(&inspect::HeadAttention::diagonal), last = of(&inspect::HeadAttention::last);
    return fmt::format(
        "The alignment is {} diagonal in the median head, {} (1: attention on the diagonal; 0: as uniform attention). "
        "The source's last token, which ends it, gets {} in the median head, {}. {}",
        Signed(Median(diagonal)), Range(part, diagonal, [](double x) { return Signed(x); }), Percent(Median(last)),
        Range(part, last, Percent), spread);
  }
  const Values distance = of(&inspect::HeadAttention::distance), first = of(&inspect::HeadAttention::first);
  return fmt::format(
      "Tokens look {} tokens far in the median head, {}; uniform attention would look {:.1f}. {} A text's first token "
      "gets {} in the median head, {}.",
      report::Number(Median(distance), 2), Range(part, distance, one_digit), t.uniform.distance, spread,
      Percent(Median(first)), Range(part, first, Percent));
}

}  // namespace

std::string DescribeReach(const Inspection& inspection, const InspectedPart& part) {
  if (inspection.texts) return DescribeTextReach(part);
  const inspect::TokenStatistics& t = *part.tokens;
  const Values distance = Collect(part, [&](size_t i) { return t.attention[i].distance; });
  const Values entropy = Collect(part, [&](size_t i) { return std::exp(t.attention[i].entropy); });
  std::string words = fmt::format(
      "Patches look {} patches far, {}; uniform attention would look {:.1f}. Entropy is that of "
      "{:.0f} tokens of {} in the median head, {}.",
      report::Number(Median(distance), 2), Range(part, distance, [](double x) { return fmt::format("{:.1f}", x); }),
      t.uniform.distance, Median(entropy), t.tokens,
      Range(part, entropy, [](double x) { return fmt::format("{:.1f}", x); }));
  const Values class_token = Collect(part, [&](size_t i) { return t.attention[i].class_token; });
  if (inspection.class_token) {
    words += fmt::format(" The class token gets {} at most ({}).", Percent(class_token[Greatest(class_token)]),
                         HeadName(part, Greatest(class_token)));
  }
  return words;
}

}  // namespace qkv::app::heads
