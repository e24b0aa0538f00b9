// Processes that train one model together, each on its part of every batch. Here is one process by itself; several are
// in qkv/mpi, which is loaded where there are several (cli/processes.h).
#pragma once

#include <span>
#include <string>
#include <vector>

namespace qkv::train {

/// All processes call the same functions in the same order, with as many values. From any thread, one at a time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const { return 0; }
  virtual int size() const { return 1; }
  /// Threads that leave the other processes on this machine theirs; 0: as many as there are.
  virtual int threads() const { return 0; }

  /// The values become their sums over all processes, to the same bits in each.
  virtual void Sum(std::span<double>) {}
  /// The same, begun: the values must be there, and nobody may touch them, until FinishSums returns.
  virtual void StartSum(std::span<float>) {}
  virtual void StartSum(std::span<double>) {}
  virtual void FinishSums() {}
  /// Instead of FinishSums, where this process cannot go on: nobody touches the values any more.
  virtual void AbandonSums() {}

  /// What each process gives, by rank.
  virtual std::vector<std::string> Gather(const std::string& own) { return {own}; }

  /// Ends all processes at once, this one too, where one cannot go on. One process by itself returns.
  virtual void Abort(int /*exit_code*/) {}

  /// The one that writes files, and speaks.
  bool first() const { return rank() == 0; }
  bool alone() const { return size() == 1; }
};

}  // namespace qkv::train
