#include "qkv/lab/certify_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace qkv::lab {
namespace {

// Traits of the surroundings of attention, by name; also rope[=N] and rms-norm.
struct NamedTrait {
  std::string_view name;
  bool AttentionTraits::*trait;
};
constexpr NamedTrait kNamedTraits[] = {{"sink", &AttentionTraits::sink},
                                       {"soft-cap", &AttentionTraits::soft_cap},
                                       {"added-keys", &AttentionTraits::added_keys},
                                       {"not-softmax", &AttentionTraits::not_softmax},
                                       {"dropout", &AttentionTraits::dropout}};

// Pairs of rotated features: all `width` features for "rope", 16 of them for "rope=16". 0 for any other text.
int64_t ParseRope(std::string_view name, int64_t width) {
  if (name == "rope") return width;
  if (!name.starts_with("rope=")) return 0;
  name.remove_prefix(5);
  int64_t features = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), features);
  const bool valid = error == std::errc() && end == name.data() + name.size();
  return valid && features > 0 && features % 2 == 0 && features <= width ? features : 0;
}

PartCertificates MakePart(std::string_view part, const nn::AttentionConfig& attention, const CertifyRequest& request,
                          AttentionTraits* traits) {
  const int64_t rank = request.rank > 0 ? request.rank : HalfRank(attention);
  Require(request.rank >= 0 && rank <= attention.query_width(),
          "certify: rank: queries and keys{} have {} features, got {}",
          part.empty() ? "" : fmt::format(" of the {} part", part), attention.query_width(), request.rank);
  AddTraits(request.with, attention.query_width(), traits);
  return {.part = std::string(part), .rank = rank, .certificates = {}};
}

std::vector<std::string_view> ObstructionNames(const std::vector<Obstruction>& obstructions) {
  std::vector<std::string_view> names;
  for (const Obstruction obstruction : obstructions) names.push_back(Name(obstruction));
  return names;
}

// The least and the greatest value of several heads.
struct Range {
  double low = INFINITY, high = -INFINITY;

  void Add(double x) {
    if (std::isnan(x)) return;
    low = std::min(low, x), high = std::max(high, x);
  }
  std::string Text() const {
    const auto number = [](double x) { return std::isfinite(x) ? fmt::format("{:.3g}", x) : "unbounded"; };
    if (low > high) return "";
    const std::string a = number(low), b = number(high);
    return a == b ? a : fmt::format("{} to {}", a, b);
  }
};

// Equal verdicts of one rewriting.
struct Group {
  int64_t count = 0;
  Range error, logits, condition;
};
using Key = std::tuple<Rewriting, Exactness, std::vector<Obstruction>>;

std::string FormatNumbers(const Group& group, const Key& key) {
  std::string text;
  const auto add = [&](const char* what, const Range& range) {
    if (const std::string numbers = range.Text(); !numbers.empty()) {
      text += fmt::format("{}{} {}", text.empty() ? "" : "; ", what, numbers);
    }
  };
  if (!std::get<2>(key).empty()) text = fmt::format("{}", fmt::join(ObstructionNames(std::get<2>(key)), ", "));
  add("error of M", group.error);
  add("any logit within", group.logits);
  add("condition number", group.condition);
  return text;
}

// The number, or null if it does not apply.
io::Json OrNull(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(); }

}  // namespace

std::string TraitNames() {
  std::string names = "rope[=N], rms-norm";
  for (const NamedTrait& trait : kNamedTraits) names += fmt::format(", {}", trait.name);
  return names;
}

void AddTraits(std::string_view list, int64_t width, AttentionTraits* traits) {
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    const auto* found = std::ranges::find(kNamedTraits, name, &NamedTrait::name);
    if (found != std::end(kNamedTraits)) {
      traits->*(found->trait) = true;
    } else if (name == "rms-norm") {
      traits->norm = AttentionTraits::Norm::kRmsNorm;
    } else if (const int64_t rope = ParseRope(name, width); rope > 0) {
      traits->rope = rope;
    } else {
      Fail("traits: expected some of {} separated by commas (N even, no more than a head's features), got \"{}\"",
           TraitNames(), name);
    }
    begin = end + 1;
  }
}

ModelCertificates CertifyModel(const model::Checkpoint& checkpoint, const CertifyRequest& request) {
  const model::VitConfig& config = checkpoint.description.config;
  AttentionTraits traits = MakeAttentionTraits(config);
  PartCertificates part = MakePart("", config.block.attention, request, &traits);
  part.certificates = Certify(checkpoint, part.rank, traits);
  return {.parts = {std::move(part)}, .notes = {}};
}

ModelCertificates CertifyModel(const std::vector<inspect::AttentionPart>& parts, const CertifyRequest& request) {
  ModelCertificates all;
  for (const inspect::AttentionPart& part : parts) {
    if (part.has_queries()) continue;
    all.notes.push_back(
        fmt::format("{}: its heads are left out: {}", Name(part.kind), model::PairObstruction(part.attention().kind)));
  }
  for (const inspect::AttentionPart& part : inspect::MeasuredParts(parts)) {
    AttentionTraits traits = MakeAttentionTraits(part);
    PartCertificates certified = MakePart(Name(part.kind), part.attention(), request, &traits);
    certified.certificates = Certify(part, certified.rank, traits);
    all.parts.push_back(std::move(certified));
    if (part.relative_bias()) {
      all.notes.push_back(
          fmt::format("{}: biases by relative position stand beside x M x and obstruct nothing", Name(part.kind)));
    }
    if (part.is_cross()) {
      all.notes.emplace_back(
          "cross: M's rows belong to the decoder's tokens and its columns to the encoder's: W_Q = W_K would compare "
          "the features of two spaces by their numbers");
    }
  }
  return all;
}

report::Table CertificateTable(const PartCertificates& part) {
  std::map<Key, Group> groups;
  std::map<Rewriting, int64_t> totals;
  for (const Certificate& c : part.certificates) {
    Group& group = groups[{c.rewriting, c.verdict, c.obstructions}];
    ++group.count, ++totals[c.rewriting];
    group.error.Add(c.weight_error), group.logits.Add(c.logit_bound), group.condition.Add(c.condition);
  }
  constexpr report::Align kLeft = report::Align::kLeft;
  report::Table table;
  table.columns = {{"rewriting", kLeft}, {"verdict", kLeft}, {"of", kLeft}, {"because, or how far", kLeft}};
  for (const auto& [key, group] : groups) {
    const auto& [rewriting, verdict, obstructions] = key;
    const bool layers =
        rewriting == Rewriting::kFoldNorm || rewriting == Rewriting::kCentre || rewriting == Rewriting::kValuesFromKeys;
    const std::string name =
        rewriting == Rewriting::kTruncate ? fmt::format("truncate to {}", part.rank) : std::string(Name(rewriting));
    table.rows.push_back({name, std::string(Name(verdict)),
                          fmt::format("{}{} {}", group.count == totals[rewriting] ? "all " : "", group.count,
                                      layers ? "blocks" : "heads"),
                          FormatNumbers(group, key)});
  }
  return table;
}

io::Json ToJson(const Certificate& c, int64_t rank) {
  io::Json json = {{"block", c.block},
                   {"rewriting", Name(c.rewriting)},
                   {"verdict", Name(c.verdict)},
                   {"obstructions", ObstructionNames(c.obstructions)},
                   {"weight_error", OrNull(c.weight_error)},
                   {"logit_bound", OrNull(c.logit_bound)},
                   {"attention_bound", OrNull(c.attention_bound)},
                   {"condition", OrNull(c.condition)}};
  if (!c.part.empty()) json["part"] = c.part;
  json["head"] = c.head == Certificate::kAllHeads ? io::Json() : io::Json(c.head);
  if (c.rewriting == Rewriting::kTruncate) json["rank"] = rank;
  return json;
}

}  // namespace qkv::lab
