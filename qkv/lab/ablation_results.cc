#include "qkv/lab/ablation_results.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/inspect/heads.h"
#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/kind.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/checkpoint/stored_blocks.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/train/run/log.h"

namespace qkv::lab {
namespace {

// The last log line of this kind; null if there is none.
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

void MeasureHeads(const model::StoredBlocks& blocks, RunResult* result) {
  const nn::AttentionConfig& attention = blocks.config().attention;
  const bool measured = model::PairObstruction(attention.kind).empty() && inspect::HasLayerNormBefore(blocks.config());
  result->symmetry = result->effective_rank = result->rank99 = measured ? 0 : kNone;
  if (!measured) return;
  const auto heads = static_cast<double>(blocks.depth() * attention.heads);
  for (int64_t block = 0; block < blocks.depth(); ++block) {
    for (const inspect::HeadWeights& head : inspect::MeasureWeights(inspect::ReadAttention(blocks, block))) {
      result->symmetry += head.qk.symmetry / heads;
      result->effective_rank += head.qk.effective_rank / heads;
      result->rank99 += static_cast<double>(head.qk.energy_rank[1]) / heads;
    }
  }
}

std::vector<const RunResult*> FindRuns(const AblationResults& results, std::string_view data, std::string_view arm) {
  std::vector<const RunResult*> runs;
  for (const RunResult& run : results.runs) {
    if (run.data == data && run.arm == arm) runs.push_back(&run);
  }
  std::ranges::sort(runs, {}, [](const RunResult* run) { return run->seed; });
  return runs;
}

double RunMean(const std::vector<const RunResult*>& runs, double RunResult::*member) {
  double sum = 0;
  for (const RunResult* run : runs) sum += run->*member;
  return sum / static_cast<double>(runs.size());
}

Interval RunInterval(const std::vector<const RunResult*>& runs, double RunResult::*member) {
  std::vector<double> values;
  for (const RunResult* run : runs) values.push_back(run->*member);
  return MeanInterval(values);
}

}  // namespace

RunResult ReadRun(const std::filesystem::path& folder, const AblationData& data, std::string_view arm, int64_t seed) {
  const std::vector<io::Json> log = train::ReadLog(folder / "log.jsonl");
  const io::Json* evaluation = LastLine(log, "evaluation");
  Require(evaluation != nullptr, "{}: a run without an evaluation in its log", folder.string());
  // null stands for a non-finite value
  const auto number = [&](const char* name) {
    Require(evaluation->contains(name), "{}: an evaluation without \"{}\" in its log", folder.string(), name);
    return evaluation->at(name).is_null() ? kNone : evaluation->at(name).get<double>();
  };
  RunResult result{.data = data.name,
                   .arm = std::string(arm),
                   .seed = seed,
                   .top1 = number("top1"),
                   .loss = number("loss"),
                   .train_top1 = number("train_accuracy"),
                   .steps = evaluation->at("step")};
  const std::filesystem::path last = folder / "last";
  if (data.pairs) {
    const Cost cost = PairCost(train::PairOfCheckpoint(model::TextCheckpoint::Open(last)), *data.pairs);
    result.parameters = cost.parameters, result.flops = cost.flops;
    result.symmetry = result.effective_rank = result.rank99 = kNone;
    if (evaluation->contains("bleu")) result.bleu = number("bleu");
  } else if (model::FindKind(last) == model::ModelKind::kSequences) {
    const auto checkpoint = model::SequenceCheckpoint::Open(last);
    CountModel(checkpoint.config, &result);
    MeasureHeads(checkpoint, &result);
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

std::vector<ArmSummary> Summarise(const AblationResults& results, std::string_view data) {
  std::vector<ArmSummary> all;
  for (const std::string& arm : results.arms) {
    ArmSummary summary{.arm = arm};
    summary.runs = FindRuns(results, data, arm);
    if (summary.runs.empty()) continue;
    summary.top1 = RunInterval(summary.runs, &RunResult::top1);
    summary.loss = RunInterval(summary.runs, &RunResult::loss);
    summary.difference =
        arm == results.arms[0] ? Interval{kNone, kNone} : Difference(results, data, arm, results.arms[0]);
    summary.bleu = RunInterval(summary.runs, &RunResult::bleu);
    summary.bleu_difference = arm == results.arms[0]
                                  ? Interval{kNone, kNone}
                                  : Difference(results, data, arm, results.arms[0], &RunResult::bleu);
    summary.train_top1 = RunMean(summary.runs, &RunResult::train_top1);
    summary.symmetry = RunMean(summary.runs, &RunResult::symmetry);
    summary.effective_rank = RunMean(summary.runs, &RunResult::effective_rank);
    summary.rank99 = RunMean(summary.runs, &RunResult::rank99);
    all.push_back(std::move(summary));
  }
  return all;
}

Interval Difference(const AblationResults& results, std::string_view data, std::string_view arm, std::string_view other,
                    double RunResult::*value) {
  const std::vector<const RunResult*> others = FindRuns(results, data, other);
  std::vector<double> a, b;
  for (const RunResult* run : FindRuns(results, data, arm)) {
    const auto same = std::ranges::find(others, run->seed, [](const RunResult* r) { return r->seed; });
    if (same != others.end()) a.push_back(run->*value), b.push_back((**same).*value);
  }
  return PairedInterval(a, b);
}

}  // namespace qkv::lab
