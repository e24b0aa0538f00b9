// Processes of `mpirun -n 2 qkv train …` as a Communicator. A separate module, so that the program depends on no MPI
// and starts as quickly as without: cli/processes.cc loads it if a launcher has started several processes.
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <mutex>
#include <string_view>
#include <thread>

#include "qkv/core/error.h"
#include "qkv/train/communicator.h"

namespace qkv::mpi {
namespace {

// This process's share of the machine's cores; 0 if unknown.
int FairThreads() {
  MPI_Comm machine;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine);
  int processes = 1;
  MPI_Comm_size(machine, &processes);
  cpu_set_t own, all;
  CPU_ZERO(&own);
  const bool known = ::sched_getaffinity(0, sizeof(own), &own) == 0;
  MPI_Allreduce(&own, &all, sizeof(own), MPI_BYTE, MPI_BOR, machine);
  MPI_Comm_free(&machine);
  return known ? std::max(1, std::min(CPU_COUNT(&own), CPU_COUNT(&all) / processes)) : 0;
}

// Errors abort all processes with a message (MPI's default).
class Mpi final : public train::Communicator {
 public:
  Mpi() {
    int provided = 0, begun = 0;
    MPI_Initialized(&begun);  // by another library of the process, such as mpi4py
    if (begun) {
      MPI_Query_thread(&provided);
    } else {
      MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    }
    ends_ = !begun;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    Require(provided >= MPI_THREAD_SERIALIZED, "mpi: this MPI can be called from one thread only");
    threads_ = FairThreads();
    progress_ = std::thread([this] { Progress(); });
  }

  ~Mpi() override {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    progress_.join();
    if (ends_) MPI_Finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  int threads() const override { return threads_; }

  void Sum(std::span<double> values) override {
    const std::lock_guard lock(mutex_);
    MPI_Allreduce(MPI_IN_PLACE, values.data(), Count(values.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }

  void StartSum(std::span<float> values) override { Start(values, MPI_FLOAT); }
  void StartSum(std::span<double> values) override { Start(values, MPI_DOUBLE); }

  void FinishSums() override {
    const std::lock_guard lock(mutex_);
    MPI_Waitall(Count(begun_.size()), begun_.data(), MPI_STATUSES_IGNORE);
    begun_.clear();
  }

  // MPI cannot cancel these sums; only Abort is left.
  void CancelSums() override {
    const std::lock_guard lock(mutex_);
    begun_.clear();
  }

  std::vector<std::string> Gather(const std::string& own) override {
    const std::lock_guard lock(mutex_);
    const int length = Count(own.size());
    std::vector<int> lengths(static_cast<size_t>(size_)), begins(lengths.size());
    MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, MPI_COMM_WORLD);
    size_t total = 0;
    for (size_t i = 0; i < lengths.size(); ++i) {
      begins[i] = Count(total);
      total += static_cast<size_t>(lengths[i]);
    }
    std::string all(total, '\0');
    MPI_Allgatherv(own.data(), length, MPI_BYTE, all.data(), lengths.data(), begins.data(), MPI_BYTE, MPI_COMM_WORLD);
    std::vector<std::string> parts;
    for (size_t i = 0; i < lengths.size(); ++i) {
      parts.push_back(all.substr(static_cast<size_t>(begins[i]), static_cast<size_t>(lengths[i])));
    }
    return parts;
  }

  void Abort(int exit_code) override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  static int Count(size_t count) {
    Require(count <= INT_MAX, "mpi: {} values in one call", count);
    return static_cast<int>(count);
  }

  template <typename T>
  void Start(std::span<T> values, MPI_Datatype type) {
    constexpr size_t kPiece = size_t{1} << 30;  // MPI counts in int
    const std::lock_guard lock(mutex_);
    for (size_t begin = 0; begin < values.size(); begin += kPiece) {
      const std::span<T> piece = values.subspan(begin, std::min(kPiece, values.size() - begin));
      MPI_Iallreduce(MPI_IN_PLACE, piece.data(), Count(piece.size()), type, MPI_SUM, MPI_COMM_WORLD,
                     &begun_.emplace_back());
    }
    changed_.notify_all();
  }

  // MPI advances sums in progress only inside its calls: a thread of their own makes them, so that sums overlap the
  // backward pass.
  void Progress() {
    constexpr std::chrono::microseconds kPause{50};
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return stopped_ || !begun_.empty(); });
      if (stopped_) return;
      int done = 0;
      MPI_Testall(Count(begun_.size()), begun_.data(), &done, MPI_STATUSES_IGNORE);
      if (done) begun_.clear();
      lock.unlock();
      std::this_thread::sleep_for(kPause);
      lock.lock();
    }
  }

  int rank_ = 0, size_ = 1, threads_ = 0;
  bool ends_ = true;  // MPI, with itself
  std::mutex mutex_;  // around all calls of MPI
  std::condition_variable changed_;
  std::vector<MPI_Request> begun_;
  bool stopped_ = false;
  std::thread progress_;
};

}  // namespace
}  // namespace qkv::mpi

// The module's only exported name. `version` is the program's; another version may have another Communicator.
extern "C" [[gnu::visibility("default")]] qkv::train::Communicator* qkv_join_processes(const char* version) {
  qkv::Require(std::string_view(version) == QKV_VERSION, "mpi: qkv {} has found the module of qkv " QKV_VERSION,
               version);
  return new qkv::mpi::Mpi;
}
