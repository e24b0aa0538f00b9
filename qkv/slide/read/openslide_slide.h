// A slide that OpenSlide reads, in processes of its own. Internal to slide/read/.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "qkv/slide/read/openslide_process.h"
#include "qkv/slide/read/slide.h"

namespace qkv::slide::openslide {

/// The facts of a slide, checked. `name` begins the messages of errors. Throws Error for facts that no slide has.
SlideFacts FactsOf(const Facts& facts, const SlideOptions& options, const std::string& name);

/// "rrggbb" in hexadecimal digits as 0xrrggbb; white for anything else.
uint32_t BackgroundOf(const Facts& facts);

/// Processes that have the same slide open: as many as threads read at a time, up to a bound.
class Processes {
 public:
  /// `first` has the slide open already. `most` >= 1.
  Processes(const ProcessOptions& options, std::unique_ptr<Process> first, int most);

  /// Has a request done by a process that is idle, or a new one; waits for one to be idle if there are `most`. `take`
  /// gets the process and its answer. Throws ProcessEnded; Error if the slide has changed, OpenSlide cannot be started
  /// again, or took too long too often; Cancelled.
  template <typename F>
  void Call(const Request& request, F&& take) {
    for (int attempt = 0;; ++attempt) {
      Lease lease(*this);
      try {
        const Reply reply = lease->Call(request);
        take(*lease, reply);
        lease->Trim();
        lease.GiveBack();
        return;
      } catch (const ProcessEnded& ended) {
        if (ended.too_slow) CountSlow(ended);
        // One that ended while it was idle says nothing of the request: the next one does it.
        if (!ended.before_request || attempt == most_) throw;
      }
    }
  }

 private:
  // The use of one process, which ends with it unless it is given back.
  class Lease {
   public:
    explicit Lease(Processes& processes) : processes_(processes), process_(processes.Take()) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() {
      process_.reset();
      processes_.Return(std::move(kept_));
    }
    void GiveBack() { kept_ = std::move(process_); }
    Process* operator->() const { return process_.get(); }
    Process& operator*() const { return *process_; }

   private:
    Processes& processes_;
    std::unique_ptr<Process> process_, kept_;
  };

  std::unique_ptr<Process> Take();
  std::unique_ptr<Process> StartAgain();
  void Return(std::unique_ptr<Process> process);
  void CountSlow(const ProcessEnded& ended);

  const ProcessOptions options_;
  const Facts facts_;  // of the first
  const int most_;
  std::mutex mutex_;
  std::condition_variable returned_;
  std::vector<std::unique_ptr<Process>> idle_;
  int running_ = 1;        // idle ones too
  int failed_starts_ = 0;  // in a row
  int slow_ = 0;           // regions that took too long
  uint32_t forks_ = internal::Forks();
};

/// The slide by one library and program; `most` processes. As OpenByOpenSlide otherwise.
std::unique_ptr<Slide> OpenIn(const ProcessOptions& process, const SlideOptions& options, int most, std::string& why);

}  // namespace qkv::slide::openslide
