#include "qkv/server/models.h"

#include <fmt/format.h>

#include <algorithm>

#include "qkv/core/memory.h"

namespace qkv::server {
namespace {

constexpr std::chrono::seconds kRetry{5};        // after a failure, before a request tries again
constexpr std::chrono::seconds kLookAtFiles{2};  // between two looks at a model's files

HttpError Unavailable(const std::string& id, const std::string& why) {
  return {503, "model_error", fmt::format("model {}: {}", id, why)};
}

}  // namespace

Models::Models(std::vector<ModelEntry> entries, int64_t memory, ModelEvent event)
    : memory_(memory), event_(std::move(event)) {
  RequireModels(entries);
  for (ModelEntry& entry : entries) slots_.push_back(std::make_shared<Slot>(std::move(entry)));
}

Models::~Models() {
  for (Reload& reload : reloads_) reload.thread.join();
}

std::shared_ptr<Models::Slot> Models::Find(const std::string& id) const {
  if (id.empty() && !slots_.empty()) return slots_.front();
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (slot->entry.id == id) return slot;
  }
  std::string known;
  for (const std::shared_ptr<Slot>& slot : slots_) known += (known.empty() ? "" : ", ") + slot->entry.id;
  throw HttpError(404, "not_found_error",
                  FormatShown("there is no model {}; there {}", id, known.empty() ? "are none" : "is " + known));
}

std::shared_ptr<const LoadedModel> Models::Get(const std::string& id) {
  std::shared_ptr<Slot> slot;
  {
    const std::lock_guard lock(mutex_);
    slot = Find(id);
    slot->used = Clock::now();
    if (slot->model) {
      LookForChanges(slot);
      return slot->model;
    }
  }
  const std::lock_guard loading(slot->loading);
  {
    const std::lock_guard lock(mutex_);
    if (slot->model) return slot->model;
    if (!slot->error.empty() && Clock::now() - slot->failed < kRetry) throw Unavailable(slot->entry.id, slot->error);
  }
  return Load(*slot);
}

// The caller holds slot.loading.
std::shared_ptr<const LoadedModel> Models::Load(Slot& slot) {
  const bool again = [&] {
    const std::lock_guard lock(mutex_);
    return slot.model != nullptr;
  }();
  try {
    if (!again) {
      const int64_t expected = StoredBytes(slot.entry);
      const std::lock_guard lock(mutex_);
      MakeRoom(slot, expected);
    }
    const Clock::time_point start = Clock::now();
    std::string notes;
    auto model = std::make_shared<const LoadedModel>(
        slot.entry, [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; });
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    const std::lock_guard lock(mutex_);
    MakeRoom(slot, model->bytes());
    slot.model = model;
    slot.error.clear();
    slot.used = slot.looked = Clock::now();
    event_(slot.entry.id, again ? "reloaded" : "loaded",
           fmt::format("{} in {:.2f} s{}{}", FormatBytes(static_cast<double>(model->bytes())), seconds,
                       notes.empty() ? "" : "; ", notes));
    return model;
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    const std::string why = dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
    if (!again) slot.error = why;
    slot.failed = Clock::now();
    event_(slot.entry.id, "failed", why);
    throw Unavailable(slot.entry.id, why);
  }
}

// Unloads the models that were used least recently until `bytes` fit. The caller holds mutex_.
void Models::MakeRoom(const Slot& slot, int64_t bytes) {
  Require(bytes <= memory_, "it takes {}, and the models' memory is {}: give the server more (memory), or int8",
          FormatBytes(static_cast<double>(bytes)), FormatBytes(static_cast<double>(memory_)));
  for (;;) {
    int64_t total = bytes;
    Slot* oldest = nullptr;
    for (const std::shared_ptr<Slot>& other : slots_) {
      if (other.get() == &slot || !other->model) continue;
      total += other->model->bytes();
      if (!other->entry.at_start && (oldest == nullptr || other->used < oldest->used)) oldest = other.get();
    }
    if (total <= memory_) return;
    Require(oldest != nullptr, "it takes {} beside the models that stay loaded, and the models' memory is {}",
            FormatBytes(static_cast<double>(bytes)), FormatBytes(static_cast<double>(memory_)));
    oldest->model.reset();
    event_(oldest->entry.id, "unloaded", "to make room for " + slot.entry.id);
  }
}

// Loads a model again beside the requests that use it. The caller holds mutex_.
void Models::LookForChanges(const std::shared_ptr<Slot>& slot) {
  if (slot->reloading || Clock::now() - slot->looked < kLookAtFiles) return;
  slot->looked = Clock::now();
  if (!slot->model->IsOutdated()) return;
  LoadBeside(slot);
}

// On a thread of its own. The caller holds mutex_.
void Models::LoadBeside(const std::shared_ptr<Slot>& slot) {
  std::erase_if(reloads_, [](Reload& reload) {
    if (!*reload.done) return false;
    reload.thread.join();
    return true;
  });
  slot->reloading = true;
  const auto done = std::make_shared<std::atomic<bool>>(false);
  reloads_.push_back({std::thread([this, slot, done] {
                        bool failed = false;
                        try {
                          const std::lock_guard loading(slot->loading);
                          Load(*slot);
                        } catch (const Error&) {  // told by the event: an old one goes on
                          failed = true;
                        }
                        {
                          const std::lock_guard lock(mutex_);
                          slot->reloading = false;
                          slot->looked = Clock::now() + (failed ? kRetry : std::chrono::seconds(0));
                        }
                        *done = true;
                      }),
                      done});
}

void Models::LoadAtStart() {
  for (const ModelStatus& status : List()) {
    if (status.entry.at_start) Get(status.entry.id);
  }
}

bool Models::ready() const {
  const std::lock_guard lock(mutex_);
  return std::all_of(slots_.begin(), slots_.end(),
                     [](const std::shared_ptr<Slot>& slot) { return !slot->entry.at_start || slot->model; });
}

std::vector<ModelStatus> Models::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<ModelStatus> list;
  for (const std::shared_ptr<Slot>& slot : slots_) {
    list.push_back(
        {slot->entry, slot->model != nullptr, slot->model ? slot->model->bytes() : 0, slot->error, slot->model});
  }
  return list;
}

ModelStatus Models::Status(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Slot> slot = Find(id);
  return {slot->entry, slot->model != nullptr, slot->model ? slot->model->bytes() : 0, slot->error, slot->model};
}

void Models::Replace(std::vector<ModelEntry> entries) {
  RequireModels(entries);
  const std::lock_guard lock(mutex_);
  std::vector<std::shared_ptr<Slot>> slots;
  for (ModelEntry& entry : entries) {
    const auto same = std::find_if(slots_.begin(), slots_.end(),
                                   [&](const std::shared_ptr<Slot>& slot) { return slot->entry == entry; });
    slots.push_back(same != slots_.end() ? *same : std::make_shared<Slot>(std::move(entry)));
  }
  slots_ = std::move(slots);
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (slot->entry.at_start && !slot->model && !slot->reloading) LoadBeside(slot);
  }
}

void Models::Unload(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const std::shared_ptr<Slot> slot = Find(id);
  if (slot->entry.at_start) {
    throw HttpError(400, "invalid_request_error",
                    "model " + slot->entry.id + " is to stay loaded, as its owner has it");
  }
  if (!slot->model) return;
  slot->model.reset();
  event_(slot->entry.id, "unloaded", "as asked");
}

}  // namespace qkv::server
