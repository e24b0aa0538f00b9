// What a reader of strangers' files is held to: a result or an Error, within a time and a memory, whatever the file.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "tests/hostile/mutate.h"

namespace qkv::hostile {

/// A reader ready to read.
struct Reading {
  std::vector<Seed> seeds;
  /// Reads a changed file of `seed`; what it returns does not count.
  std::function<void(const Seed& seed, const std::string& bytes)> read;
};

struct Reader {
  std::string name;
  std::function<Reading()> open;
  size_t inputs = 48;  // of each mutation
  size_t megabytes = 64;
};

inline void PrintTo(const Reader& reader, std::ostream* out) { *out << reader.name; }

// One list each for the folders of qkv/.
std::vector<Reader> ImageReaders();
std::vector<Reader> TensorReaders();
std::vector<Reader> ModelReaders();
std::vector<Reader> DataReaders();
std::vector<Reader> RunReaders();

/// What one input led to.
struct Verdict {
  bool refused = false;
  std::string message;    // where it was refused
  std::string complaint;  // empty: as it should be
};

/// Reads one input, and counts time and memory.
Verdict Judge(const Reader& reader, const Reading& reading, const Mutant& mutant);

}  // namespace qkv::hostile
