// Hostile files made of honest ones: cut, flipped, lied in, shuffled. The same number gives the same file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::hostile {

/// An honest file.
struct Seed {
  std::string name;
  std::string bytes;
  // Makes checksums and lengths of a changed file right again, so that what is behind them is reached; or empty.
  std::function<void(std::string& bytes)> repair = {};
  // The JSON that the file is or holds, and how a file is made of a changed one; empty where there is none.
  std::string json = {};
  std::function<std::string(const std::string& json)> rebuild = {};
};

/// A seed that is JSON from its first byte to its last.
Seed JsonSeed(std::string name, std::string json);
/// A safetensors file, whose header is the JSON.
Seed SafeTensorsSeed(std::string name, std::string bytes);

enum class Mutation {
  kTruncated,  // cut at any length, most at the beginning and near the end
  kFlipped,    // a few bits, most in the first bytes
  kExtreme,    // integers of 1 to 8 bytes, of both byte orders, overwritten by extreme ones
  kShuffled,   // a piece removed, repeated, moved or replaced by zeros
  kSpliced,    // the beginning of one file and the end of another
  kNumbers,    // numbers in the text replaced: extreme, too long, no finite number
  kText,       // control characters, bytes that are no UTF-8, very long words, deep nesting put in
  kFields,     // each value of the JSON replaced by each of another type, or removed
};

inline constexpr std::array kMutations = {Mutation::kTruncated, Mutation::kFlipped, Mutation::kExtreme,
                                          Mutation::kShuffled,  Mutation::kSpliced, Mutation::kNumbers,
                                          Mutation::kText,      Mutation::kFields};

/// "Truncated", …
std::string_view Name(Mutation mutation);
inline void PrintTo(Mutation mutation, std::ostream* out) { *out << Name(mutation); }

/// A changed file, and the seed that it was made of.
struct Mutant {
  const Seed* seed;
  std::string bytes;
};

/// How many files there are of this kind, `wanted` unless the seeds give less; the fields of all seeds are at most
/// four times as many.
size_t CountMutants(const std::vector<Seed>& seeds, Mutation mutation, size_t wanted);
/// Number `index` of them.
Mutant Mutate(const std::vector<Seed>& seeds, Mutation mutation, size_t index, size_t count);

}  // namespace qkv::hostile
