// Interface of data-parallel training: processes that train one model together, each on its part of every batch. This
// class is the single-process case; qkv/mpi implements several (cli/processes.h loads it).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace qkv::train {

/// All processes call the same functions in the same order with equally many values. Thread-safe for one call at a
/// time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// Threads per process if several processes share this machine; 0: all.
  virtual int threads() const { return 0; }

  /// All-reduce: replaces the values by their sums over all processes, with the same bits in each.
  virtual void Sum(std::span<double>) {}
  /// Starts the same asynchronously. The values must stay valid and untouched until FinishSums returns.
  virtual void StartSum(std::span<float>) {}
  virtual void StartSum(std::span<double>) {}
  virtual void FinishSums() {}
  /// Replaces FinishSums if this process cannot continue: pending sums no longer access the values.
  virtual void CancelSums() {}

  /// All-gather: one string per process, by rank.
  virtual std::vector<std::string> Gather(const std::string& own) { return {own}; }

  /// Terminates all processes, this one included, if one cannot continue. The single-process case returns.
  virtual void Abort(int /*exit_code*/) {}

  /// Rank 0 writes files and prints.
  bool first() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
};

}  // namespace qkv::train
