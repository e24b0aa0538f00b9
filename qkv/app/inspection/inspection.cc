#include "qkv/app/inspection/inspection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <limits>
#include <utility>

#include "qkv/report/table.h"

namespace qkv::app {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

constexpr const char* kBiased =
    "Biases by relative position are added to the logits: the QK circuit, and the shares of position and content, "
    "leave them out.";

// Caveats: what the numbers of these layers leave out.
std::vector<std::string> DescribeCaveats(const nn::AttentionConfig& attention, bool free_gauge) {
  std::vector<std::string> caveats;
  if (!free_gauge) {
    caveats.emplace_back("W_Q and W_K are no two free factors here: what other factors would save is not shown.");
  }
  if (attention.qk_norm) {
    caveats.emplace_back(
        "Queries and keys are normalised: the QK circuit is that of the scores' numerator, without the norms' gains; "
        "the logits do not split into position and content.");
  }
  if (attention.output_norm) {
    caveats.emplace_back("The joined heads are normalised before the projection: the OV circuit leaves it out.");
  }
  return caveats;
}

std::vector<std::string> DescribeCaveats(const model::VitConfig& c, bool free_gauge) {
  std::vector<std::string> caveats = DescribeCaveats(c.block.attention, free_gauge);
  if (c.rotary != model::PatchRotary::kNone) {
    caveats.emplace_back(
        "Queries and keys are rotated by their positions: the QK circuit is that of two patches at one place; the "
        "logits do not split into position and content.");
  }
  if (c.has_relative_biases()) caveats.emplace_back(kBiased);
  return caveats;
}

std::vector<std::string> DescribeCaveats(const inspect::AttentionPart& part, bool free_gauge) {
  std::vector<std::string> caveats = DescribeCaveats(part.attention(), free_gauge);
  if (part.is_cross()) {
    caveats.emplace_back(
        "Queries come from the decoder's tokens, keys and values from the encoder's: rows and columns of M belong to "
        "two spaces, so it has no symmetric part and no eigenvalues, and neither has the OV circuit.");
    if (part.source == nullptr) {
      caveats.emplace_back("The model that makes the source's tokens is not here: their norm is not folded in.");
    }
  }
  const nn::BlockConfig& block = part.config->block;
  if (block.norm_place == nn::NormPlace::kAfter) {
    caveats.emplace_back(
        part.is_cross() || part.config->embedding_norm
            ? "Norms follow the layers: what is folded in is the norm of the layer before."
            : "Norms follow the layers: what is folded in is the norm of the layer before, and nothing in the first "
              "block, which reads the embeddings.");
  }
  if (part.rotary()) {
    caveats.emplace_back(
        "Queries and keys are rotated by their positions: the QK circuit is that at distance 0, of two tokens at one "
        "place; the logits do not split into position and content.");
  }
  if (part.attention().groups_heads()) {
    caveats.push_back(fmt::format("{} heads of queries share {} of keys and values: each is shown with those it reads.",
                                  part.attention().heads, part.attention().kv_heads()));
  }
  if (part.relative_bias()) caveats.emplace_back(kBiased);
  return caveats;
}

// Collects sentences about parts, each once, with the parts that it is about.
class Caveats {
 public:
  void Add(const std::string& part, const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) {
      const auto found = std::ranges::find(all_, sentence, &Sentence::text);
      if (found != all_.end()) {
        found->parts += ", " + part;
      } else {
        all_.push_back({sentence, part});
      }
    }
  }
  std::vector<std::string> Sentences() const {
    std::vector<std::string> sentences;
    for (const auto& [text, parts] : all_) sentences.push_back(fmt::format("{}: {}", parts, text));
    return sentences;
  }

 private:
  struct Sentence {
    std::string text, parts;
  };
  std::vector<Sentence> all_;
};

bool HasFreeGauge(const nn::AttentionConfig& attention, bool scores_are_bilinear) {
  return (attention.kind == nn::AttentionKind::kSeparate || attention.kind == nn::AttentionKind::kLowRank) &&
         scores_are_bilinear && !attention.groups_heads();
}

InspectedPart DescribePart(const nn::BlockConfig& block, const nn::AttentionConfig& attention, int64_t depth,
                           bool scores_are_bilinear) {
  InspectedPart part{.depth = depth,
                     .heads_a_block = attention.heads,
                     .width = block.width,
                     .source_width = attention.source(block.width),
                     .head_width = attention.head_width,
                     .cross = attention.of_source,
                     .free_gauge = HasFreeGauge(attention, scores_are_bilinear),
                     .centred = block.norm.kind == simd::NormKind::kLayer};
  part.counted = part.free_gauge && part.width == part.source_width;
  return part;
}

// Measures the blocks of a part; read(block): their AttentionWeights.
template <typename Read>
void MeasureBlocks(Read read, const std::function<void()>& advance, InspectedPart* part) {
  Require(part->depth > 0, "inspect: there are no blocks, and so no heads");
  for (int64_t block = 0; block < part->depth; ++block) {
    const inspect::AttentionWeights weights = read(block);
    if (block + 1 == part->depth) {
      part->parameters = inspect::CountHead(part->width, weights.query.weight.dim(0) / weights.heads,
                                            !weights.query.bias.empty(), weights.norm);
    }
    for (inspect::HeadWeights& head : inspect::MeasureWeights(weights)) part->weights.push_back(std::move(head));
    advance();
  }
}

// The images are run twice if the logits are split: once for the means over them.
bool RunsTwice(const model::VitConfig& c, int64_t images) { return images > 1 && c.scores_are_bilinear(); }

template <double inspect::HeadAttention::*kMember>
double Attention(const InspectedPart& part, size_t head) {
  return part.tokens ? part.tokens->attention[head].*kMember : kUnknown;
}

template <double inspect::LogitShares::*kMember>
double OfLogits(const InspectedPart& part, size_t head) {
  return part.splits_logits() ? part.tokens->logits[head].*kMember : kUnknown;
}

template <size_t kPart>
double Share(const InspectedPart& part, size_t head) {
  return part.splits_logits() ? part.tokens->logits[head].share[kPart] : kUnknown;
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, double inspect::Circuit::*kMember>
double Of(const InspectedPart& part, size_t head) {
  return part.weights[head].*kCircuit.*kMember;
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit, size_t kShare>
double EnergyRank(const InspectedPart& part, size_t head) {
  return static_cast<double>((part.weights[head].*kCircuit).energy_rank[kShare]);
}

template <inspect::Circuit inspect::HeadWeights::*kCircuit>
double Rank(const InspectedPart& part, size_t head) {
  return static_cast<double>((part.weights[head].*kCircuit).rank);
}

template <double inspect::HeadWeights::*kMember>
double HeadValue(const InspectedPart& part, size_t head) {
  return part.free_gauge ? part.weights[head].*kMember : kUnknown;
}

io::Json Complex(const std::vector<std::complex<double>>& values) {
  io::Json list = io::Json::array();
  for (const std::complex<double>& z : values) list.push_back({z.real(), z.imag()});
  return list;
}

}  // namespace

size_t Inspection::heads() const {
  size_t all = 0;
  for (const InspectedPart& part : parts) all += part.heads();
  return all;
}

Inspection InspectWeights(const model::Checkpoint& checkpoint, const std::function<void()>& advance) {
  const model::VitConfig& c = checkpoint.description.config;
  Inspection inspection{.source = checkpoint.source, .class_token = c.class_token, .registers = c.registers};
  InspectedPart part = DescribePart(c.block, c.block.attention, c.depth, c.scores_are_bilinear());
  MeasureBlocks([&](int64_t block) { return inspect::ReadAttention(checkpoint, block); }, advance, &part);
  inspection.caveats = DescribeCaveats(c, part.free_gauge);
  inspection.parts.push_back(std::move(part));
  return inspection;
}

Inspection InspectWeights(const std::string& source, const std::vector<inspect::AttentionPart>& parts,
                          const std::function<void()>& advance) {
  Inspection inspection{.source = source, .texts = true};
  Caveats caveats;
  for (const inspect::AttentionPart& part : parts) {
    if (part.has_queries()) continue;
    caveats.Add(std::string(Name(part.kind)),
                {fmt::format("Its heads are left out: {}.", model::PairObstruction(part.attention().kind))});
  }
  for (const inspect::AttentionPart& part : inspect::MeasuredParts(parts)) {
    InspectedPart measured =
        DescribePart(part.config->block, part.attention(), part.config->depth, part.scores_are_bilinear());
    measured.name = Name(part.kind);
    MeasureBlocks([&](int64_t block) { return inspect::ReadAttention(part, block); }, advance, &measured);
    caveats.Add(measured.name, DescribeCaveats(part, measured.free_gauge));
    inspection.parts.push_back(std::move(measured));
  }
  inspection.caveats = caveats.Sentences();
  return inspection;
}

int64_t InspectionSteps(const model::VitConfig& config, int64_t images) {
  return images * (RunsTwice(config, images) ? 2 : 1);
}

void InspectTokens(const model::Checkpoint& checkpoint, const model::Model& model, View<const float> pixels,
                   const std::string& images, const std::function<void()>& advance, Inspection& inspection) {
  inspection.images = images;
  inspection.parts.at(0).tokens = inspect::MeasureTokens(checkpoint, model, pixels, advance);
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
  const auto any = [&](auto of) { return std::ranges::any_of(inspection.parts, of); };
  if (any(&InspectedPart::free_gauge)) {
    fields.insert(fields.end(), {{"query_norm", HeadValue<&HeadWeights::query_norm>},
                                 {"key_norm", HeadValue<&HeadWeights::key_norm>},
                                 {"gauge_excess", HeadValue<&HeadWeights::gauge_excess>},
                                 {"key_bias_norm", HeadValue<&HeadWeights::key_bias_norm>}});
  }
  if (!any([](const InspectedPart& part) { return part.tokens.has_value(); })) return fields;
  fields.insert(fields.end(), {{"entropy", Attention<&HeadAttention::entropy>},
                               {"distance", Attention<&HeadAttention::distance>},
                               {"near", Attention<&HeadAttention::near>},
                               {"self", Attention<&HeadAttention::self>}});
  if (inspection.texts) {
    fields.push_back({"first_token", Attention<&HeadAttention::first>});
  } else {
    fields.insert(fields.end(), {{"class_token", Attention<&HeadAttention::class_token>},
                                 {"registers", Attention<&HeadAttention::registers>}});
  }
  if (any(&InspectedPart::cross)) {
    fields.insert(fields.end(),
                  {{"source_end", Attention<&HeadAttention::last>}, {"diagonal", Attention<&HeadAttention::diagonal>}});
  }
  if (!any(&InspectedPart::splits_logits)) return fields;
  fields.insert(fields.end(), {{"position_position", Share<inspect::kPositionPosition>},
                               {"position_content", Share<inspect::kPositionContent>},
                               {"content_position", Share<inspect::kContentPosition>},
                               {"content_content", Share<inspect::kContentContent>},
                               {"same_for_all_queries", OfLogits<&inspect::LogitShares::same>},
                               {"overlap", OfLogits<&inspect::LogitShares::overlap>},
                               {"key_bias_share", OfLogits<&inspect::LogitShares::key_bias>}});
  return fields;
}

namespace {

io::Json NumberOrNull(double value) { return std::isfinite(value) ? io::Json(value) : io::Json(); }

// The statistics of a part's tokens.
io::Json TokensJson(const Inspection& inspection, const InspectedPart& part) {
  if (!part.tokens) return nullptr;
  const inspect::TokenStatistics& t = *part.tokens;
  const inspect::HeadAttention& uniform = t.uniform;
  if (!inspection.texts) {
    return {{"images", t.images},
            {"from", inspection.images},
            {"tokens", t.tokens},
            {"grid", {t.grid_height, t.grid_width}},
            {"uniform", {{"entropy", uniform.entropy}, {"distance", uniform.distance}, {"near", uniform.near}}}};
  }
  io::Json json = {{"texts", t.images},
                   {"from", inspection.images},
                   {"queries", t.tokens},
                   {"uniform",
                    {{"entropy", NumberOrNull(uniform.entropy)},
                     {"distance", NumberOrNull(uniform.distance)},
                     {"near", NumberOrNull(uniform.near)}}},
                   {"split", nullptr}};
  if (part.splits_logits()) json["split"] = {{"texts", t.split_texts}, {"tokens", t.split_tokens}};
  return json;
}

// The numbers of a part as a whole.
io::Json PartJson(const Inspection& inspection, const InspectedPart& part) {
  const inspect::HeadParameters& p = part.parameters;
  io::Json json = {{"blocks", part.depth},         {"heads_a_block", part.heads_a_block},
                   {"width", part.width},          {"head_width", part.head_width},
                   {"parameters_a_head", nullptr}, {"tokens", TokensJson(inspection, part)}};
  if (part.counted) {
    json["parameters_a_head"] = {{"separate", p.count.separate},
                                 {"merged", p.count.merged},
                                 {"identity_block", p.count.identity_block},
                                 {"freedom", p.count.freedom},
                                 {"seen", p.seen}};
  }
  return json;
}

}  // namespace

io::Json ToJson(const Inspection& inspection) {
  io::Json json = {{"source", inspection.source}, {"caveats", inspection.caveats}};
  const std::vector<InspectionField> fields = InspectionFields(inspection);
  io::Json heads = io::Json::array(), parts = io::Json::array();
  for (const InspectedPart& part : inspection.parts) {
    io::Json of_part = PartJson(inspection, part);
    if (inspection.texts) {
      of_part["part"] = part.name, of_part["source_width"] = part.source_width;
      parts.push_back(std::move(of_part));
    } else {
      json.update(of_part);
    }
    for (size_t i = 0; i < part.heads(); ++i) {
      io::Json head = {{"block", part.block(i)}, {"head", part.head(i)}};
      if (inspection.texts) head["part"] = part.name;
      for (const InspectionField& field : fields) head[field.name] = NumberOrNull(field.of(part, i));
      const inspect::HeadWeights& weights = part.weights[i];
      head["qk_singular_values"] = weights.qk.singular_values, head["ov_singular_values"] = weights.ov.singular_values;
      head["qk_eigenvalues"] = part.cross ? io::Json() : Complex(weights.qk.eigenvalues);
      head["ov_eigenvalues"] = part.cross ? io::Json() : Complex(weights.ov.eigenvalues);
      heads.push_back(std::move(head));
    }
  }
  if (inspection.texts) json["parts"] = std::move(parts);
  json["heads"] = std::move(heads);
  return json;
}

std::string ToCsv(const Inspection& inspection) {
  const std::vector<InspectionField> fields = InspectionFields(inspection);
  report::Table table;
  if (inspection.texts) table.columns.push_back({"part"});
  table.columns.push_back({"block"}), table.columns.push_back({"head"});
  for (const InspectionField& field : fields) table.columns.push_back({field.name});
  for (const InspectedPart& part : inspection.parts) {
    for (size_t i = 0; i < part.heads(); ++i) {
      std::vector<std::string> row;
      if (inspection.texts) row.push_back(part.name);
      row.push_back(fmt::format("{}", part.block(i))), row.push_back(fmt::format("{}", part.head(i)));
      for (const InspectionField& field : fields) {
        const double value = field.of(part, i);
        row.push_back(std::isfinite(value) ? fmt::format("{}", value) : "");
      }
      table.rows.push_back(std::move(row));
    }
  }
  return report::ToCsv(table);
}

}  // namespace qkv::app
