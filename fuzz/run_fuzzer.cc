// Any bytes as each of the files of a training run, and of the cache of its images: read, or refused with an Error.
// What is read stands in the ranges that the rest of the program counts on, and is written as it was read.
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/lab/ablation_results.h"
#include "qkv/train/data/image_cache.h"
#include "qkv/train/run/config.h"
#include "qkv/train/run/log.h"
#include "qkv/train/run/run_state.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

template <typename F>
void Try(F&& f) {
  try {
    f();
  } catch (const qkv::Error&) {
  }
}

bool IsCount(int64_t value) { return value >= 0 && value <= int64_t{1} << 60; }

void ReadState(std::string_view text) {
  using qkv::train::RunState;
  const RunState state = RunState::FromJson(text, "fuzz");
  for (const int64_t count : {state.step, state.evaluations, state.best_epoch, state.without_better, state.logged.rows,
                              state.logged.correct, state.evaluated.rows, state.evaluated.correct}) {
    Check(IsCount(count));
  }
  Check(state.evaluations <= state.step && state.best_top1 >= 0 && state.best_top1 <= 1);
  Check(RunState::FromJson(state.ToJson(), "again").ToJson() == state.ToJson());
}

void ReadConfig(std::string_view text) {
  using namespace qkv::train;
  Try([&] { ParseRunSettings(text, "fuzz"); });
  const TrainConfig config = Resolve(ParseSettings(text, "fuzz"));
  Check(config.batch >= 1 && config.accumulate >= 1 && config.epochs >= 1 && config.steps >= 0 && config.lr > 0);
  Check(ToYaml(Resolve(ParseRunSettings(ToYaml(config), "again"))) == ToYaml(config));
}

void ReadLines(std::string_view text) {
  for (const qkv::io::Json& line : qkv::train::ParseLog(text, "fuzz")) {
    Check(line.at("step").get<int64_t>() >= 0 && line.value("event", "").size() < text.size());
  }
}

void ReadImages(std::span<const std::byte> bytes) {
  using namespace qkv::train;
  constexpr uint64_t kKey = 0x6161616161616161;  // which a fuzzer finds
  for (size_t files = 1; files <= 3; ++files) {
    const std::optional<ImageIndex> index = ParseImages(bytes, {.key = kKey, .files = files, .channels = 1});
    if (!index) continue;
    Check(index->records.size() == files);
    for (const ImageRecord& record : index->records) {
      const auto pixels = static_cast<uint64_t>(record.height * record.width);
      Check(record.height == 0 || (record.offset <= bytes.size() && pixels <= bytes.size() - record.offset));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Try([&] { ReadState(text); });
  Try([&] { ReadConfig(text); });
  Try([&] { ReadLines(text); });
  Try([&] {
    const auto run = qkv::lab::RunResult::FromJson(text, "fuzz");
    Check(IsCount(run.seed) && IsCount(run.steps) && IsCount(run.parameters));
    Check(qkv::lab::RunResult::FromJson(run.ToJson(), "again").ToJson() == run.ToJson());
  });
  Try([&] {
    const auto results = qkv::lab::AblationResults::FromJson(text, "fuzz");
    Check(qkv::lab::AblationResults::FromJson(results.ToJson(), "again").ToJson() == results.ToJson());
  });
  ReadImages(std::as_bytes(std::span(data, size)));
  return 0;
}
