// qkv qk certify: which rewritings of a model's attention are exact, and what prevents the others.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <memory>
#include <tuple>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/inspection/inspection.h"
#include "qkv/io/json.h"
#include "qkv/lab/certificate.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"

namespace qkv::cli {
namespace {

using lab::AttentionTraits;

struct QkCertifyOptions {
  ModelOptions model;
  int64_t rank = 0;
  std::string with;
  bool json = false;
};

// Traits of the surroundings of attention, by name; also rope[=N] and rms-norm.
struct Surrounding {
  std::string_view name;
  bool AttentionTraits::*trait;
};
constexpr Surrounding kSurroundings[] = {{"sink", &AttentionTraits::sink},
                                         {"soft-cap", &AttentionTraits::soft_cap},
                                         {"added-keys", &AttentionTraits::added_keys},
                                         {"not-softmax", &AttentionTraits::not_softmax},
                                         {"dropout", &AttentionTraits::dropout}};

std::string SurroundingNames() {
  std::string names = "rope[=N], rms-norm";
  for (const Surrounding& surrounding : kSurroundings) names += fmt::format(", {}", surrounding.name);
  return names;
}

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

// Adds the traits that `list` names, for heads of this width; returns the error, or an empty string.
std::string ParseSurroundings(const std::string& list, int64_t width, AttentionTraits* traits) {
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = std::string_view(list).substr(begin, end - begin);
    const auto* found = std::ranges::find(kSurroundings, name, &Surrounding::name);
    if (found != std::end(kSurroundings)) {
      traits->*(found->trait) = true;
    } else if (name == "rms-norm") {
      traits->norm = AttentionTraits::Norm::kRmsNorm;
    } else if (const int64_t rope = ParseRope(name, width); rope > 0) {
      traits->rope = rope;
    } else {
      return fmt::format("expected some of {} separated by commas (N even, no more than a head's features), got \"{}\"",
                         SurroundingNames(), name);
    }
    begin = end + 1;
  }
  return "";
}

std::vector<std::string_view> ObstructionNames(const std::vector<lab::Obstruction>& obstructions) {
  std::vector<std::string_view> names;
  for (const lab::Obstruction obstruction : obstructions) names.push_back(lab::Name(obstruction));
  return names;
}

// The number, or null if it does not apply.
io::Json OrNull(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(); }

void PrintJson(const std::vector<lab::Certificate>& certificates, int64_t rank) {
  for (const lab::Certificate& c : certificates) {
    io::Json line = {{"block", c.block},
                     {"rewriting", lab::Name(c.rewriting)},
                     {"verdict", lab::Name(c.verdict)},
                     {"obstructions", ObstructionNames(c.obstructions)},
                     {"weight_error", OrNull(c.weight_error)},
                     {"logit_bound", OrNull(c.logit_bound)},
                     {"attention_bound", OrNull(c.attention_bound)},
                     {"condition", OrNull(c.condition)}};
    if (!c.part.empty()) line["part"] = c.part;
    line["head"] = c.head == lab::Certificate::kAllHeads ? io::Json() : io::Json(c.head);
    if (c.rewriting == lab::Rewriting::kTruncate) line["rank"] = rank;
    PrintJsonLine(line);
  }
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
  Range error, logits, attention, condition;
};
using Key = std::tuple<lab::Rewriting, lab::Exactness, std::vector<lab::Obstruction>>;

std::string FormatNumbers(const Group& group, const Key& key) {
  std::string text;
  const auto add = [&](const char* what, const Range& range, const char* unit) {
    if (const std::string numbers = range.Text(); !numbers.empty()) {
      text += fmt::format("{}{} {}{}", text.empty() ? "" : "; ", what, numbers, unit);
    }
  };
  if (!std::get<2>(key).empty()) text = fmt::format("{}", fmt::join(ObstructionNames(std::get<2>(key)), ", "));
  add("error of M", group.error, "");
  add("any logit within", group.logits, "");
  add("condition number", group.condition, "");
  return text;
}

void PrintTable(const std::vector<lab::Certificate>& certificates, int64_t rank) {
  std::map<Key, Group> groups;
  std::map<lab::Rewriting, int64_t> totals;
  for (const lab::Certificate& c : certificates) {
    Group& group = groups[{c.rewriting, c.verdict, c.obstructions}];
    ++group.count, ++totals[c.rewriting];
    group.error.Add(c.weight_error), group.logits.Add(c.logit_bound), group.condition.Add(c.condition);
  }
  Print("{:<27} {:<25} {:<16} {}\n", "rewriting", "verdict", "of", "because, or how far");
  for (const auto& [key, group] : groups) {
    const auto& [rewriting, verdict, obstructions] = key;
    const bool layers = rewriting == lab::Rewriting::kFoldNorm || rewriting == lab::Rewriting::kCentre ||
                        rewriting == lab::Rewriting::kValuesFromKeys;
    const std::string name = rewriting == lab::Rewriting::kTruncate ? fmt::format("truncate to {}", rank)
                                                                    : std::string(lab::Name(rewriting));
    Print("{:<27} {:<25} {:<16} {}\n", name, lab::Name(verdict),
          fmt::format("{}{} {}", group.count == totals[rewriting] ? "all " : "", group.count,
                      layers ? "blocks" : "heads"),
          FormatNumbers(group, key));
  }
}

// --rank, or half of a head's features.
int64_t ChosenRank(const QkCertifyOptions& options, const nn::AttentionConfig& attention, std::string_view part) {
  const int64_t rank = options.rank > 0 ? options.rank : lab::HalfRank(attention);
  Require(rank <= attention.query_width(), "--rank: queries and keys{} have {} features, got {}",
          part.empty() ? "" : fmt::format(" of the {} part", part), attention.query_width(), rank);
  return rank;
}

// Adds the traits of --with.
AttentionTraits WithGiven(const QkCertifyOptions& options, const nn::AttentionConfig& attention,
                          AttentionTraits traits) {
  const std::string wrong = ParseSurroundings(options.with, attention.query_width(), &traits);
  Require(wrong.empty(), "--with: {}", wrong);
  return traits;
}

void CertifyParts(const QkCertifyOptions& options, const std::vector<inspect::AttentionPart>& parts) {
  const std::vector<inspect::AttentionPart> measured = app::MeasuredParts(parts);
  for (const inspect::AttentionPart& part : parts) {
    if (part.has_queries()) continue;
    PrintMessage("qkv: {}: its heads are left out: {}\n", Name(part.kind),
                 model::PairObstruction(part.attention().kind));
  }
  for (const inspect::AttentionPart& part : measured) {
    const int64_t rank = ChosenRank(options, part.attention(), Name(part.kind));
    const AttentionTraits traits = WithGiven(options, part.attention(), lab::MakeAttentionTraits(part));
    const std::vector<lab::Certificate> certificates = lab::Certify(part, rank, traits);
    if (options.json) {
      PrintJson(certificates, rank);
      continue;
    }
    if (&part != &measured.front()) Print("\n");
    Print("{}\n", Name(part.kind));
    PrintTable(certificates, rank);
    if (part.relative_bias()) {
      PrintMessage("qkv: {}: biases by relative position stand beside x M x and obstruct nothing\n", Name(part.kind));
    }
    if (part.is_cross()) {
      PrintMessage(
          "qkv: cross: M's rows belong to the decoder's tokens and its columns to the encoder's: W_Q = W_K would "
          "compare the features of two spaces by their numbers\n");
    }
  }
}

int Certify(const QkCertifyOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  if (!model.facts().is_image()) {
    CertifyParts(options,
                 model.facts().is_text() ? inspect::FindParts(model.texts()) : inspect::FindParts(model.sequences()));
    return 0;
  }
  const model::Checkpoint& checkpoint = model.images();
  const nn::AttentionConfig& attention = checkpoint.description.config.block.attention;
  const int64_t rank = ChosenRank(options, attention, "");
  const AttentionTraits traits = WithGiven(options, attention, lab::MakeAttentionTraits(checkpoint.description.config));
  const std::vector<lab::Certificate> certificates = lab::Certify(checkpoint, rank, traits);
  if (options.json) {
    PrintJson(certificates, rank);
  } else {
    PrintTable(certificates, rank);
  }
  return 0;
}

}  // namespace

void RegisterQkCertify(Command app, int* exit_code) {
  const auto options = std::make_shared<QkCertifyOptions>();
  const Command command = app.AddCommand("certify", "Say which rewritings of the attention are exact, and why not");
  options->model.AddModel(command);
  command.AddOption("--rank", &options->rank, "Features that truncation would keep (default: half)")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("R");
  command
      .AddOption("--with", &options->with, "Certify as if around the attention there were also: " + SurroundingNames())
      .TypeName("LIST")
      .Check([](const std::string& list) {
        AttentionTraits traits;  // for any head width: there is no model yet
        return ParseSurroundings(list, std::numeric_limits<int64_t>::max(), &traits);
      });
  command.AddOption("--threads", &options->model.threads, "Threads (default: all cores)").Range(1, 1024).TypeName("N");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout, one for each block, head and rewriting");
  command.Footer(
      "Rows that are equal stand together, with the range of their numbers. docs/algebra.md has the statements. For "
      "text models the encoder, the decoder and its cross-attention each have a table.\n\n"
      "Examples:\n"
      "  qkv qk certify -m vit                   may its queries and keys be merged?\n"
      "  qkv qk certify -m vit --with rope,sink  and if it also had these?\n"
      "  qkv qk certify -m vit --rank 16 --json  every head by itself\n"
      "  qkv qk certify -m opus-mt-en-it         and a translator's");
  command.Callback([options, exit_code] { *exit_code = Certify(*options); });
}

}  // namespace qkv::cli
