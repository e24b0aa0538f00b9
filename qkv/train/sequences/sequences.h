// What a sequence model learns from: sequences of tokens, and what is right at each of them. A task makes them
// (tasks.h), or they are cut out of a text, whose bytes are the tokens and whose next byte is the answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "qkv/core/file.h"
#include "qkv/core/tensor.h"
#include "qkv/train/sequences/synthetic_tasks.h"

namespace qkv::train {

/// Sequences by their numbers, each a function of its number alone.
class SequenceSet {
 public:
  virtual ~SequenceSet() = default;

  /// How many there are; of a set to train on, which has no end, how many count as an epoch.
  virtual int64_t size() const = 0;
  /// Sequences first, first + 1, … tokens, labels: [B, length], dense; a label is what is right there, or kNotAsked.
  virtual void Get(int64_t first, View<int32_t> tokens, View<int64_t> labels) const = 0;
};

/// What training takes of a task or a text.
struct SequenceData {
  std::string summary;     // "task reverse: 16 tokens of 16", for people
  int64_t vocabulary = 0;  // of tokens and of answers
  int64_t length = 0;      // tokens of a sequence
  bool text = false;       // tokens are bytes, and the answer to each is the next
  std::unique_ptr<SequenceSet> train, validation;
  uint64_t fingerprint = 0;  // tells it apart from other data
};

/// The task of "task:NAME", none of anything else. Throws Error that lists the tasks where there is none of this name.
std::optional<Task> TaskOf(const std::string& data);
/// Whether that is a file of text: neither a table nor an archive by its name, and without a zero byte near its
/// beginning.
bool IsText(const std::filesystem::path& path);

/// What a sequence model is trained on, and not one of images.
inline bool IsSequenceData(const std::string& data) { return TaskOf(data) || IsText(data); }

/// `epoch`: sequences that count as one. Throws Error as Sequences::Validate.
SequenceData TaskForTraining(const Sequences& sequences, int64_t epoch, uint64_t seed);
/// `count` sequences that no training has seen.
std::unique_ptr<SequenceSet> TaskForEvaluation(const Sequences& sequences, int64_t count, uint64_t seed);

/// A text, mapped. Throws Error when it cannot be read, or has less than two bytes: one to see, one to ask for.
class Text {
 public:
  explicit Text(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return file_->bytes(); }
  /// Throws Error that names the file when it was written to or became shorter since it was opened; so do the windows,
  /// for a file that they read.
  void RequireUnchanged() const { file_->RequireUnchanged(path_.native()); }
  /// Its bytes but for the last `share`, which are the other part.
  std::span<const std::byte> TrainPart(double share) const;
  std::span<const std::byte> ValidationPart(double share) const;

  /// A part from its beginning to its end: every byte but the first is asked for, in windows of `length` tokens; the
  /// last one may hold less. The part has two bytes or more.
  std::unique_ptr<SequenceSet> Windows(std::span<const std::byte> part, int64_t length) const;
  /// Windows of a part for training, without end: one behind the other, from another place and in another order in each
  /// epoch, so that all but the edges of the part are seen in each. The part is longer than `length`.
  std::unique_ptr<SequenceSet> ShuffledWindows(std::span<const std::byte> part, int64_t length, uint64_t seed) const;

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
};

/// Throws Error, that says how many bytes there are, where a part is too short for its windows.
SequenceData TextForTraining(const Text& text, int64_t length, double validation_share, uint64_t seed);

}  // namespace qkv::train
