#include "qkv/server/models.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "qkv/app/open/shipped.h"
#include "qkv/core/memory.h"
#include "qkv/server/engine.h"

namespace qkv::server {
namespace {

constexpr std::chrono::seconds kRetry{5};        // after a failure, before a request tries again
constexpr std::chrono::seconds kLookAtFiles{2};  // between two looks at a model's files
// Interval at which waiting requests check whether their client has left, and whether an unloaded model is in use.
constexpr std::chrono::milliseconds kLookAtWaiting{50};
constexpr std::chrono::seconds kWaitForRoom{60};

HttpError Unavailable(const std::string& id, const std::string& why) {
  return {503, "model_error", fmt::format("model {}: {}", id, why)};
}

std::string InWords(int64_t bytes) { return FormatBytes(static_cast<double>(bytes)); }

// The message for clients about a failure. An HttpError is written for them; other errors name the machine's folders
// and files, which only the log shows.
std::string ToldOf(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  if (dynamic_cast<const HttpError*>(&error) != nullptr) return error.what();
  return "it cannot be loaded; the server's log says why";
}

// True for the same model that comes with qkv, read with the same settings.
bool IsSameShipped(const ModelEntry& a, const ModelEntry& b) {
  const std::string_view name = app::ShippedNameOf(a.path);
  return !name.empty() && name == app::ShippedNameOf(b.path) && a.build == b.build && a.size == b.size &&
         a.labels == b.labels;
}

template <typename... Args>
void RequireRoom(bool fits, fmt::format_string<Args...> message, Args&&... args) {
  if (!fits) throw HttpError(503, "model_error", fmt::format(message, std::forward<Args>(args)...));
}

}  // namespace

Models::Models(std::vector<ModelEntry> entries, std::vector<ModelEntry> unlisted, const ModelsOptions& options,
               ModelEvent event)
    : options_(options), event_(std::move(event)), unlisted_(std::move(unlisted)) {
  Replace(std::move(entries));
}

Models::~Models() {
  {
    const Lock lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (Loader& loader : loaders_) loader.thread.join();
}

void Models::Tell(const Events& events) const {
  for (const Event& event : events) event_(event.id, event.event, event.detail);
}

std::shared_ptr<Models::Slot> Models::Find(const std::string& id, bool listed_only) const {
  std::string known;
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (listed_only && !slot->listed) continue;
    if (id.empty() || slot->entry.id == id) return slot;
    known += (known.empty() ? "" : ", ") + slot->entry.id;
  }
  throw HttpError(404, "not_found_error",
                  FormatShown("there is no model {}; there {}", id, known.empty() ? "are none" : "is " + known));
}

std::shared_ptr<const LoadedModel> Models::Get(const std::string& id, const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  return GetFrom(Find(id, /*listed_only=*/true), lock, cancelled);
}

std::shared_ptr<const LoadedModel> Models::Load(const std::string& id, const std::function<bool()>& cancelled) {
  Lock lock(mutex_);
  return GetFrom(Find(id, /*listed_only=*/false), lock, cancelled);
}

std::shared_ptr<const LoadedModel> Models::GetFrom(const std::shared_ptr<Slot>& slot, Lock& lock,
                                                   const std::function<bool()>& cancelled) {
  slot->used = Clock::now();
  if (slot->model) {
    const std::shared_ptr<const LoadedModel> model = slot->model;
    const bool look = !slot->attempt && slot->used - slot->looked >= kLookAtFiles;
    if (look) slot->looked = slot->used;
    lock.unlock();
    if (look) LookForChanges(slot, *model);
    return model;
  }
  if (!slot->attempt) {
    if (!slot->error.empty() && slot->used - slot->failed < kRetry) throw Unavailable(slot->entry.id, slot->error);
    StartLoad(slot);
  }
  return Wait(*slot, lock, cancelled);
}

std::shared_ptr<const LoadedModel> Models::Wait(const Slot& slot, Lock& lock, const std::function<bool()>& cancelled) {
  const std::shared_ptr<Attempt> attempt = slot.attempt;
  if (waiting_ >= options_.max_waiting) {
    throw HttpError(
        429, "rate_limit_error",
        fmt::format("model {} is being loaded, and as many requests wait for models as may; try again", slot.entry.id));
  }
  ++waiting_;
  while (!attempt->done && !stopped_) {
    changed_.wait_for(lock, kLookAtWaiting);
    if (cancelled && cancelled()) break;
  }
  --waiting_;
  if (!attempt->done) throw Cancelled();
  if (!attempt->model) throw Unavailable(slot.entry.id, attempt->error);
  return attempt->model;
}

// Reads the folder without the lock: it may be slow.
void Models::LookForChanges(const std::shared_ptr<Slot>& slot, const LoadedModel& model) {
  if (!model.IsOutdated()) return;
  const Lock lock(mutex_);
  if (slot->model.get() == &model && !slot->attempt) StartLoad(slot);
}

// Loads on a thread of its own, while requests use the old model. The caller holds mutex_.
void Models::StartLoad(const std::shared_ptr<Slot>& slot) {
  std::erase_if(loaders_, [](Loader& loader) {
    if (!*loader.done) return false;
    loader.thread.join();
    return true;
  });
  const auto attempt = std::make_shared<Attempt>();
  const auto done = std::make_shared<std::atomic<bool>>(false);
  loaders_.reserve(loaders_.size() + 1), loading_.reserve(loading_.size() + 1);
  std::thread thread([this, slot, done] {
    RunLoad(slot);
    *done = true;
  });
  loaders_.push_back({std::move(thread), done});
  slot->attempt = attempt;
  slot->unloaded = false;
  loading_.push_back(slot);
}

void Models::RunLoad(const std::shared_ptr<Slot>& slot) {
  Events events;
  std::shared_ptr<const LoadedModel> model;
  std::string error, detail;
  try {
    model = LoadWithin(slot, events);
  } catch (const std::exception& caught) {
    error = ToldOf(caught), detail = caught.what();
    events.push_back({slot->entry.id, "failed", detail});
  }
  Tell(events);
  Dropped dropped;
  {
    const Lock lock(mutex_);
    const Clock::time_point now = Clock::now();
    if (model) {
      slot->error.clear(), slot->reload_error.clear(), slot->detail.clear();
      slot->was_loaded = true;
      slot->looked = now;
    } else {
      (slot->model ? slot->reload_error : slot->error) = error;
      slot->detail = std::move(detail);
      slot->failed = now;
      slot->looked = now + kRetry - kLookAtFiles;
    }
    slot->reserved = 0;
    slot->attempt->model = std::move(model), slot->attempt->error = std::move(error), slot->attempt->done = true;
    slot->attempt.reset();
    std::erase(loading_, slot);
    // It has left the list meanwhile: only the waiting requests will use it.
    if (std::find(slots_.begin(), slots_.end(), slot) == slots_.end()) DropModel(*slot, dropped);
  }
  dropped.clear();
  changed_.notify_all();
}

// Reserves the model's bytes first, so that several loads at a time stay within the budget together.
std::shared_ptr<const LoadedModel> Models::LoadWithin(const std::shared_ptr<Slot>& slot, Events& events) {
  const int64_t expected = app::DescribeModel(slot->entry).expected_bytes;
  {
    Lock lock(mutex_);
    Reserve(*slot, expected, lock, events);
  }
  const Clock::time_point start = Clock::now();
  std::string notes;
  auto model = std::make_shared<const LoadedModel>(
      slot->entry, [&](const std::string& note) { notes += (notes.empty() ? "" : "; ") + note; });
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  Dropped dropped;
  Lock lock(mutex_);
  if (model->bytes() > slot->reserved) Reserve(*slot, model->bytes(), lock, events);
  const bool again = slot->model != nullptr;
  DropModel(*slot, dropped);
  slot->model = model;
  slot->reserved = 0;
  slot->facts.reset();
  slot->used = Clock::now();
  events.push_back(
      {slot->entry.id, again ? "reloaded" : "loaded",
       fmt::format("{} in {:.2f} s{}{}", InWords(model->bytes()), seconds, notes.empty() ? "" : "; ", notes)});
  return model;
}

// Drops what was used least recently until the slot may take `bytes` for a load: the explorer's memory, models, at last
// the slot's own old model. Waits for other loads and for models that are unloaded but in use. The caller holds the
// lock.
void Models::Reserve(Slot& slot, int64_t bytes, Lock& lock, Events& events) {
  RequireRoom(bytes <= options_.memory,
              "it takes {}, and the models' memory is {}: give the server more (memory), or int8", InWords(bytes),
              InWords(options_.memory));
  const Clock::time_point until = Clock::now() + kWaitForRoom;
  slot.reserved = 0;
  while (BytesBeside(slot) + bytes > options_.memory) {
    Dropped dropped;
    if (DropOldest(slot, /*own_model=*/true, events, dropped)) {
      lock.unlock();
      dropped.clear();
      lock.lock();
      continue;
    }
    const bool others_load = std::any_of(loading_.begin(), loading_.end(), [&](const auto& other) {
      return other.get() != &slot && other->reserved > 0;
    });
    RequireRoom(!departed_.empty() || others_load,
                "it takes {} beside the models that stay loaded, and the models' memory is {}", InWords(bytes),
                InWords(options_.memory));
    RequireRoom(!stopped_ && Clock::now() < until, "it takes {}, and models that are in use take the memory of {}",
                InWords(bytes), InWords(options_.memory));
    changed_.wait_for(lock, kLookAtWaiting);
  }
  slot.reserved = bytes;
}

// Bytes in use or reserved, except the slot's own reservation. The caller holds the lock.
int64_t Models::BytesBeside(const Slot& slot) {
  int64_t bytes = BytesInUse();
  for (const std::shared_ptr<Slot>& other : loading_) bytes += other.get() == &slot ? 0 : other->reserved;
  return bytes;
}

// Without reservations. The caller holds the lock.
int64_t Models::BytesInUse() {
  std::erase_if(departed_, [](const Departed& gone) { return gone.object.expired(); });
  int64_t bytes = 0;
  for (const Departed& gone : departed_) bytes += gone.bytes;
  for (const std::shared_ptr<Slot>& other : slots_) {
    bytes += (other->model ? other->model->bytes() : 0) + other->derived_bytes;
  }
  return bytes;
}

// Drops one thing; the slot's own only with `own_model`. False if there is none. The caller holds the lock.
bool Models::DropOldest(const Slot& slot, bool own_model, Events& events, Dropped& dropped) {
  Slot *derived = nullptr, *model = nullptr, *own = nullptr;
  for (const std::shared_ptr<Slot>& other : slots_) {
    const auto older = [&](const Slot* oldest) { return oldest == nullptr || other->used < oldest->used; };
    if (other.get() == &slot) {
      own = other.get();
      continue;
    }
    if (other->derived && older(derived)) derived = other.get();
    if (other->model && !other->entry.at_start && older(model)) model = other.get();
  }
  if (derived != nullptr) {
    DropDerived(*derived, dropped);
    return true;
  }
  if (model == nullptr && own_model && own != nullptr && own->model) model = own;
  if (model == nullptr) return false;
  DropModel(*model, dropped);
  events.push_back({model->entry.id, "unloaded", "to make room for " + slot.entry.id});
  return true;
}

// A model that requests still use is counted until they end. The caller holds the lock.
void Models::DropModel(Slot& slot, Dropped& dropped) {
  DropDerived(slot, dropped);
  if (!slot.model) return;
  departed_.push_back({slot.model, slot.model->bytes()});
  dropped.push_back(std::exchange(slot.model, nullptr));
}

void Models::DropDerived(Slot& slot, Dropped& dropped) {
  if (!slot.derived) return;
  departed_.push_back({slot.derived, slot.derived_bytes});
  dropped.push_back(std::exchange(slot.derived, nullptr));
  slot.derived_bytes = 0;
}

void Models::LoadAtStart() {
  for (const ModelStatus& status : List()) {
    if (!status.entry.at_start) continue;
    try {
      Get(status.entry.id);
    } catch (const HttpError&) {
      const Lock lock(mutex_);
      const std::string detail = Find(status.entry.id, /*listed_only=*/true)->detail;
      if (detail.empty()) throw;
      throw Error(fmt::format("model {}: {}", status.entry.id, detail));
    }
  }
}

void Models::FindUnfit() {
  int64_t kept = 0;
  const std::vector<ModelStatus> list = List();
  for (const ModelStatus& status : list) kept += status.entry.at_start ? status.bytes : 0;
  Events events;
  for (const ModelStatus& status : list) {
    if (status.entry.at_start) continue;
    try {
      const int64_t bytes = Describe(status.entry.id)->expected_bytes;
      if (bytes <= options_.memory - kept) continue;
      events.push_back(
          {status.entry.id, "unfit",
           fmt::format("it takes {}, and beside those of the start {} of the models' memory of {} are left",
                       InWords(bytes), InWords(options_.memory - kept), InWords(options_.memory))});
    } catch (const Error&) {  // reported by Describe
    }
  }
  Tell(events);
}

bool Models::IsReady() {
  const Lock lock(mutex_);
  bool ready = true;
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (!slot->entry.at_start || slot->was_loaded) continue;
    ready = false;
    if (!slot->attempt && Clock::now() - slot->failed >= kRetry) StartLoad(slot);
  }
  return ready;
}

ModelStatus Models::StatusOf(const Slot& slot) {
  ModelStatus status{.entry = slot.entry};
  status.loaded = slot.model != nullptr;
  status.bytes = slot.model ? slot.model->bytes() + slot.derived_bytes : 0;
  status.error = slot.error, status.reload_error = slot.reload_error;
  status.unloaded = slot.unloaded && !slot.model;
  status.model = slot.model;
  return status;
}

std::vector<ModelStatus> Models::List() const {
  const Lock lock(mutex_);
  std::vector<ModelStatus> list;
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (slot->listed) list.push_back(StatusOf(*slot));
  }
  return list;
}

ModelStatus Models::Status(const std::string& id) const {
  const Lock lock(mutex_);
  return StatusOf(*Find(id, /*listed_only=*/true));
}

Models::Usage Models::usage() {
  const Lock lock(mutex_);
  Usage usage;
  for (const std::shared_ptr<Slot>& slot : slots_) usage.models += slot->model != nullptr;
  usage.bytes = BytesInUse();
  return usage;
}

void Models::Replace(std::vector<ModelEntry> entries) {
  RequireModels(entries);
  const size_t listed = entries.size();
  for (const ModelEntry& entry : unlisted_) {
    const bool taken = std::any_of(entries.begin(), entries.end(),
                                   [&](const ModelEntry& e) { return e.id == entry.id || IsSameShipped(e, entry); });
    if (!taken) entries.push_back(entry);
  }
  Dropped dropped;
  const Lock lock(mutex_);
  std::vector<std::shared_ptr<Slot>> slots;
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto same = std::find_if(slots_.begin(), slots_.end(), [&](const std::shared_ptr<Slot>& slot) {
      return slot->entry == entries[i] && slot->listed == (i < listed);
    });
    slots.push_back(same != slots_.end() ? *same : std::make_shared<Slot>(std::move(entries[i]), i < listed));
  }
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (std::find(slots.begin(), slots.end(), slot) == slots.end()) DropModel(*slot, dropped);
  }
  const bool first = slots_.empty();
  slots_ = std::move(slots);
  if (first) return;  // LoadAtStart reports failures
  for (const std::shared_ptr<Slot>& slot : slots_) {
    if (slot->entry.at_start && !slot->model && !slot->attempt) StartLoad(slot);
  }
}

void Models::Unload(const std::string& id) {
  Dropped dropped;
  {
    const Lock lock(mutex_);
    Slot& slot = *Find(id, /*listed_only=*/true);
    if (slot.entry.at_start) {
      throw HttpError(400, "invalid_request_error",
                      "model " + slot.entry.id + " stays loaded: its owner has set at_start");
    }
    slot.unloaded = true;
    if (!slot.model) return;
    DropModel(slot, dropped);
  }
  Tell({{id, "unloaded", "as a request asked"}});
}

std::vector<ModelEntry> Models::Entries() const {
  const Lock lock(mutex_);
  std::vector<ModelEntry> entries;
  for (const std::shared_ptr<Slot>& slot : slots_) entries.push_back(slot->entry);
  return entries;
}

std::shared_ptr<const ModelFacts> Models::Describe(const std::string& id) {
  std::shared_ptr<Slot> slot;
  {
    const Lock lock(mutex_);
    slot = Find(id, /*listed_only=*/false);
    if (slot->model) return {slot->model, &slot->model->facts()};
  }
  try {
    app::FileStamps stamps = app::StampFiles(slot->entry);
    {
      const Lock lock(mutex_);
      if (slot->facts && slot->facts_stamps == stamps) return slot->facts;
    }
    auto facts = std::make_shared<const ModelFacts>(app::DescribeModel(slot->entry));
    const Lock lock(mutex_);
    slot->facts = facts, slot->facts_stamps = std::move(stamps);
    return facts;
  } catch (const Error& error) {
    bool is_new = false;
    {
      const Lock lock(mutex_);
      is_new = slot->detail != error.what();  // it is asked for often
      slot->detail = error.what();
    }
    if (is_new) Tell({{slot->entry.id, "failed", error.what()}});
    throw Unavailable(slot->entry.id, ToldOf(error));
  }
}

void Models::Keep(const LoadedModel& model, std::shared_ptr<void> derived, int64_t bytes) {
  Events events;
  bool fits = true;
  Dropped dropped;
  {
    Lock lock(mutex_);
    const auto found = std::find_if(slots_.begin(), slots_.end(),
                                    [&](const std::shared_ptr<Slot>& slot) { return slot->model.get() == &model; });
    if (found == slots_.end()) {  // it was unloaded meanwhile
      if (derived) departed_.push_back({derived, bytes});
      return;
    }
    const std::shared_ptr<Slot> slot = *found;
    if (slot->derived != derived) DropDerived(*slot, dropped);
    const Departed kept{derived, bytes};
    const void* const object = derived.get();
    slot->derived = std::move(derived);
    slot->derived_bytes = 0;
    while (fits && bytes > 0 && BytesBeside(*slot) + slot->reserved + bytes > options_.memory) {
      fits = DropOldest(*slot, /*own_model=*/false, events, dropped);
      lock.unlock();
      dropped.clear();
      lock.lock();
    }
    if (slot->derived.get() != object) {  // it was unloaded meanwhile
      departed_.push_back(kept);
    } else if (fits) {
      slot->derived_bytes = bytes;
    } else {
      DropDerived(*slot, dropped);
    }
  }
  Tell(events);
  if (!fits) {
    throw Unavailable(model.id(), fmt::format("the explorer takes {} beside it, and the models' memory is {}",
                                              InWords(bytes), InWords(options_.memory)));
  }
}

}  // namespace qkv::server
