#include "qkv/train/sequences/sequences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "qkv/core/hash.h"
#include "qkv/core/rng.h"
#include "qkv/train/data/loader.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTaskPrefix = "task:";
// Sequences per validation of a task.
constexpr int64_t kValidationSequences = 1000;
// A zero byte within this many bytes means that the file is not text.
constexpr size_t kProbedBytes = size_t{1} << 16;

// Purpose of a task's random sequences; the three are disjoint streams.
enum class Use : uint64_t { kTrain, kValidate, kTest };

class TaskSet : public SequenceSet {
 public:
  TaskSet(const Sequences& sequences, int64_t size, uint64_t seed, Use use)
      : sequences_(sequences), size_(size), key_(MixSeed(seed, static_cast<uint64_t>(use))) {
    sequences.Validate();
  }
  int64_t size() const override { return size_; }
  void Get(int64_t first, View<int32_t> tokens, View<int64_t> labels) const override {
    Generate(sequences_, key_, first, tokens, labels);
  }

 private:
  Sequences sequences_;
  int64_t size_;
  uint64_t key_;
};

// Windows over a part of a text.
class TextSet : public SequenceSet {
 public:
  TextSet(const Text& text, std::shared_ptr<const MappedFile> file, std::span<const std::byte> part, int64_t length)
      : path_(text.path()), file_(std::move(file)), part_(part), length_(length) {}

  void Get(int64_t first, View<int32_t> tokens, View<int64_t> labels) const override {
    Require(tokens.rank() == 2 && tokens.dim(1) == length_ && tokens.shape() == labels.shape(),
            "text: tokens {} and labels {}, expected [B, {}] of both", tokens.shape(), labels.shape(), length_);
    Require(first >= 0, "text: window {}", first);
    for (int64_t b = 0; b < tokens.dim(0); ++b) Copy(WindowBegin(first + b), tokens.at(b), labels.at(b));
    file_->RequireUnchanged(path_.native());
  }

 protected:
  // Offset of a window's first byte within the part.
  virtual int64_t WindowBegin(int64_t window) const = 0;
  // Bytes that can be labels.
  int64_t asked() const { return std::ssize(part_) - 1; }
  int64_t length() const { return length_; }

 private:
  void Copy(int64_t begin, int32_t* tokens, int64_t* labels) const {
    const int64_t count = std::min(length_, asked() - begin);
    const auto* bytes = reinterpret_cast<const uint8_t*>(part_.data()) + begin;
    std::copy_n(bytes, count, tokens);
    std::copy_n(bytes + 1, count, labels);
    std::fill(tokens + count, tokens + length_, 0);
    std::fill(labels + count, labels + length_, kNotAsked);
  }

  fs::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::span<const std::byte> part_;
  int64_t length_;
};

class OrderedText : public TextSet {
 public:
  using TextSet::TextSet;
  int64_t size() const override { return (asked() + length() - 1) / length(); }

 protected:
  int64_t WindowBegin(int64_t window) const override { return window * length(); }
};

// One window fewer than fit (if at least two fit), so that the offset can vary.
class ShuffledText : public TextSet {
 public:
  ShuffledText(const Text& text, std::shared_ptr<const MappedFile> file, std::span<const std::byte> part,
               int64_t length, uint64_t seed)
      : TextSet(text, std::move(file), part, length), seed_(seed) {}
  int64_t size() const override { return std::max<int64_t>(1, asked() / length() - 1); }

 protected:
  int64_t WindowBegin(int64_t window) const override {
    const int64_t epoch = window / size();
    const uint64_t key = MixSeed(seed_, static_cast<uint64_t>(epoch));
    const auto places = static_cast<uint64_t>(asked() - size() * length() + 1);
    return static_cast<int64_t>(key % places) + ShuffledIndex(key, size(), window % size()) * length();
  }

 private:
  uint64_t seed_;
};

}  // namespace

std::optional<Task> ParseTask(const std::string& data) {
  if (!data.starts_with(kTaskPrefix)) return {};
  const std::optional<Task> task = FindTask(std::string_view(data).substr(kTaskPrefix.size()));
  if (task) return task;
  std::vector<std::string> names;
  for (const Task known : kTasks) names.push_back(fmt::format("{}{}", kTaskPrefix, Name(known)));
  Fail("there is no {}, only {}", data, fmt::join(names, ", "));
}

bool IsText(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  for (const char* other : {".csv", ".tsv", ".tar", ".gz", ".tgz"}) {
    if (path.extension() == other) return false;
  }
  const MappedFile file(path);
  const std::span<const std::byte> probed = file.bytes().first(std::min(kProbedBytes, file.bytes().size()));
  const bool text = std::ranges::find(probed, std::byte{0}) == probed.end();
  file.RequireUnchanged(path.native());
  return text;
}

SequenceData TaskForTraining(const Sequences& sequences, int64_t epoch, uint64_t seed) {
  SequenceData data;
  data.summary = fmt::format("task {}: {} tokens of {}", Name(sequences.task), sequences.length, sequences.vocabulary);
  data.vocabulary = sequences.vocabulary;
  data.length = sequences.length;
  data.train = std::make_unique<TaskSet>(sequences, epoch, seed, Use::kTrain);
  data.validation = std::make_unique<TaskSet>(sequences, kValidationSequences, seed, Use::kValidate);
  data.fingerprint = Fnv1a().Add(data.summary).value();
  return data;
}

std::unique_ptr<SequenceSet> TaskForEvaluation(const Sequences& sequences, int64_t count, uint64_t seed) {
  return std::make_unique<TaskSet>(sequences, count, seed, Use::kTest);
}

Text::Text(const fs::path& path) : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  Require(!bytes().empty(), "{} is empty", path.string());
  Require(bytes().size() >= 2, "{} has a single byte: there is nothing to ask for", path.string());
}

std::span<const std::byte> Text::TrainPart(double share) const {
  return bytes().first(bytes().size() - ValidationPart(share).size());
}

std::span<const std::byte> Text::ValidationPart(double share) const {
  const auto size = static_cast<double>(bytes().size());
  return bytes().last(std::clamp<size_t>(static_cast<size_t>(std::llround(share * size)), 2, bytes().size()));
}

std::unique_ptr<SequenceSet> Text::Windows(std::span<const std::byte> part, int64_t length) const {
  return std::make_unique<OrderedText>(*this, file_, part, length);
}

std::unique_ptr<SequenceSet> Text::ShuffledWindows(std::span<const std::byte> part, int64_t length,
                                                   uint64_t seed) const {
  return std::make_unique<ShuffledText>(*this, file_, part, length, seed);
}

SequenceData TextForTraining(const Text& text, int64_t length, double validation_share, uint64_t seed) {
  const std::span<const std::byte> train = text.TrainPart(validation_share);
  const std::span<const std::byte> validation = text.ValidationPart(validation_share);
  Require(std::ssize(train) > length,
          "{} is too short: of {} bytes {} are left to train on, and a sequence of {} takes {}; try a smaller length",
          text.path().string(), text.bytes().size(), train.size(), length, length + 1);
  SequenceData data;
  data.summary = fmt::format("text: {} bytes, {} of them to train on", text.bytes().size(), train.size());
  data.vocabulary = 256;
  data.length = length;
  data.text = true;
  data.train = text.ShuffledWindows(train, length, seed);
  data.validation = text.Windows(validation, length);
  const auto* bytes = reinterpret_cast<const char*>(text.bytes().data());
  data.fingerprint = Fnv1a().Add({bytes, text.bytes().size()}).value();
  text.RequireUnchanged();
  return data;
}

}  // namespace qkv::train
