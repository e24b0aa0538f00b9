// Ablation results as JSON: writing, and checked reading.
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/io/json.h"
#include "qkv/lab/ablation_results.h"

namespace qkv::lab {
namespace {

constexpr double kMost = std::numeric_limits<double>::max();
// Far above any real run; sums and products of a few such numbers do not overflow.
constexpr int64_t kMostCounted = int64_t{1} << 50;

// Missing numbers become null: JSON has no NaN.
io::Json ToNumber(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(nullptr); }

double Number(const io::Json& json, const char* name, double low, double high) {
  const io::Json& value = json.at(name);
  if (value.is_null()) return kNone;
  const bool fits = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
  Require(fits, "\"{}\" is {}, expected a number from {} to {}", name, value.dump(), low, high);
  return value.get<double>();
}

int64_t Count(const io::Json& json, const char* name) {
  const io::Json& value = json.at(name);
  // Negative values are not of the unsigned type.
  const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(kMostCounted);
  Require(fits, "\"{}\" is {}, expected a whole number from 0 to {}", name, value.dump(), kMostCounted);
  return value.get<int64_t>();
}

// Some of the numbers are rounded sums, so a fraction may exceed its bounds slightly.
double Share(const io::Json& json, const char* name, double low = 0) {
  constexpr double kRounding = 1e-6;
  return Number(json, name, low - kRounding, 1 + kRounding);
}

io::Json ToJson(const RunResult& run) {
  io::Json json = {{"data", run.data},
                   {"arm", run.arm},
                   {"seed", run.seed},
                   {"top1", ToNumber(run.top1)},
                   {"loss", ToNumber(run.loss)},
                   {"train_top1", ToNumber(run.train_top1)},
                   {"steps", run.steps},
                   {"parameters", run.parameters},
                   {"flops", ToNumber(run.flops)},
                   {"symmetry", ToNumber(run.symmetry)},
                   {"effective_rank", ToNumber(run.effective_rank)},
                   {"rank99", ToNumber(run.rank99)}};
  if (std::isfinite(run.bleu)) json["bleu"] = run.bleu;
  return json;
}

RunResult RunFrom(const io::Json& json) {
  return {.data = json.at("data"),
          .arm = json.at("arm"),
          .seed = Count(json, "seed"),
          .top1 = Share(json, "top1"),
          .loss = Number(json, "loss", -kMost, kMost),
          .train_top1 = Share(json, "train_top1"),
          .steps = Count(json, "steps"),
          .parameters = Count(json, "parameters"),
          .flops = Number(json, "flops", 0, kMost),
          .symmetry = Share(json, "symmetry", -1),
          .effective_rank = Number(json, "effective_rank", 0, kMost),
          .rank99 = Number(json, "rank99", 0, kMost),
          .bleu = json.contains("bleu") ? Number(json, "bleu", 0, 100 + 1e-4) : kNone};
}

AblationResults ResultsFrom(const io::Json& json) {
  AblationResults results;
  results.title = json.at("title");
  results.facts = json.at("facts");
  results.arms = json.at("arms");
  results.unit = json.value("unit", results.unit);  // absent in older files
  results.varied = json.value("varied", results.varied);
  results.planned = Count(json, "planned");
  for (const io::Json& run : json.at("runs")) results.runs.push_back(RunFrom(run));
  const io::Json speeds = json.value("speeds", io::Json::object());
  for (const auto& [arm, speed] : speeds.items()) {
    results.speeds[arm] = {.training = Number(speed, "training", 0, kMost),
                           .inference = Number(speed, "inference", 0, kMost)};
  }
  return results;
}

// Applies `from` to the parsed text. Errors are prefixed with `where` and say that the text is no `what`.
template <typename F>
auto Parse(std::string_view text, std::string_view where, const char* what, F&& from) {
  const io::Json json = io::ParseJson(text, where);
  std::string reason;
  try {
    return from(json);
  } catch (const io::Json::exception& error) {
    reason = io::JsonErrorReason(error);
  } catch (const Error& error) {
    reason = error.what();
  }
  Fail("{}: not {}: {}", where, what, reason);
}

}  // namespace

std::string RunResult::ToJson() const { return lab::ToJson(*this).dump(2) + "\n"; }

RunResult RunResult::FromJson(std::string_view text, std::string_view where) {
  return Parse(text, where, "the result of a run", RunFrom);
}

std::string AblationResults::ToJson() const {
  io::Json json = {{"title", title}, {"facts", facts}, {"arms", arms}, {"unit", unit}, {"planned", planned}};
  if (unit == "pairs") json["varied"] = varied;
  for (const auto& [arm, speed] : speeds) {
    json["speeds"][arm] = {{"training", speed.training}, {"inference", speed.inference}};
  }
  json["runs"] = io::Json::array();
  for (const RunResult& run : runs) json["runs"].push_back(lab::ToJson(run));
  return json.dump(1) + "\n";
}

AblationResults AblationResults::FromJson(std::string_view text, std::string_view where) {
  return Parse(text, where, "the results of an ablation", ResultsFrom);
}

}  // namespace qkv::lab
