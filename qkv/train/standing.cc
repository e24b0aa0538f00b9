#include "qkv/train/standing.h"

#include "qkv/core/error.h"
#include "qkv/core/hash.h"
#include "qkv/io/json.h"

namespace qkv::train {
namespace {

// JSON keeps every bit of a double.
io::Json ToJsonOf(const LossSum& sum) { return {sum.loss, sum.rows, sum.correct}; }

LossSum SumFrom(const io::Json& json) {
  return {json.at(0).get<double>(), json.at(1).get<int64_t>(), json.at(2).get<int64_t>()};
}

}  // namespace

bool Standing::Rate(int64_t epoch, const Score& score) {
  const bool more = !score.by_loss && score.top1 > best_top1, alike = score.by_loss || score.top1 == best_top1;
  const bool best = evaluations == 0 || more || (alike && score.loss < best_loss);
  ++evaluations;
  without_better = best ? 0 : without_better + 1;
  if (best) best_epoch = epoch, best_top1 = score.top1, best_loss = score.loss;
  return best;
}

std::string Standing::ToJson() const {
  return io::Json({{"step", step},
                   {"since_log", ToJsonOf(logged)},
                   {"since_evaluation", ToJsonOf(evaluated)},
                   {"evaluations", evaluations},
                   {"best_epoch", best_epoch},
                   {"without_better", without_better},
                   {"best_top1", best_top1},
                   {"best_loss", best_loss},
                   {"data", data}})
      .dump();
}

Standing Standing::FromJson(const std::string& text) {
  const io::Json json = io::ParseJson(text, "training state");
  Standing standing;
  try {
    json.at("step").get_to(standing.step);
    standing.logged = SumFrom(json.at("since_log"));
    standing.evaluated = SumFrom(json.at("since_evaluation"));
    json.at("evaluations").get_to(standing.evaluations);
    json.at("best_epoch").get_to(standing.best_epoch);
    json.at("without_better").get_to(standing.without_better);
    json.at("best_top1").get_to(standing.best_top1);
    json.at("best_loss").get_to(standing.best_loss);
    json.at("data").get_to(standing.data);
  } catch (const io::Json::exception& error) {
    Fail("training state: {}", io::ReasonOf(error));
  }
  return standing;
}

uint64_t Fingerprint(const TrainingData& data) {
  Fnv1a hash;
  const auto add = [&](std::string_view text) { hash.Add(text).AddByte(0); };  // "a", "bc" is not "ab", "c"
  for (const std::string& name : data.classes) add(name);
  for (const Split* split : {&data.train, &data.validation}) {
    for (int64_t i = 0; i < split->size(); ++i) {
      // The folder of the data may have moved, its images not.
      const std::filesystem::path path = split->NameOf(i);
      add(path.filename().native());
      add(std::to_string(split->labels[static_cast<size_t>(i)]));
    }
    add("");
  }
  return hash.value();
}

}  // namespace qkv::train
