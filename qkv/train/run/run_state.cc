#include "qkv/train/run/run_state.h"

#include <cmath>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::train {
namespace {

// Far above any real run; sums and products of a few such numbers do not overflow.
constexpr int64_t kMostSteps = int64_t{1} << 50, kMostRows = int64_t{1} << 60;

// Loss of an evaluation that was not finite: any other is better.
constexpr double kNoLoss = std::numeric_limits<double>::infinity();

// JSON keeps every bit of a double, and has null for non-finite values.
io::Json LossSumToJson(const LossSum& sum) { return {sum.loss, sum.rows, sum.correct}; }

// Reads the state's values and checks their ranges.
class Reader {
 public:
  Reader(const io::Json& json, std::string_view where) : json_(json), where_(where) {}

  const io::Json& At(const char* name) const {
    const auto found = json_.find(name);
    Require(found != json_.end(), "{}: no \"{}\"", where_, name);
    return *found;
  }
  int64_t Count(const char* name, int64_t most) const { return Count(At(name), name, most); }
  double Number(const char* name, double low, double high) const { return Number(At(name), name, low, high); }
  uint64_t Fingerprint(const char* name) const {
    Require(At(name).is_number_unsigned(), "{}: \"{}\" is {}, expected a whole number", where_, name, At(name).dump());
    return At(name).get<uint64_t>();
  }
  bool Flag(const char* name) const {
    if (!json_.contains(name)) return false;  // absent in older states
    Require(At(name).is_boolean(), "{}: \"{}\" is {}, expected true or false", where_, name, At(name).dump());
    return At(name).get<bool>();
  }
  LossSum Sum(const char* name) const {
    const io::Json& sum = At(name);
    Require(sum.is_array() && sum.size() == 3, "{}: \"{}\" is {}, expected three numbers", where_, name, sum.dump());
    // Rounding may make a sum of losses near 0 negative.
    constexpr double kMost = std::numeric_limits<double>::max();
    LossSum read{Number(sum[0], name, -kMost, kMost), Count(sum[1], name, kMostRows), 0};
    read.correct = Count(sum[2], name, read.rows);
    return read;
  }

 private:
  int64_t Count(const io::Json& value, const char* name, int64_t most) const {
    // Negative values are not of the unsigned type; values above int64 exceed `most`.
    const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= static_cast<uint64_t>(most);
    Require(fits, "{}: \"{}\" is {}, expected a whole number from 0 to {}", where_, name, value.dump(), most);
    return value.get<int64_t>();
  }
  double Number(const io::Json& value, const char* name, double low, double high) const {
    const bool fits = value.is_number() && value.get<double>() >= low && value.get<double>() <= high;
    Require(fits, "{}: \"{}\" is {}, expected a number from {} to {}", where_, name, value.dump(), low, high);
    return value.get<double>();
  }

  const io::Json& json_;
  std::string_view where_;
};

}  // namespace

bool RunState::Rate(int64_t epoch, const Score& score) {
  const double loss = std::isfinite(score.loss) ? score.loss : kNoLoss;
  const bool more = !score.by_loss && score.top1 > best_top1, alike = score.by_loss || score.top1 == best_top1;
  const bool best = evaluations == 0 || more || (alike && loss < best_loss);
  ++evaluations;
  without_better = best ? 0 : without_better + 1;
  if (best) best_epoch = epoch, best_top1 = score.top1, best_loss = loss;
  return best;
}

std::string RunState::ToJson() const {
  return io::Json({{"step", step},
                   {"since_log", LossSumToJson(logged)},
                   {"since_evaluation", LossSumToJson(evaluated)},
                   {"evaluations", evaluations},
                   {"best_epoch", best_epoch},
                   {"without_better", without_better},
                   {"best_top1", best_top1},
                   {"best_loss", best_loss},
                   {"data", data},
                   {"evaluation_due", evaluation_due}})
      .dump();
}

RunState RunState::FromJson(std::string_view text, std::string_view where) {
  const io::Json json = io::ParseJson(text, where);
  Require(json.is_object(), "{}: expected a JSON object, got {}", where, json.type_name());
  const Reader read(json, where);
  RunState state;
  state.step = read.Count("step", kMostSteps);
  state.logged = read.Sum("since_log");
  state.evaluated = read.Sum("since_evaluation");
  state.evaluations = read.Count("evaluations", state.step);
  state.best_epoch = read.Count("best_epoch", state.step);
  state.without_better = read.Count("without_better", state.evaluations);
  state.best_top1 = read.Number("best_top1", 0, 1);
  constexpr double kMost = std::numeric_limits<double>::max();
  state.best_loss = read.At("best_loss").is_null() ? kNoLoss : read.Number("best_loss", -kMost, kMost);
  state.data = read.Fingerprint("data");
  state.evaluation_due = read.Flag("evaluation_due");
  return state;
}

}  // namespace qkv::train
