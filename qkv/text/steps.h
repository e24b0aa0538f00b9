// Bounds on the effect of a tokenizer's files on a text: how long it may become, and how much work it may take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/text/decoder.h"
#include "qkv/text/pieces.h"

namespace qkv::text {

/// Limit of a text's length after all steps together, from so many bytes. Unicode's forms make a text 11 times as long
/// at most, characters for bytes 2 times, tokens before it add a few bytes: published tokenizers stay far below.
inline constexpr size_t MaxGrown(size_t bytes) { return 32 * bytes + 1024; }

/// Limit of the bytes of the tokens of so many ids; a single token may be longer than their share. Tokens of published
/// vocabularies have 4 on average, and none more than 256.
inline constexpr size_t MaxTokenBytes(size_t ids) { return 512 * ids + 4096; }

/// Steps (qkv/core/work.h) of encoding or decoding so many bytes; published tokenizers take 10 to 60 a byte. It is some
/// 0.3 s for a text of 300 kB, and little for each of many short texts.
inline constexpr int64_t MaxSteps(size_t bytes) { return 1024 * (static_cast<int64_t>(bytes) + 64); }

/// Throws Error if a text is longer than `limit`.
inline void RequireGrown(size_t size, size_t limit) {
  Require(size <= limit, "tokenizer: its steps make a text longer than {} bytes, more than the limit for its length",
          limit);
}

/// Counts the steps of a loop, some thousands at a time: it costs next to nothing in each. Call Done behind the loop.
class StepTally {
 public:
  void Add(size_t steps) {
    pending_ += steps;
    if (pending_ >= kAtOnce) [[unlikely]] {
      Done();
    }
  }
  void Done() {
    const size_t steps = pending_;
    pending_ = 0;
    Spend(static_cast<int64_t>(steps));
  }

 private:
  static constexpr size_t kAtOnce = 4096;
  size_t pending_ = 0;
};

/// Runs the steps of a tokenizer's file, each of which may make the text as long as its limit: Error beyond.
void RunNormalizers(const std::vector<Normalizer>& steps, Segment& segment);
void RunPreTokenizers(const std::vector<PreTokenizer>& steps, Pieces& pieces);
/// `limit` in bytes of all tokens together.
void RunDecoders(const std::vector<Decoder>& steps, size_t limit, std::vector<std::string>& tokens);

}  // namespace qkv::text
