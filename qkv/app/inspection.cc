#include "qkv/app/inspection.h"

#include <fmt/format.h>

#include <cmath>
#include <complex>
#include <utility>

#include "qkv/report/table.h"

namespace qkv::app {
namespace {

// What the numbers of this model leave out.
std::vector<std::string> DescribeCaveats(const model::VitConfig& c, bool free_gauge) {
  std::vector<std::string> caveats;
  if (!free_gauge) {
    caveats.emplace_back("W_Q and W_K are no two free factors here: what other factors would save is not shown.");
  }
  if (c.block.attention.qk_norm) {
    caveats.emplace_back(
        "Queries and keys are normalised: the QK circuit is that of the scores' numerator, without the norms' gains; "
        "the logits do not split into position and content.");
  }
  if (c.rotary != model::PatchRotary::kNone) {
    caveats.emplace_back(
        "Queries and keys are rotated by their positions: the QK circuit is that of two patches at one place; the "
        "logits do not split into position and content.");
  }
  if (c.has_relative_biases()) {
    caveats.emplace_back(
        "Biases by relative position are added to the logits: the QK circuit, and the shares of position and content, "
        "leave them out.");
  }
  if (c.block.attention.output_norm) {
    caveats.emplace_back("The joined heads are normalised before the projection: the OV circuit leaves it out.");
  }
  return caveats;
}

// The images are run twice if the logits are split: once for the means over them.
bool RunsTwice(const model::VitConfig& c, int64_t images) { return images > 1 && c.scores_are_bilinear(); }

template <double inspect::HeadAttention::*kMember>
double Attention(const Inspection& inspection, size_t head) {
  return inspection.tokens->attention[head].*kMember;
}

template <size_t kPart>
double Share(const Inspection& inspection, size_t head) {
  return inspection.tokens->logits[head].share[kPart];
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, double inspect::Circuit::*kMember>
double Of(const Inspection& inspection, size_t head) {
  return inspection.weights[head].*kCircuit.*kMember;
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, size_t kShare>
double EnergyRank(const Inspection& inspection, size_t head) {
  return static_cast<double>((inspection.weights[head].*kCircuit).energy_rank[kShare]);
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit>
double Rank(const Inspection& inspection, size_t head) {
  return static_cast<double>((inspection.weights[head].*kCircuit).rank);
}

template <double inspect::HeadWeights::*kMember>
double HeadValue(const Inspection& inspection, size_t head) {
  return inspection.weights[head].*kMember;
}

io::Json Complex(const std::vector<std::complex<double>>& values) {
  io::Json list = io::Json::array();
  for (const std::complex<double>& z : values) list.push_back({z.real(), z.imag()});
  return list;
}

}  // namespace

Inspection InspectWeights(const model::Checkpoint& checkpoint, const std::function<void()>& advance) {
  Inspection inspection{.source = checkpoint.source, .config = checkpoint.description.config};
  const model::VitConfig& c = inspection.config;
  inspection.free_gauge = (c.block.attention.kind == nn::AttentionKind::kSeparate ||
                           c.block.attention.kind == nn::AttentionKind::kLowRank) &&
                          c.scores_are_bilinear();
  for (int64_t block = 0; block < c.depth; ++block) {
    const auto weights = inspect::ReadAttention(checkpoint, block);
    if (block == 0) {
      const int64_t width = weights.query.weight.dim(0) / weights.heads;
      inspection.parameters = inspect::CountHead(c.block.width, width, !weights.query.bias.empty());
    }
    for (inspect::HeadWeights& head : inspect::MeasureWeights(weights)) inspection.weights.push_back(std::move(head));
    advance();
  }
  inspection.caveats = DescribeCaveats(c, inspection.free_gauge);
  return inspection;
}

int64_t InspectionSteps(const model::VitConfig& config, int64_t images) {
  return images * (RunsTwice(config, images) ? 2 : 1);
}

void InspectTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                   const std::string& images, const std::function<void()>& advance, Inspection& inspection) {
  inspection.images = images;
  inspection.tokens = inspect::MeasureTokens(checkpoint, model, pixels, advance);
  if (pixels.dim(0) == 1) {
    inspection.caveats.emplace_back(
        "Position and content are told apart by how images differ: one image is not enough.");
  }
}

std::vector<InspectionField> InspectionFields(const Inspection& inspection) {
  using inspect::Circuit;
  using inspect::HeadAttention;
  using inspect::HeadWeights;
  std::vector<InspectionField> fields = {{"qk_effective_rank", Of<&HeadWeights::qk, &Circuit::effective_rank>},
                                         {"qk_stable_rank", Of<&HeadWeights::qk, &Circuit::stable_rank>},
                                         {"qk_rank", Rank<&HeadWeights::qk>},
                                         {"qk_rank_90", EnergyRank<&HeadWeights::qk, 0>},
                                         {"qk_rank_99", EnergyRank<&HeadWeights::qk, 1>},
                                         {"qk_rank_99_9", EnergyRank<&HeadWeights::qk, 2>},
                                         {"qk_condition", Of<&HeadWeights::qk, &Circuit::condition>},
                                         {"qk_symmetry", Of<&HeadWeights::qk, &Circuit::symmetry>},
                                         {"qk_eigenvalue_sign", Of<&HeadWeights::qk, &Circuit::eigenvalue_sign>},
                                         {"ov_effective_rank", Of<&HeadWeights::ov, &Circuit::effective_rank>},
                                         {"ov_stable_rank", Of<&HeadWeights::ov, &Circuit::stable_rank>},
                                         {"ov_rank", Rank<&HeadWeights::ov>},
                                         {"ov_rank_90", EnergyRank<&HeadWeights::ov, 0>},
                                         {"ov_rank_99", EnergyRank<&HeadWeights::ov, 1>},
                                         {"ov_rank_99_9", EnergyRank<&HeadWeights::ov, 2>},
                                         {"ov_condition", Of<&HeadWeights::ov, &Circuit::condition>},
                                         {"ov_symmetry", Of<&HeadWeights::ov, &Circuit::symmetry>},
                                         {"ov_eigenvalue_sign", Of<&HeadWeights::ov, &Circuit::eigenvalue_sign>}};
  if (inspection.free_gauge) {
    fields.insert(fields.end(), {{"query_norm", HeadValue<&HeadWeights::query_norm>},
                                 {"key_norm", HeadValue<&HeadWeights::key_norm>},
                                 {"gauge_excess", HeadValue<&HeadWeights::gauge_excess>},
                                 {"key_bias_norm", HeadValue<&HeadWeights::key_bias_norm>}});
  }
  if (!inspection.tokens) return fields;
  fields.insert(fields.end(), {{"entropy", Attention<&HeadAttention::entropy>},
                               {"distance", Attention<&HeadAttention::distance>},
                               {"near", Attention<&HeadAttention::near>},
                               {"self", Attention<&HeadAttention::self>},
                               {"class_token", Attention<&HeadAttention::class_token>},
                               {"registers", Attention<&HeadAttention::registers>}});
  if (inspection.tokens->logits.empty()) return fields;
  fields.insert(fields.end(),
                {{"position_position", Share<inspect::kPositionPosition>},
                 {"position_content", Share<inspect::kPositionContent>},
                 {"content_position", Share<inspect::kContentPosition>},
                 {"content_content", Share<inspect::kContentContent>},
                 {"same_for_all_queries", [](const Inspection& i, size_t head) { return i.tokens->logits[head].same; }},
                 {"overlap", [](const Inspection& i, size_t head) { return i.tokens->logits[head].overlap; }},
                 {"key_bias_share", [](const Inspection& i, size_t head) { return i.tokens->logits[head].key_bias; }}});
  return fields;
}

io::Json ToJson(const Inspection& inspection) {
  const inspect::HeadParameters& p = inspection.parameters;
  io::Json json = {{"source", inspection.source},
                   {"blocks", inspection.config.depth},
                   {"heads_a_block", inspection.config.block.attention.heads},
                   {"width", inspection.config.block.width},
                   {"head_width", inspection.config.block.attention.head_width},
                   {"parameters_a_head", nullptr},
                   {"caveats", inspection.caveats},
                   {"tokens", nullptr}};
  if (inspection.free_gauge) {
    json["parameters_a_head"] = {{"separate", p.count.separate},
                                 {"merged", p.count.merged},
                                 {"identity_block", p.count.identity_block},
                                 {"freedom", p.count.freedom},
                                 {"seen", p.seen}};
  }
  if (inspection.tokens) {
    const inspect::TokenStatistics& t = *inspection.tokens;
    json["tokens"] = {
        {"images", t.images},
        {"from", inspection.images},
        {"tokens", t.tokens},
        {"grid", {t.grid_height, t.grid_width}},
        {"uniform", {{"entropy", t.uniform.entropy}, {"distance", t.uniform.distance}, {"near", t.uniform.near}}}};
  }
  const std::vector<InspectionField> fields = InspectionFields(inspection);
  io::Json heads = io::Json::array();
  for (size_t i = 0; i < inspection.heads(); ++i) {
    io::Json head = {{"block", inspection.block(i)}, {"head", inspection.head(i)}};
    for (const InspectionField& field : fields) head[field.name] = field.of(inspection, i);
    const inspect::HeadWeights& weights = inspection.weights[i];
    head["qk_singular_values"] = weights.qk.singular_values, head["ov_singular_values"] = weights.ov.singular_values;
    head["qk_eigenvalues"] = Complex(weights.qk.eigenvalues), head["ov_eigenvalues"] = Complex(weights.ov.eigenvalues);
    heads.push_back(std::move(head));
  }
  json["heads"] = std::move(heads);
  return json;
}

std::string ToCsv(const Inspection& inspection) {
  const std::vector<InspectionField> fields = InspectionFields(inspection);
  report::Table table{.columns = {{"block"}, {"head"}}};
  for (const InspectionField& field : fields) table.columns.push_back({field.name});
  for (size_t i = 0; i < inspection.heads(); ++i) {
    std::vector<std::string> row = {fmt::format("{}", inspection.block(i)), fmt::format("{}", inspection.head(i))};
    for (const InspectionField& field : fields) {
      const double value = field.of(inspection, i);
      row.push_back(std::isfinite(value) ? fmt::format("{}", value) : "");
    }
    table.rows.push_back(std::move(row));
  }
  return report::ToCsv(table);
}

}  // namespace qkv::app
