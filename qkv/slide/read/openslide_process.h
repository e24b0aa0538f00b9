// A process of the program qkv_openslide that has one slide open, as its parent sees it. Internal to slide/read/.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/descriptor.h"
#include "qkv/core/error.h"
#include "qkv/core/fork.h"
#include "qkv/slide/read/openslide_protocol.h"

namespace qkv::slide::openslide {

struct ProcessOptions {
  std::filesystem::path program;             // qkv_openslide
  std::vector<std::string> libraries;        // names for dlopen, in this order
  std::filesystem::path slide;               // absolute
  uint32_t seconds = 60;                     // that opening, or a region, may take
  int64_t address_space = int64_t{1} << 30;  // bytes that the process may map
};

/// The process is not there any more: by a signal, by itself, or because it was too slow or talked nonsense. what()
/// says which ("SIGSEGV"), in words that fit behind "its process ended: ".
class ProcessEnded : public Error {
 public:
  ProcessEnded(const std::string& how, bool before, bool slow = false)
      : Error(how), before_request(before), too_slow(slow) {}
  const bool before_request;  // it had ended before it got the request, which is not at fault
  const bool too_slow;        // it was ended for the time that it took
};

using internal::Descriptor;

/// One thread at a time.
class Process {
 public:
  /// Starts it and opens the slide. Throws ProcessEnded, Error when the system has no process for it, and Cancelled.
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  /// Ends it.
  ~Process();

  const Reply& opened() const { return opened_; }  // the answer to the first request
  const Facts& facts() const { return facts_; }    // valid unless opened() is kNoLibrary

  /// Has a request done. Throws ProcessEnded and Cancelled; the process is not usable after either.
  Reply Call(Request request);
  /// Pixels of the last Call, premultiplied ARGB, kMaxPixels of them. The process may change them at any time.
  const uint32_t* pixels() const { return static_cast<const uint32_t*>(memory_); }
  /// Gives the pixels' memory back to the system if they are many: pixels() are black then.
  void Trim();

 private:
  void Start();
  void Send(const void* message, size_t bytes);
  Reply Receive();
  [[noreturn]] void FailEnded(std::string_view reason, bool before_request = false);
  std::string End(bool kill);

  const ProcessOptions options_;
  const uint32_t forks_ = internal::Forks();
  Descriptor socket_, process_, memory_file_;  // process_: a descriptor of it, since another may get its number
  const void* memory_ = nullptr;
  int64_t used_ = 0;  // pixels of the last Call
  Reply opened_;
  Facts facts_;
};

}  // namespace qkv::slide::openslide
