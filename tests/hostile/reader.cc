#include "tests/hostile/reader.h"

#include <fmt/format.h>
#include <time.h>

#include <array>
#include <exception>
#include <string_view>
#include <typeinfo>

#include "qkv/core/error.h"
#include "qkv/core/text.h"
#include "tests/hostile/heap.h"

namespace qkv::hostile {
namespace {

constexpr double kSeconds = 5;
constexpr size_t kMessageBytes = 4000;  // a few texts of 1,000 bytes, and what escapes add

// Of all threads.
double ProcessorSeconds() {
  timespec now = {};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// What a message of qkv's own never says: it would be another library's, shown as it came.
constexpr std::array<std::string_view, 8> kForeign = {
    "json.exception", "filesystem error", "filesystem::", "basic_string", "std::", "vector::", "map::at", "yaml-cpp"};

std::string ComplaintAbout(std::string_view message) {
  for (const std::string_view words : kForeign) {
    if (message.find(words) != message.npos) return fmt::format("a message with \"{}\": {}", words, message);
  }
  if (message.find("\nqkv: forged") != message.npos) return fmt::format("a forged line: {}", Printable(message));
  // Lines of its own are a message's; those of a name were escaped.
  std::string lines(message);
  std::erase(lines, '\n');
  if (Printable(lines) != lines) return fmt::format("a message that is not printable: {}", Printable(message));
  if (message.size() > kMessageBytes) return fmt::format("a message of {} bytes", message.size());
  if (message.empty()) return "an empty message";
  return "";
}

}  // namespace

Verdict Judge(const Reader& reader, const Reading& reading, const Mutant& mutant) {
  Verdict verdict;
  const double begin = ProcessorSeconds();
  HeapWatch heap;
  try {
    reading.read(*mutant.seed, mutant.bytes);
  } catch (const Error& error) {
    verdict.refused = true;
    verdict.message = error.what();
    verdict.complaint = ComplaintAbout(verdict.message);
  } catch (const std::exception& error) {
    verdict.complaint = fmt::format("{}: {}", typeid(error).name(), Printable(error.what()));
  }
  const double seconds = ProcessorSeconds() - begin;
  const size_t megabytes = heap.Peak() >> 20;
  if (seconds > kSeconds) verdict.complaint += fmt::format(" [took {:.1f} s]", seconds);
  if (megabytes > reader.megabytes) verdict.complaint += fmt::format(" [took {} MB]", megabytes);
  return verdict;
}

}  // namespace qkv::hostile
