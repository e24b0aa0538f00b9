// The page of qkv qk inspect: pictures of all heads, how to read them, and what stands out.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "qkv/app/inspection/inspection.h"
#include "qkv/app/inspection/inspection_pictures.h"
#include "qkv/app/inspection/inspection_words.h"
#include "qkv/report/page.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

using namespace heads;

using Facts = std::vector<std::pair<std::string, std::string>>;

// "Encoder", "Cross-attention"; nothing for image models.
std::string Label(const InspectedPart& part) {
  if (part.cross) return "Cross-attention";
  std::string label = part.name;
  if (!label.empty()) label[0] = static_cast<char>(std::toupper(label[0]));
  return label;
}

// A section's title, with the part's name if it has one.
std::string Title(const InspectedPart& part, const std::string& title) {
  return part.name.empty() ? title : Label(part) + ". " + title;
}

Values OfCircuit(const InspectedPart& part, Circuit circuit, double inspect::Circuit::*member) {
  return Collect(part, [&](size_t i) { return part.weights[i].*circuit.*member; });
}

Values OfAttention(const InspectedPart& part, double inspect::HeadAttention::*member) {
  return Collect(part, [&](size_t i) { return part.tokens->attention[i].*member; });
}

std::string DescribeParameters(const InspectedPart& part) {
  const inspect::HeadParameters& p = part.parameters;
  const std::string seen =
      p.seen < p.count.freedom
          ? fmt::format(" ({} after a LayerNorm, whose tokens lack one direction)", report::WithCommas(p.seen))
          : "";
  return fmt::format(
      "{} numbers are stored. {} of them its attention can see{}. Merged into one matrix: {}; with a block of W_K the "
      "identity: {}",
      report::WithCommas(p.count.separate), report::WithCommas(p.count.freedom), seen,
      report::WithCommas(p.count.merged),
      p.count.identity_block > 0 ? report::WithCommas(p.count.identity_block) : "not possible");
}

std::string DescribeBlocks(const InspectedPart& part) {
  std::string words =
      fmt::format("{} of width {}, {} heads of {}", part.depth, part.width, part.heads_a_block, part.head_width);
  if (part.cross) words += fmt::format(", over tokens of width {}", part.source_width);
  return words;
}

void AddFacts(const Inspection& inspection, report::Page& page) {
  Facts facts = {{"Model", inspection.source}}, parameters;
  for (const InspectedPart& part : inspection.parts) {
    const std::string label = Label(part);
    facts.emplace_back(label.empty() ? "Blocks" : label,
                       label.empty() ? DescribeBlocks(part) : "blocks: " + DescribeBlocks(part));
    if (part.tokens && !inspection.texts) {
      facts.emplace_back("Tokens", fmt::format("{} an image, of {} × {} patches; from {}", part.tokens->tokens,
                                               part.tokens->grid_height, part.tokens->grid_width, inspection.images));
    }
    if (!part.counted) continue;
    // Parts of equal heads share a row.
    const std::string counts = DescribeParameters(part);
    const auto found = std::ranges::find(parameters, counts, &Facts::value_type::second);
    if (found == parameters.end()) {
      parameters.emplace_back("A head's W_Q and W_K" + (label.empty() ? "" : ", " + part.name), counts);
    } else {
      found->first += ", " + part.name;
    }
  }
  facts.insert(facts.end(), parameters.begin(), parameters.end());
  if (inspection.texts && inspection.parts.front().tokens) facts.emplace_back("Texts", inspection.images);
  page.Facts(facts);
  for (const std::string& caveat : inspection.caveats) page.Note(caveat);
}

void AddFindings(const Inspection& inspection, const InspectedPart& part, report::Page& page) {
  page.Section(Title(part, "What stands out"));
  Facts facts;
  if (!part.cross) facts.emplace_back("Symmetry", DescribeSymmetry(part));
  facts.emplace_back("Rank", DescribeRank(part));
  if (!part.cross) facts.emplace_back("Output", DescribeWriting(part));
  if (part.free_gauge) {
    facts.emplace_back("Gauge", DescribeGauge(part));
    facts.emplace_back("Key bias", DescribeKeyBias(part));
  }
  if (part.splits_logits()) facts.emplace_back("Position", DescribePosition(part));
  if (part.tokens) facts.emplace_back("Reach", DescribeReach(inspection, part));
  page.Facts(facts);
}

// Sections that apply only to circuits within one space.
void AddSymmetry(const InspectedPart& part, report::Page& page) {
  const Values symmetry = OfCircuit(part, &inspect::HeadWeights::qk, &inspect::Circuit::symmetry);
  page.Figure(
      SideBySide({DrawHeatmap(part, "Symmetry of M", kSigned, symmetry),
                  DrawHeatmap(part, "Sign of its eigenvalues", kSigned,
                              OfCircuit(part, &inspect::HeadWeights::qk, &inspect::Circuit::eigenvalue_sign))}),
      "Symmetry: 1 if M is symmetric, as with W_Q = W_K: both tokens of a pair give each other the same score. −1 "
      "if M is antisymmetric: the two scores are opposite. 0 if it is as much of one as of the other. Sign: "
      "red if tokens attend to similar ones, blue if to dissimilar ones.");
  Values order(part.heads());
  for (size_t i = 0; i < order.size(); ++i) order[i] = std::abs(symmetry[i] - Median(symmetry));
  page.Figure(
      SideBySide({Eigenvalues(part, Greatest(symmetry), "Most symmetric"), Eigenvalues(part, Least(order), "Median"),
                  Eigenvalues(part, Least(symmetry), "Least symmetric")}),
      "Eigenvalues of M in the complex plane, relative to the greatest. Right on the real axis: tokens attend "
      "to similar ones; left: to opposite ones. Far from the axis: M turns one direction into another, which "
      "no symmetric M, and so no shared projection, can do.");
}

void AddCircuits(const InspectedPart& part, report::Page& page) {
  page.Section(Title(part, "What attends to what: the QK circuits"));
  page.Prose(part.cross ? "A head's logits are x M yᵀ with M = W_Qᵀ W_K, x a token of the decoder and y one of the "
                          "encoder. All numbers here are of M with the norms of both folded in."
             : part.name.empty() ? "A head's logits are x M xᵀ with M = W_Qᵀ W_K. All numbers here are of M with the "
                                   "preceding LayerNorm folded in and its mean removed."
             : part.centred ? "A head's logits are x M xᵀ with M = W_Qᵀ W_K. All numbers here are of M with the "
                              "LayerNorm that tokens come from, if there is one, folded in and its mean removed."
                            : "A head's logits are x M xᵀ with M = W_Qᵀ W_K. All numbers here are of M with the "
                              "preceding RMSNorm folded in, which keeps the mean.");
  if (part.cross) page.Prose(kTwoSpaces);
  page.Figure(Spectra(part, "Singular values of M, relative to the greatest", &inspect::HeadWeights::qk),
              "A line for each head. If it falls early, the head compares tokens along few directions; if it is flat, "
              "the head uses its whole width.");
  if (!part.cross) AddSymmetry(part, page);
  std::vector<std::string> pair = {
      DrawHeatmap(part, "Effective rank of M", {"features"},
                  OfCircuit(part, &inspect::HeadWeights::qk, &inspect::Circuit::effective_rank))};
  std::string caption = "Effective rank: exp of the entropy of the singular values, as if so many were equal.";
  if (part.free_gauge) {
    pair.push_back(DrawHeatmap(part, "Saved by the balanced gauge", {"of ‖W_Q‖² + ‖W_K‖²"},
                               Collect(part, [&](size_t i) { return part.weights[i].gauge_excess; })));
    caption +=
        " Balanced gauge: how much of their squared norm W_Q and W_K have, as they are stored, beyond what this "
        "attention needs.";
  }
  page.Figure(SideBySide(pair), caption);
}

void AddOutputs(const InspectedPart& part, report::Page& page) {
  const auto of = [&](double inspect::Circuit::*member) { return OfCircuit(part, &inspect::HeadWeights::ov, member); };
  page.Section(Title(part, "What is written: the OV circuits"));
  page.Figure(Spectra(part, "Singular values of W_O W_V, relative to the greatest", &inspect::HeadWeights::ov),
              "As above, for what a head adds to the residual stream of the token that attends.");
  const std::string rank =
      DrawHeatmap(part, "Effective rank", {"of the features"}, of(&inspect::Circuit::effective_rank));
  if (part.cross) {
    page.Figure(
        rank,
        "What a head reads lies in the encoder's space, what it writes in the decoder's: there is no copying or "
        "negating, which eigenvalues would tell.");
    return;
  }
  page.Figure(
      SideBySide({DrawHeatmap(part, "Sign of the eigenvalues", kSigned, of(&inspect::Circuit::eigenvalue_sign)), rank}),
      "Sign: red if a head writes what it reads into the same directions, blue if it subtracts it.");
}

void AddPosition(const Inspection& inspection, const InspectedPart& part, report::Page& page) {
  const inspect::TokenStatistics& t = *part.tokens;
  const char *one = inspection.texts ? "text" : "image", *unit = inspection.texts ? "tokens" : "patches";
  page.Section(Title(part, "Position or content"));
  page.Prose(fmt::format(
      "On {}{}. Each normalised token is its mean over the {}s, which its position alone decides, plus the rest, its "
      "content. Logits split exactly into four parts; a part's share is its covariance with the logits over their "
      "variance, and the four sum to 1.",
      inspection.images,
      inspection.texts
          ? fmt::format(", on the first {} tokens of the {} that have as many", t.split_tokens, t.split_texts)
          : "",
      one));
  const auto picture = [&](const char* title, size_t which) {
    return DrawHeatmap(part, title, kShare, Shares(part, which));
  };
  page.Figure(SideBySide({picture("Position to position", inspect::kPositionPosition),
                          picture("Content to content", inspect::kContentContent),
                          picture("Position to content", inspect::kPositionContent),
                          picture("Content to position", inspect::kContentPosition)}),
              fmt::format("The query's part first. Position to position is a pattern that is the same for every {0}; "
                          "in the other three it depends on the {0}.",
                          one));
  const Values same = Collect(part, [&](size_t i) { return t.logits[i].same; });
  if (std::isfinite(same[Greatest(same)])) {
    page.Figure(DrawHeatmap(part, "The same for all queries", kShare, same),
                "The share of the logits that does not depend on which token asks: a ranking of the keys, made by the "
                "mean query. If it is near 1, separate queries have no effect.");
  }
  page.Figure(
      DrawScatter(part, OfAttention(part, &inspect::HeadAttention::distance), Shares(part, inspect::kPositionPosition),
                  {.name = fmt::format("mean distance of attention, in {}", unit)},
                  {.name = "share of position alone", .low = 0, .high = 1}, "How far a head looks, and why"),
      fmt::format("A mark for each head. Left: heads that look at their surroundings. Top: heads whose "
                  "attention does not depend on the {}.",
                  one));
}

// Entropy in units of uniform attention's.
Values RelativeEntropy(const InspectedPart& part) {
  Values entropy = OfAttention(part, &inspect::HeadAttention::entropy);
  for (double& x : entropy) x /= std::max(part.tokens->uniform.entropy, 1e-9);
  return entropy;
}

void AddTextReach(const InspectedPart& part, report::Page& page) {
  const inspect::HeadAttention& uniform = part.tokens->uniform;
  const auto share = [&](const char* title, double inspect::HeadAttention::*member) {
    const Values values = OfAttention(part, member);
    return DrawHeatmap(part, title, FromZero(values), values);
  };
  const std::string entropy = DrawHeatmap(part, "Entropy", {"of uniform"}, RelativeEntropy(part));
  if (part.cross) {
    page.Section(Title(part, "Alignment"));
    page.Figure(
        SideBySide({DrawHeatmap(part, "How diagonal", kSigned, OfAttention(part, &inspect::HeadAttention::diagonal)),
                    entropy, share("To the source's last token", &inspect::HeadAttention::last)}),
        "How diagonal: 1 if the query in the middle of its text attends to the middle of the source, and so "
        "on; 0 if attention lies as far from the diagonal as uniform attention.");
    return;
  }
  page.Section(Title(part, "How far, and at how much"));
  page.Figure(SideBySide({DrawHeatmap(part, "Distance of attention", {"tokens"},
                                      OfAttention(part, &inspect::HeadAttention::distance)),
                          entropy, share("To itself and those beside it", &inspect::HeadAttention::near),
                          share("To the first token", &inspect::HeadAttention::first)}),
              fmt::format("Uniform attention would have a distance of {:.1f}, entropy 1, and {} of it would be near.",
                          uniform.distance, Percent(uniform.near)));
}

void AddReach(const Inspection& inspection, const InspectedPart& part, report::Page& page) {
  const inspect::TokenStatistics& t = *part.tokens;
  page.Section("How far, and at how much");
  const Values near = OfAttention(part, &inspect::HeadAttention::near),
               class_token = OfAttention(part, &inspect::HeadAttention::class_token),
               registers = OfAttention(part, &inspect::HeadAttention::registers);
  std::vector<std::string> pictures = {
      DrawHeatmap(part, "Distance of attention", {"patches"}, OfAttention(part, &inspect::HeadAttention::distance)),
      DrawHeatmap(part, "Entropy", {"of log N"}, RelativeEntropy(part)),
      DrawHeatmap(part, "To itself and the eight around", FromZero(near), near)};
  if (inspection.class_token) {
    pictures.push_back(DrawHeatmap(part, "To the class token", FromZero(class_token), class_token));
  }
  if (inspection.registers > 0) {
    pictures.push_back(DrawHeatmap(part, "To the registers", FromZero(registers), registers));
  }
  page.Figure(SideBySide(pictures),
              fmt::format("Uniform attention would have a distance of {:.1f}, entropy 1, and {} of it would be near.",
                          t.uniform.distance, Percent(t.uniform.near)));
}

void AddTable(const Inspection& inspection, const InspectedPart& part, report::Page& page) {
  page.Section(Title(part, "All heads"));
  report::Table table{.columns = {{"head"}, {"eff. rank"}, {"90 %"}, {"99 %"}}};
  const auto add = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) table.columns.push_back({name});
  };
  if (!part.cross) add({"symmetry", "QK sign", "OV sign"});
  if (part.free_gauge) add({"W_Q/W_K"});
  if (part.splits_logits()) add({"position", "content", "same"});
  if (part.tokens) add({part.cross ? "diagonal" : "distance", "entropy"});
  for (size_t i = 0; i < part.heads(); ++i) {
    const inspect::HeadWeights& head = part.weights[i];
    std::vector<std::string> row = {
        fmt::format("{}.{}", part.block(i), part.head(i)), fmt::format("{:.1f}", head.qk.effective_rank),
        fmt::format("{}", head.qk.energy_rank[0]), fmt::format("{}", head.qk.energy_rank[1])};
    if (!part.cross) {
      for (const double x : {head.qk.symmetry, head.qk.eigenvalue_sign, head.ov.eigenvalue_sign}) {
        row.push_back(fmt::format("{:.2f}", x));
      }
    }
    if (part.free_gauge) row.push_back(report::Number(head.query_norm / head.key_norm));
    if (part.splits_logits()) {
      const inspect::LogitShares& logits = part.tokens->logits[i];
      row.insert(row.end(),
                 {Percent(logits.share[inspect::kPositionPosition]), Percent(logits.share[inspect::kContentContent]),
                  std::isfinite(logits.same) ? Percent(logits.same) : "–"});
    }
    if (part.tokens) {
      const inspect::HeadAttention& a = part.tokens->attention[i];
      row.insert(row.end(), {report::Number(part.cross ? a.diagonal : a.distance), report::Number(a.entropy)});
    }
    table.rows.push_back(std::move(row));
  }
  page.Add(table);
  if (&part != &inspection.parts.back()) return;
  page.Note(
      "`block.head`; ranks are of M. `qkv qk inspect --json` has every number, with the spectra; `-o heads.csv` one "
      "line a head.");
}

void AddPart(const Inspection& inspection, const InspectedPart& part, report::Page& page) {
  AddFindings(inspection, part, page);
  AddCircuits(part, page);
  AddOutputs(part, page);
  if (part.splits_logits()) AddPosition(inspection, part, page);
  if (part.tokens && inspection.texts) AddTextReach(part, page);
  if (part.tokens && !inspection.texts) AddReach(inspection, part, page);
  AddTable(inspection, part, page);
}

}  // namespace

std::string InspectionPage(const Inspection& inspection) {
  const std::filesystem::path source = inspection.source;
  report::Page page("The heads of " + (source.has_filename() ? source : source.parent_path()).filename().string(),
                    "What each attention head looks for, what it writes, and how far it looks.");
  AddFacts(inspection, page);
  for (const InspectedPart& part : inspection.parts) AddPart(inspection, part, page);
  return page.Html();
}

}  // namespace qkv::app
