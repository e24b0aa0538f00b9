#include "qkv/lab/ablation_results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/inspect/heads.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint.h"
#include "qkv/model/sequence_model.h"
#include "qkv/model/tensor_table.h"
#include "qkv/train/log.h"

namespace qkv::lab {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

// A number that may not be there is null: JSON has no NaN.
io::Json ToNumber(double x) { return std::isfinite(x) ? io::Json(x) : io::Json(nullptr); }

double FromNumber(const io::Json& json, const char* name) {
  const io::Json& value = json.at(name);
  return value.is_null() ? kNone : value.get<double>();
}

io::Json ToJson(const RunResult& run) {
  return {{"data", run.data},
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
}

RunResult RunFrom(const io::Json& json) {
  return {.data = json.at("data"),
          .arm = json.at("arm"),
          .seed = json.at("seed"),
          .top1 = FromNumber(json, "top1"),
          .loss = FromNumber(json, "loss"),
          .train_top1 = FromNumber(json, "train_top1"),
          .steps = json.at("steps"),
          .parameters = json.at("parameters"),
          .flops = FromNumber(json, "flops"),
          .symmetry = FromNumber(json, "symmetry"),
          .effective_rank = FromNumber(json, "effective_rank"),
          .rank99 = FromNumber(json, "rank99")};
}

// What the last line of this kind says; null where there is none.
const io::Json* LastLine(const std::vector<io::Json>& log, std::string_view event) {
  const auto found = std::find_if(
      log.rbegin(), log.rend(), [&](const io::Json& line) { return line.contains("event") && line["event"] == event; });
  return found == log.rend() ? nullptr : &*found;
}

template <typename Config>
void CountModel(const Config& config, RunResult* result) {
  result->parameters = model::Parameters(config);
  result->flops = model::Flops(config);
}

void MeasureHeads(const model::Checkpoint& checkpoint, RunResult* result) {
  const model::VitConfig& c = checkpoint.description.config;
  result->symmetry = result->effective_rank = result->rank99 = nn::IsPositional(c.attention) ? kNone : 0;
  if (nn::IsPositional(c.attention)) return;
  const auto heads = static_cast<double>(c.depth * c.heads);
  for (int64_t block = 0; block < c.depth; ++block) {
    for (const inspect::HeadWeights& head :
         inspect::MeasureWeights(inspect::ReadAttention<double>(checkpoint, block))) {
      result->symmetry += head.qk.symmetry / heads;
      result->effective_rank += head.qk.effective_rank / heads;
      result->rank99 += static_cast<double>(head.qk.energy_rank[1]) / heads;
    }
  }
}

std::vector<const RunResult*> RunsOf(const AblationResults& results, std::string_view data, std::string_view arm) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : results.runs) {
    if (run.data == data && run.arm == arm) runs.push_back(&run);
  }
  std::ranges::sort(runs, {}, [](const RunResult* run) { return run->seed; });
  return runs;
}

double MeanOf(const std::vector<const RunResult*>& runs, double RunResult::*member) {
  double sum = 0;
  for (const RunResult* run : runs) sum += run->*member;
  return sum / static_cast<double>(runs.size());
}

Interval IntervalOf(const std::vector<const RunResult*>& runs, double RunResult::*member) {
  std::vector<double> values;
  for (const RunResult* run : runs) values.push_back(run->*member);
  return MeanInterval(values);
}

}  // namespace

std::string RunResult::ToJson() const { return lab::ToJson(*this).dump(2) + "\n"; }

RunResult RunResult::FromJson(std::string_view text, std::string_view where) {
  const io::Json json = io::ParseJson(text, where);
  try {
    return RunFrom(json);
  } catch (const io::Json::exception& error) {
    Fail("{}: not the result of a run: {}", where, io::ReasonOf(error));
  }
}

RunResult ReadRun(const std::filesystem::path& folder, std::string_view data, std::string_view arm, int64_t seed) {
  const std::vector<io::Json> log = train::ReadLog(folder / "log.jsonl");
  const io::Json* evaluation = LastLine(log, "evaluation");
  Require(evaluation != nullptr, "{}: a run without an evaluation in its log", folder.string());
  RunResult result{.data = std::string(data),
                   .arm = std::string(arm),
                   .seed = seed,
                   .top1 = evaluation->at("top1"),
                   .loss = evaluation->at("loss"),
                   .train_top1 = evaluation->at("train_accuracy"),
                   .steps = evaluation->at("step")};
  const std::filesystem::path last = folder / "last";
  if (model::IsSequenceModel(last)) {
    const auto checkpoint = model::SequenceCheckpoint::Open(last);
    CountModel(checkpoint.config, &result);
    MeasureHeads(model::BlocksOf(checkpoint), &result);
  } else {
    const auto checkpoint = model::Checkpoint::Open(last);
    CountModel(checkpoint.description.config, &result);
    MeasureHeads(checkpoint, &result);
  }
  return result;
}

std::vector<std::string> AblationResults::Data() const {
  std::vector<std::string> names;
  for (const RunResult& run : runs) {
    if (std::ranges::find(names, run.data) == names.end()) names.push_back(run.data);
  }
  return names;
}

std::string AblationResults::ToJson() const {
  io::Json json = {{"title", title}, {"facts", facts}, {"arms", arms}, {"unit", unit}, {"planned", planned}};
  for (const auto& [arm, speed] : speeds) {
    json["speeds"][arm] = {{"training", speed.training}, {"inference", speed.inference}};
  }
  json["runs"] = io::Json::array();
  for (const RunResult& run : runs) json["runs"].push_back(lab::ToJson(run));
  return json.dump(1) + "\n";
}

AblationResults AblationResults::FromJson(std::string_view text, std::string_view where) {
  const io::Json json = io::ParseJson(text, where);
  try {
    AblationResults results;
    results.title = json.at("title");
    results.facts = json.at("facts");
    results.arms = json.at("arms");
    results.unit = json.value("unit", results.unit);  // results that are stored may be older
    results.planned = json.at("planned");
    for (const io::Json& run : json.at("runs")) results.runs.push_back(RunFrom(run));
    const io::Json speeds = json.value("speeds", io::Json::object());
    for (const auto& [arm, speed] : speeds.items()) {
      results.speeds[arm] = {.training = speed.at("training"), .inference = speed.at("inference")};
    }
    return results;
  } catch (const io::Json::exception& error) {
    Fail("{}: not the results of an ablation: {}", where, io::ReasonOf(error));
  }
}

std::vector<ArmSummary> Summarise(const AblationResults& results, std::string_view data) {
  std::vector<ArmSummary> all;
  for (const std::string& arm : results.arms) {
    ArmSummary summary{.arm = arm};
    summary.runs = RunsOf(results, data, arm);
    if (summary.runs.empty()) continue;
    summary.top1 = IntervalOf(summary.runs, &RunResult::top1);
    summary.loss = IntervalOf(summary.runs, &RunResult::loss);
    summary.difference =
        arm == results.arms[0] ? Interval{kNone, kNone} : Difference(results, data, arm, results.arms[0]);
    summary.train_top1 = MeanOf(summary.runs, &RunResult::train_top1);
    summary.symmetry = MeanOf(summary.runs, &RunResult::symmetry);
    summary.effective_rank = MeanOf(summary.runs, &RunResult::effective_rank);
    summary.rank99 = MeanOf(summary.runs, &RunResult::rank99);
    all.push_back(std::move(summary));
  }
  return all;
}

Interval Difference(const AblationResults& results, std::string_view data, std::string_view arm,
                    std::string_view other) {
  const std::vector<const RunResult*> others = RunsOf(results, data, other);
  std::vector<double> a, b;
  for (const RunResult* run : RunsOf(results, data, arm)) {
    const auto same = std::ranges::find(others, run->seed, [](const RunResult* r) { return r->seed; });
    if (same != others.end()) a.push_back(run->top1), b.push_back((*same)->top1);
  }
  return PairedInterval(a, b);
}

}  // namespace qkv::lab
