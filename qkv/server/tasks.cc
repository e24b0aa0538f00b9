#include "qkv/server/tasks.h"

#include <fmt/format.h>

#include <algorithm>

#include "qkv/app/texts/cross_rule.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/layout/limits.h"

namespace qkv::server {
namespace {

// Scratch memory up to this stays from pass to pass; what a rare large image took beyond is freed.
constexpr int64_t kMaxScratchBytes = int64_t{256} << 20;
// Limit of a short text: bytes of weights read, all of them for each token. About a second.
constexpr double kShortBytes = 2e10;

// Bytes of weights read while writing so many texts one after the other. A text has at most as many tokens as the
// decoder has positions.
double WritingBytes(const LoadedModel& model, const model::GenerationSettings& settings, int64_t texts) {
  const int64_t tokens = std::min(settings.max_tokens, model.language()->model().decoder().config().length);
  return static_cast<double>(tokens) * static_cast<double>(settings.beams) * static_cast<double>(texts) *
         static_cast<double>(model.bytes());
}

// All tasks of a batch have the class of the first, whose key they share.
template <typename T>
std::vector<T*> As(std::span<Task* const> batch) {
  std::vector<T*> tasks;
  for (Task* task : batch) tasks.push_back(static_cast<T*>(task));
  return tasks;
}

// Workspaces of the engine's threads, shared by all models.
std::vector<model::Workspace<float>>& Workspaces() {
  static std::vector<model::Workspace<float>> workspaces(static_cast<size_t>(NumThreads()));
  return workspaces;
}

struct Place {
  const Tensor<float>* pixels;
  Tensor<float>* result;
};

// Computes images of one size.
void PassOfPlaces(const model::Model& model, app::Wanted wanted, std::span<const Place> places) {
  const Shape& one = places[0].pixels->shape();
  const int64_t C = one[1], H = one[2], W = one[3], each = C * H * W;
  const int64_t threads = NumThreads(), count = std::ssize(places);
  const bool many = count >= app::kManyPerThread * threads;
  const int64_t rows = app::ImagesTogether(model, H, W);
  const int64_t together = many ? std::min(rows, (count + threads - 1) / threads) : std::max(threads, rows);
  std::vector<model::Workspace<float>>& workspaces = Workspaces();
  const auto some = [&](int64_t begin, int64_t end, int thread) {
    Tensor<float> pixels = Tensor<float>::Uninitialised({end - begin, C, H, W});
    for (int64_t i = begin; i < end; ++i) {
      std::copy_n(places[static_cast<size_t>(i)].pixels->data(), each, pixels.data() + (i - begin) * each);
    }
    Tensor<float> values;
    app::ComputePass(model, wanted, pixels, workspaces[static_cast<size_t>(thread)], values);
    for (int64_t i = begin; i < end; ++i) {
      const View<const float> row = values.view()[i - begin];
      Tensor<float> result(row.shape());
      std::copy_n(row.data(), row.size(), result.data());
      *places[static_cast<size_t>(i)].result = std::move(result);
    }
  };
  const int64_t pieces = (count + together - 1) / together;
  if (!many) {
    for (int64_t p = 0; p < pieces; ++p) some(p * together, std::min(count, (p + 1) * together), 0);
    return;
  }
  ParallelTasks(pieces,
                [&](int64_t p, int thread) { some(p * together, std::min(count, (p + 1) * together), thread); });
}

}  // namespace

int64_t ScratchBytes() {
  int64_t bytes = 0;
  for (const model::Workspace<float>& workspace : Workspaces()) bytes += workspace.bytes();
  return bytes;
}

void TrimScratch(int64_t most_bytes) {
  if (ScratchBytes() <= most_bytes) return;
  for (model::Workspace<float>& workspace : Workspaces()) workspace = {};
}

double PassOperations(const LoadedModel& model, const Shape& pixels) {
  return model::Cost(model.image()->config(), pixels[2], pixels[3]);
}

double TextOperations(const LoadedModel& model, int64_t tokens) {
  model::SequenceConfig config =
      model.texts() != nullptr ? model.towers()->text().config() : *model.facts().texts->encoder;
  config.length = tokens;
  return model::Cost(config);
}

PassTask::PassTask(std::shared_ptr<const LoadedModel> model, app::Wanted wanted, std::vector<Tensor<float>> pixels)
    : model_(std::move(model)), wanted_(wanted), pixels_(std::move(pixels)), results_(pixels_.size()) {
  for (const Tensor<float>& one : pixels_) operations_ += PassOperations(*model_, one.shape());
}

std::string PassTask::Key() const {
  return fmt::format("pass {} {}", fmt::ptr(model_.get()), static_cast<int>(wanted_));
}

void PassTask::Run(std::span<Task* const> batch) {
  std::vector<std::pair<Shape, std::vector<Place>>> sizes;
  for (PassTask* task : As<PassTask>(batch)) {
    for (size_t i = 0; i < task->pixels_.size(); ++i) {
      const Place place{&task->pixels_[i], &task->results_[i]};
      auto same = std::find_if(sizes.begin(), sizes.end(),
                               [&](const auto& size) { return size.first == place.pixels->shape(); });
      if (same == sizes.end()) same = sizes.insert(sizes.end(), {place.pixels->shape(), {}});
      same->second.push_back(place);
    }
  }
  for (const auto& [shape, places] : sizes) {
    PassOfPlaces(*model_->image(), wanted_, places);
    TrimScratch(kMaxScratchBytes);
  }
}

std::vector<Tensor<float>> PassTask::TakeResults() {
  for (size_t i = 0; i < results_.size(); ++i) {
    if (model::AllFinite(results_[i].data(), results_[i].size())) continue;
    throw model::AnswerError(fmt::format("image {}: the model's answer holds NaN or infinity", i + 1));
  }
  return std::move(results_);
}

EmbedTask::EmbedTask(std::shared_ptr<const LoadedModel> model, std::vector<app::TextIds> texts)
    : model_(std::move(model)), texts_(std::move(texts)) {}

std::string EmbedTask::Key() const { return fmt::format("embed {}", fmt::ptr(model_.get())); }

double EmbedTask::operations() const {
  double operations = 0;
  for (const app::TextIds& text : texts_) operations += TextOperations(*model_, std::ssize(text.ids));
  return operations;
}

void EmbedTask::Run(std::span<Task* const> batch) {
  std::vector<app::TextIds> texts;
  for (EmbedTask* task : As<EmbedTask>(batch)) texts.insert(texts.end(), task->texts_.begin(), task->texts_.end());
  const Tensor<float> all =
      model_->texts() != nullptr ? model_->texts()->Embed(texts) : model_->language()->Embed(texts);
  int64_t row = 0;
  for (EmbedTask* task : As<EmbedTask>(batch)) {
    task->vectors_ = Tensor<float>({task->size(), all.dim(1)});
    std::copy_n(all.view().row(row), task->vectors_.size(), task->vectors_.data());
    row += task->size();
  }
}

TaskClass WritingClass(const LoadedModel& model, const model::GenerationSettings& settings, int64_t texts) {
  return WritingBytes(model, settings, texts) <= kShortBytes ? TaskClass::kShort : TaskClass::kLong;
}

WriteTask::WriteTask(std::shared_ptr<const LoadedModel> model, std::vector<app::TextIds> texts,
                     app::WritingOptions options, std::function<void()> give_way)
    : model_(std::move(model)), texts_(std::move(texts)), options_(std::move(options)), give_way_(std::move(give_way)) {
  // A text has at most as many tokens as the decoder has positions.
  int64_t& most = options_.settings.max_tokens;
  most = std::min(most, model_->language()->model().decoder().config().length);
  // Without sampling a seed changes nothing, and must not keep texts apart.
  if (options_.settings.sampling.temperature == 0) options_.settings.sampling.seed = 0;
}

// Sampled texts have seeds by their places, so they are not mixed with others.
std::string WriteTask::Key() const {
  return options_.settings.sampling.temperature > 0 ? "" : fmt::format("write {}", fmt::ptr(model_.get()));
}

bool WriteTask::Joins(const Task& other) const {
  return options_.settings == static_cast<const WriteTask&>(other).options_.settings;
}

double WriteTask::operations() const { return WritingBytes(*model_, options_.settings, size()); }

TaskClass WriteTask::task_class() const {
  return WritingClass(*model_, options_.settings, (size() + options_.together - 1) / options_.together);
}

void WriteTask::Run(std::span<Task* const> batch) {
  const std::vector<WriteTask*> tasks = As<WriteTask>(batch);
  std::vector<app::TextIds> texts;
  for (WriteTask* task : tasks) texts.insert(texts.end(), task->texts_.begin(), task->texts_.end());
  app::WritingOptions options = options_;
  // All in one batch, so that the steps are on this thread, which may compute others' tasks.
  options.together = std::max(options.together, std::ssize(texts));
  options.stop = [&] {
    if (give_way_) give_way_();
    CheckCancelled();
    return false;
  };
  std::vector<app::Written> all = model_->language()->Write(texts, options);
  auto next = all.begin();
  for (WriteTask* task : tasks) {
    task->written_.assign(std::make_move_iterator(next), std::make_move_iterator(next + task->size()));
    next += task->size();
  }
}

}  // namespace qkv::server
