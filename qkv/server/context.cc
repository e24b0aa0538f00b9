#include "qkv/server/context.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <type_traits>
#include <utility>

#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/explore/explorer.h"

namespace qkv::server {
namespace {

using Clock = std::chrono::steady_clock;

// Increments a counter for its lifetime.
class Counted {
 public:
  explicit Counted(std::atomic<int64_t>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int64_t>& count_;
};

ServerConfig WithMemory(ServerConfig config) {
  if (config.memory == 0) config.memory = MemoryLimit();
  return config;
}

}  // namespace

std::vector<std::string_view> RoutesOf(const app::ModelFacts& facts) {
  struct Use {
    std::string_view route;
    const Ability& ability;
  };
  static constexpr Use kUses[] = {{"/v1/classify", kClassify},      {"/v1/classify", kClassifyByPrompts},
                                  {"/v1/embeddings", kEmbedImages}, {"/v1/embeddings", kEmbedTexts},
                                  {"/v1/detect", kDetect},          {"/v1/segment", kSegment},
                                  {"/v1/attention", kAttendImage},  {"/v1/attention", kAttendText},
                                  {"/v1/generate", kContinueText},  {"/v1/completions", kContinueText},
                                  {"/v1/translate", kTranslate},    {"/v1/summarize", kSummarize}};
  std::vector<std::string_view> routes;
  for (const Use& use : kUses) {
    if (!use.ability.has(facts) || (!routes.empty() && routes.back() == use.route)) continue;
    routes.push_back(use.route);
  }
  return routes;
}

Context::Context(ServerConfig config, ModelEvent event)
    : config_(WithMemory(std::move(config))),
      models_(
          config_.models, config_.explorer ? explore::DefaultModels() : std::vector<ModelEntry>(),
          {.memory = config_.memory, .max_waiting = std::max(1, config_.most_active / 2)},
          [this, event = std::move(event)](const std::string& id, std::string_view what, const std::string& detail) {
            metrics_.CountModelEvent(id, what);
            event(id, what, detail);
          }),
      cores_(NumThreads()),
      engine_(
          [this] {
            EngineOptions options = config_.batching;
            options.more_may_come = [this] { return admitted > in_engine_; };
            return options;
          }(),
          [this](const BatchReport& report) {
            metrics_.CountBatch(report);
            statistics_.CountBatch(report);
          }) {}

std::shared_ptr<const LoadedModel> Context::ModelFor(Call& call, const std::string& id) {
  std::shared_ptr<const LoadedModel> model = models_.Get(id, call.cancelled);
  call.model = model->id();
  return model;
}

std::shared_ptr<const LoadedModel> Context::ModelFor(Call& call, const std::string& id, const Ability& ability,
                                                     std::string_view usual) {
  std::shared_ptr<const LoadedModel> model = ModelFor(call, id.empty() ? FindAble(ability, usual) : id);
  if (ability.has(model->facts())) return model;
  const std::string able = ListAble(ability);
  BadRequest(FormatShown("model {} cannot {}: expected {}; of this server's models {} can. {} has the routes {}",
                         model->id(), ability.what, ability.expected, able.empty() ? "none" : able, model->id(),
                         fmt::join(RoutesOf(model->facts()), ", ")));
}

// Decides by the models' files, without loading any.
std::string Context::FindAble(const Ability& ability, std::string_view usual) {
  std::string first;
  size_t unread = 0;
  std::exception_ptr failure;
  const auto all = models_.List();
  for (const ModelStatus& status : all) {
    try {
      if (!ability.has(*models_.Describe(status.entry.id))) continue;
    } catch (const Error&) {  // its files are gone; the log and /v1/models say which
      if (++unread == 1) failure = std::current_exception();
      continue;
    }
    if (usual.empty() || status.entry.id == usual) return status.entry.id;
    if (first.empty()) first = status.entry.id;
  }
  if (!first.empty()) return first;
  if (failure && unread == all.size()) std::rethrow_exception(failure);
  BadRequest(FormatShown("no model of this server can {}: expected {}; /v1/models tells what each can{}", ability.what,
                         ability.expected, unread > 0 ? fmt::format(", and {} cannot be read", unread) : ""));
}

std::string Context::ListAble(const Ability& ability) {
  std::string ids;
  for (const ModelStatus& status : models_.List()) {
    try {
      if (ability.has(*models_.Describe(status.entry.id))) ids += (ids.empty() ? "" : ", ") + status.entry.id;
    } catch (const Error&) {  // its files are gone
    }
  }
  return ids;
}

void Context::Compute(const std::shared_ptr<Task>& task, const Call& call) {
  const Counted counted(in_engine_);
  engine_.Compute(task, *call.turn, call.cancelled);
}

void Context::Compute(const TaskLabels& labels, const Call& call, const std::function<void()>& work,
                      TaskClass task_class) {
  const Counted counted(in_engine_);
  engine_.Compute(labels, work, task_class, *call.turn, call.cancelled);
}

std::function<bool()> Context::Steps() {
  return [this] {
    GiveWay();
    CheckCancelled();
    return false;
  };
}

void Context::ReserveUpTo(int64_t bytes, const Call& call, int64_t& reserved) {
  if (bytes <= reserved) return;
  call.memory->Reserve(bytes - reserved);
  reserved = bytes;
}

image::Image Context::Decode(const Call& call, std::span<const std::byte> bytes, std::string_view where) {
  if (bytes.empty()) BadRequest(where, "an image, got nothing");
  image::Image image;
  Prepare(call, [&] {
    const Clock::time_point start = Clock::now();
    image::DecodeOptions options;
    options.max_pixels = config_.most_pixels;
    int64_t reserved = 0;
    options.admit = [&](int64_t most) { ReserveUpTo(most, call, reserved); };
    image = AsBadRequest([&] { return image::Decode(bytes, options, where); });
    call.memory->Release(reserved - BytesOf(image));
    metrics_.CountDecoding(call.model, std::chrono::duration<double>(Clock::now() - start).count());
  });
  return image;
}

template <typename AnyImage>
Tensor<float> Context::PreparePixels(const Call& call, const model::Model& model, AnyImage&& image) {
  call.memory->Reserve(model.PixelsShape(image).size() * static_cast<int64_t>(sizeof(float)));
  // A copy with the model's channels, unless the image has more of them and they can be dropped in place.
  const int64_t channels = model.preprocess().channels;
  const bool copies = std::is_lvalue_reference_v<AnyImage> ? image.channels() != channels : image.channels() < channels;
  const int64_t copy = copies ? image.height() * image.width() * channels : 0;
  call.memory->Reserve(copy);
  Tensor<float> pixels;
  Prepare(call, [&] {
    const Clock::time_point start = Clock::now();
    pixels = model.Pixels(std::forward<AnyImage>(image));
    metrics_.CountPreparing(call.model, std::chrono::duration<double>(Clock::now() - start).count());
  });
  call.memory->Release(copy);
  return pixels;
}

Tensor<float> Context::Pixels(const Call& call, const model::Model& model, const image::Image& image) {
  return PreparePixels(call, model, image);
}

Tensor<float> Context::Pixels(const Call& call, const model::Model& model, image::Image&& image) {
  return PreparePixels(call, model, std::move(image));
}

Levels Context::levels() {
  Levels levels{.active = active, .waiting = engine_.WaitingByModel()};
  for (const ModelEntry& entry : models_.Entries()) levels.waiting.try_emplace(entry.id, 0);
  const Models::Usage usage = models_.usage();
  levels.models = usage.models, levels.model_bytes = usage.bytes;
  return levels;
}

int Context::RetryAfter() const { return static_cast<int>(std::ceil(std::clamp(engine_.ExpectedWait(), 1.0, 60.0))); }

}  // namespace qkv::server
