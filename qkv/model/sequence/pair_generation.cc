#include "qkv/model/sequence/pair_generation.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"

namespace qkv::model {
namespace {

struct PairLane {
  TextWorkspace workspace;
  std::unique_ptr<Decoder<float>> decoder;
};

}  // namespace

std::vector<Generated> GenerateFromSources(const TextModel& model, std::span<const std::vector<int32_t>> sources,
                                           int32_t start, const GenerationSettings& settings, int64_t together,
                                           const std::function<bool()>& stop,
                                           const std::function<void(int64_t)>& progress) {
  Require(model.has_encoder() && model.has_decoder(), "generate: {} is no encoder-decoder",
          model.description().architecture);
  const SequenceConfig &encoder = model.encoder().config(), &decoder = model.decoder().config();
  for (size_t i = 0; i < sources.size(); ++i) {
    const bool known = std::ranges::all_of(sources[i], [&](int32_t id) { return id >= 0 && id < encoder.vocabulary; });
    Require(!sources[i].empty() && std::ssize(sources[i]) <= encoder.length && known,
            "generate: source {} has {} ids, expected 1 to {}, each 0 to {}", i + 1, sources[i].size(), encoder.length,
            encoder.vocabulary - 1);
  }
  Require(together > 0, "generate: expected 1 source at least in a batch, got {}", together);
  Require(settings.seeds.empty() || settings.seeds.size() == sources.size(), "generate: {} seeds for {} sources",
          settings.seeds.size(), sources.size());
  std::vector<size_t> order(sources.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return sources[i].size(); });
  const int64_t length = std::min(decoder.length, settings.max_tokens + 1);
  const size_t most = std::min(static_cast<size_t>(together), std::max<size_t>(1, sources.size()));
  const size_t batches = (sources.size() + most - 1) / most;
  const size_t lanes = std::min(static_cast<size_t>(NumThreads()), std::max<size_t>(1, batches));
  const double cached = static_cast<double>(decoder.depth) * static_cast<double>(decoder.block.width) * 2 *
                        static_cast<double>(most) * static_cast<double>(settings.beams * length + encoder.length);
  RequireMemory(sizeof(float) * static_cast<double>(lanes) * cached, "generate: the keys and values of the texts");
  std::vector<PairLane> scratch(lanes);
  std::vector<Generated> results(sources.size());
  std::mutex mutex;
  int64_t done = 0;
  // The longest first: the last to end are short.
  ParallelTasks(static_cast<int64_t>(batches), [&](int64_t task, int thread) {
    if (stop && stop()) return;
    PairLane& lane = scratch[static_cast<size_t>(thread)];
    if (!lane.decoder) {
      lane.decoder =
          std::make_unique<Decoder<float>>(model.decoder(), static_cast<int64_t>(most) * settings.beams, length);
    }
    const size_t begin = (batches - 1 - static_cast<size_t>(task)) * most, end = std::min(begin + most, sources.size());
    const int64_t B = static_cast<int64_t>(end - begin), N = std::ssize(sources[order[end - 1]]);
    Tensor<int32_t> ids({B, N});
    Tensor<bool> mask({B, N});
    for (int64_t b = 0; b < B; ++b) {
      const std::vector<int32_t>& source = sources[order[begin + static_cast<size_t>(b)]];
      std::ranges::copy(source, ids.view().row(b));
      std::fill_n(mask.view().row(b), source.size(), true);
    }
    model.ReadSource({.ids = ids.view(), .mask = mask.view(), .cross = &settings.cross}, lane.workspace);
    const std::vector<std::vector<int32_t>> prompts(static_cast<size_t>(B), {start});
    GenerationSettings own = settings;
    own.seeds.clear();
    for (size_t i = begin; i < end; ++i) {
      own.seeds.push_back(settings.seeds.empty() ? settings.sampling.seed + order[i] : settings.seeds[order[i]]);
    }
    std::vector<Generated> texts = Generate(*lane.decoder, prompts, &lane.workspace.source, own, {}, stop);
    for (size_t b = 0; b < texts.size(); ++b) results[order[begin + b]] = std::move(texts[b]);
    if (!progress) return;
    const std::lock_guard lock(mutex);
    progress(done += B);
  });
  return results;
}

}  // namespace qkv::model
