#include "qkv/train/data/loader.h"

#include <algorithm>
#include <bit>

#include "qkv/core/await.h"
#include "qkv/core/error.h"
#include "qkv/core/rng.h"

namespace qkv::train {
namespace {

// Images that a thread makes at a time: enough that claiming a piece is cheap, few enough that all threads share the
// batch that the caller waits for. Even, so that mixing pairs lie in one piece.
constexpr int64_t kPiece = 16;

// Purposes of an epoch's random numbers.
enum class Use : uint64_t { kOrder, kAugment, kMix };

uint64_t EpochSeed(uint64_t seed, Use use, int64_t epoch) {
  return MixSeed(MixSeed(seed, static_cast<uint64_t>(use)), static_cast<uint64_t>(epoch));
}

}  // namespace

int64_t ShuffledIndex(uint64_t key, int64_t n, int64_t i) {
  Require(i >= 0 && i < n, "shuffled: place {} of {}", i, n);
  constexpr uint64_t kRounds = 8;
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(n - 1)));
  const int half = std::max(1, (bits + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  auto value = static_cast<uint64_t>(i);
  do {  // cycle walking: a permutation of 4^half elements that starts below n returns below n
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      const uint64_t mixed = left ^ (MixSeed(key + round, right) & mask);
      left = right;
      right = mixed;
    }
    value = left << half | right;
  } while (value >= static_cast<uint64_t>(n));
  return static_cast<int64_t>(value);
}

// A batch in progress.
struct Loader::Slot {
  Tensor<float> pixels;
  std::vector<int64_t> labels;
  Tensor<float> targets;
  LoadedBatch batch;
  int64_t made = 0;  // pieces
  std::exception_ptr failure;
};

// Scratch memory of one thread.
struct Loader::Lane {
  AugmentWorkspace workspace;
  image::Image image;
};

Loader::Loader(const ImageStore& images, LoaderOptions options) : images_(images), options_(std::move(options)) {
  const LoaderOptions& o = options_;
  const image::Preprocess& p = o.preprocess;
  Require(o.batch >= 1 && o.threads >= 1 && o.ahead >= 0, "loader: a batch of {}, {} threads, {} ahead", o.batch,
          o.threads, o.ahead);
  Require(o.shards >= 1 && o.shard >= 0 && o.shard < o.shards && o.batch % o.shards == 0,
          "loader: part {} of {} of a batch of {} images", o.shard, o.shards, o.batch);
  Require(o.first_step >= 0, "loader: step {}", o.first_step);
  const std::optional<Shape> shape = image::FixedShape(p);
  Require(shape.has_value() && p.channels == images.channels(), "loader: images of {} channels {}, expected {}",
          p.channels, shape ? "and one size" : "and differing sizes", images.channels());
  image_shape_ = *shape;
  if (o.augmentation) Check(*o.augmentation);
  Require(images.prepared() || (o.augmentation && o.augmentation->crop == Augmentation::Crop::kResized),
          "loader: the images differ in size, and nothing resizes them");
  mixes_ = o.augmentation && o.augmentation->mixes();
  Require(!mixes_ || (o.classes > 0 && o.batch % (2 * o.shards) == 0),
          "loader: pairs are mixed: expected a batch that is a multiple of {}, got {}", 2 * o.shards, o.batch);
  normalise_ = p;
  normalise_.resize = image::Preprocess::Resize::kNone;
  normalise_.crop = image::Preprocess::Crop::kNone;

  const int64_t n = images.size();
  batch_ = std::min(o.batch, o.augmentation ? std::max(n / o.shards * o.shards, o.shards) : o.batch);
  steps_ = o.augmentation ? n / batch_ : (n + batch_ - 1) / batch_;
  Require(steps_ > 0, "loader: {} images for {} parts", n, o.shards);
  const int64_t local = batch_ / o.shards;
  pieces_ = (local + kPiece - 1) / kPiece;
  for (int i = 0; i < o.ahead + 1; ++i) {
    Slot& slot = *slots_.emplace_back(std::make_unique<Slot>());
    slot.pixels = Tensor<float>({local, image_shape_[0], image_shape_[1], image_shape_[2]});
    slot.labels.resize(static_cast<size_t>(local));
    if (mixes_) slot.targets = Tensor<float>({local, o.classes});
  }
  Restart(o.first_step);
  for (int i = 0; i < o.threads; ++i) {
    Lane& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    threads_.emplace_back([this, &lane] { Work(lane); });
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Loader::Restart(int64_t step) {
  next_step_ = claim_step_ = step;
  claim_piece_ = 0;
  held_ = false;
  for (auto& slot : slots_) {
    slot->made = 0;
    slot->failure = nullptr;
  }
}

void Loader::Seek(int64_t step) {
  Require(step >= 0, "loader: step {}", step);
  std::unique_lock lock(mutex_);
  paused_ = true;
  changed_.wait(lock, [&] { return busy_ == 0; });
  Restart(step);
  paused_ = false;
  changed_.notify_all();
}

// This shard's part of a step's batch, and where the batch lies in the epoch.
Loader::Part Loader::StepPart(int64_t step) const {
  const int64_t epoch = step / steps_, begin = step % steps_ * batch_;
  const int64_t count = std::min(batch_, images_.size() - begin);
  const int64_t first = count * options_.shard / options_.shards, last = count * (options_.shard + 1) / options_.shards;
  return {epoch, begin, first, last - first};
}

bool Loader::Ended(int64_t step) const { return !options_.augmentation && step >= steps_; }

const LoadedBatch* Loader::Next() {
  std::unique_lock lock(mutex_);
  if (held_) {  // releases the previous batch
    Slot& before = *slots_[static_cast<size_t>((next_step_ - 1) % std::ssize(slots_))];
    before.made = 0;
    held_ = false;
    changed_.notify_all();
  }
  if (Ended(next_step_)) return nullptr;
  Slot& slot = *slots_[static_cast<size_t>(next_step_ % std::ssize(slots_))];
  AwaitOrCancel(changed_, lock, [&] { return slot.made == pieces_; });
  if (slot.failure) std::rethrow_exception(slot.failure);
  const Part part = StepPart(next_step_);
  slot.batch = {.step = next_step_, .epoch = part.epoch, .first_image = part.first};
  slot.batch.pixels = slot.pixels.view().slice(0, 0, part.count);
  slot.batch.labels = std::span(slot.labels).first(static_cast<size_t>(part.count));
  if (mixes_) slot.batch.targets = slot.targets.view().slice(0, 0, part.count);
  ++next_step_;
  held_ = true;
  return &slot.batch;
}

void Loader::Work(Lane& lane) {
  std::unique_lock lock(mutex_);
  for (;;) {
    // A step's slot is free once the batch in it has been released.
    const auto ready = [&] {
      const int64_t oldest = next_step_ - (held_ ? 1 : 0);
      return !paused_ && !Ended(claim_step_) && claim_step_ < oldest + std::ssize(slots_);
    };
    changed_.wait(lock, [&] { return stopped_ || ready(); });
    if (stopped_) return;
    const int64_t step = claim_step_, piece = claim_piece_;
    Slot& slot = *slots_[static_cast<size_t>(step % std::ssize(slots_))];
    if (++claim_piece_ == pieces_) {
      claim_piece_ = 0;
      ++claim_step_;
    }
    ++busy_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      Make(slot, step, piece, lane);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --busy_;
    ++slot.made;
    if (failure && !slot.failure) slot.failure = failure;
    if (slot.made == pieces_ || busy_ == 0) changed_.notify_all();
  }
}

void Loader::Make(Slot& slot, int64_t step, int64_t piece, Lane& lane) const {
  const Part part = StepPart(step);
  const int64_t begin = std::min(part.count, piece * kPiece), end = std::min(part.count, begin + kPiece);
  const uint64_t order = EpochSeed(options_.seed, Use::kOrder, part.epoch);
  const uint64_t augment = EpochSeed(options_.seed, Use::kAugment, part.epoch);
  const View<float> pixels = slot.pixels;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t place = part.begin + part.first + i;
    const int64_t source = options_.augmentation ? ShuffledIndex(order, images_.size(), place) : place;
    Rng rng(MixSeed(augment, static_cast<uint64_t>(source)));
    images_.Get(source, lane.workspace.image, lane.image);
    if (options_.augmentation) {
      Augment(*options_.augmentation, image_shape_[1], image_shape_[2], rng, lane.workspace, lane.image);
    }
    image::Apply(normalise_, lane.image, lane.workspace.image, pixels[i]);
    if (options_.augmentation) Erase(*options_.augmentation, rng, pixels[i]);
    slot.labels[static_cast<size_t>(i)] = images_.label(source);
  }
  if (mixes_) MixPairs(slot, part, begin, end);
}

// The images of a pair are neighbours in the whole batch; an unpaired last image stays as it is.
void Loader::MixPairs(Slot& slot, const Part& part, int64_t begin, int64_t end) const {
  const uint64_t mix = EpochSeed(options_.seed, Use::kMix, part.epoch);
  const View<float> pixels = slot.pixels, targets = slot.targets;
  for (int64_t i = begin; i < end; i += 2) {
    const bool pair = i + 1 < end;
    Rng rng(MixSeed(mix, static_cast<uint64_t>(part.begin + part.first + i)));
    const auto share = static_cast<float>(pair ? Mix(*options_.augmentation, rng, pixels[i], pixels[i + 1]) : 1);
    for (int64_t j = i; j < std::min(end, i + 2); ++j) {
      float* row = targets.row(j);
      std::fill_n(row, options_.classes, 0.0f);
      row[slot.labels[static_cast<size_t>(j)]] += share;
      if (pair) row[slot.labels[static_cast<size_t>(i + i + 1 - j)]] += 1 - share;
    }
  }
}

}  // namespace qkv::train
