#include "qkv/train/run/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <limits>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;

template <typename T>
void PutLittleEndian(T value, std::string* out) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

// The part of the protocol-buffer encoding that events need: https://protobuf.dev/programming-guides/encoding
class Message {
 public:
  void Int(int field, uint64_t value) {
    Varint(static_cast<uint64_t>(field) << 3);
    Varint(value);
  }
  void Double(int field, double value) {
    Varint(static_cast<uint64_t>(field) << 3 | 1);
    PutLittleEndian(std::bit_cast<uint64_t>(value), &bytes_);
  }
  void Float(int field, float value) {
    Varint(static_cast<uint64_t>(field) << 3 | 5);
    PutLittleEndian(std::bit_cast<uint32_t>(value), &bytes_);
  }
  void Bytes(int field, std::string_view value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_ += value;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

double SecondsSince1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// tensorflow/core/util/event.proto: wall_time 1, step 2, then the payload.
Message Event(int64_t step) {
  Message event;
  event.Double(1, SecondsSince1970());
  event.Int(2, static_cast<uint64_t>(step));
  return event;
}

// TensorBoard looks for names that contain "tfevents".
fs::path EventPath(const fs::path& folder) {
  const auto second = static_cast<int64_t>(SecondsSince1970());
  for (int i = 0;; ++i) {
    const fs::path path = folder / fmt::format("events.out.tfevents.{:010}.qkv.{}.{}", second, ::getpid(), i);
    if (!fs::exists(path)) return path;
  }
}

void RequireLogLine(const io::Json& line, std::string_view where) {
  Require(line.is_object(), "{}: expected an object", where);
  Require(line.contains("step"), "{}: no \"step\"", where);
  for (const auto& [name, value] : line.items()) {
    if (name == "event") {
      Require(value.is_string(), "{}: \"{}\" is {}, expected a text", where, name, value.type_name());
    } else if (name == "step" || name == "epoch") {
      // Negative values are not of the unsigned type.
      constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      const bool fits = value.is_number_unsigned() && value.get<uint64_t>() <= kMost;
      Require(fits, "{}: \"{}\" is {}, expected a whole number of 0 or more", where, name, fits ? "" : value.dump());
    } else {
      Require(value.is_number() || value.is_null(), "{}: \"{}\" is {}, expected a number", where, name,
              value.type_name());
    }
  }
}

// Removes lines of later steps from log.jsonl, so that it can be continued.
const fs::path& TruncateLogAfter(const fs::path& path, int64_t step) {
  std::error_code ignored;
  Require(!fs::is_symlink(fs::symlink_status(path, ignored)), "cannot write {}: it is a link; move it away",
          path.string());
  if (!fs::exists(path)) return path;
  std::string kept;
  for (const io::Json& line : ReadLog(path)) {
    if (line.at("step").get<int64_t>() <= step) kept += line.dump() + "\n";
  }
  WriteFile(path, kept);
  return path;
}

}  // namespace

Appender::Appender(const fs::path& path)
    // O_NONBLOCK: otherwise opening a pipe without a reader would block.
    : path_(path),
      fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666)) {
  if (fd_ < 0 && errno == ELOOP) Fail("cannot write {}: it is a link; move it away", path.string());
  RequireCall(fd_ >= 0, "write", path);
  struct stat status {};
  try {
    RequireCall(::fstat(fd_, &status) == 0, "write", path);
    Require(S_ISREG(status.st_mode) || S_ISCHR(status.st_mode), "cannot write {}: not a regular file", path.string());
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

Appender::~Appender() { ::close(fd_); }

void Appender::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    RequireCall(written > 0, "write", path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

std::vector<io::Json> ParseLog(std::string_view text, std::string_view where) {
  // A line's values take some fifty bytes each in memory.
  constexpr double kTimes = 16;
  RequireMemory(kTimes * static_cast<double>(text.size()), where);
  std::vector<io::Json> lines;
  for (size_t begin = 0, end = text.find('\n'); end != text.npos; begin = end + 1, end = text.find('\n', begin)) {
    const std::string line = FormatShown("{}, line {}", where, lines.size() + 1);
    lines.push_back(io::ParseJson(text.substr(begin, end - begin), line));
    RequireLogLine(lines.back(), line);
  }
  return lines;
}

std::vector<io::Json> ReadLog(const fs::path& path) {
  if (!fs::exists(path)) return {};
  return ParseLog(ReadFile(path), path.string());
}

Log::Log(const fs::path& path, int64_t step) : file_(TruncateLogAfter(path, step)) {}

void Log::Append(const io::Json& line) { file_.Append(line.dump() + "\n"); }

uint32_t Crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < 256; ++i) {
      uint32_t crc = i;
      for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
      entries[i] = crc;
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xFF];
  return ~crc;
}

std::string TfRecord(std::string_view data) {
  // TFRecord rotates and offsets its CRCs: CRCs of data that contain CRCs are weak.
  const auto masked = [](std::string_view bytes) { return std::rotr(Crc32c(bytes), 15) + 0xA282EAD8u; };
  std::string record;
  PutLittleEndian(static_cast<uint64_t>(data.size()), &record);
  PutLittleEndian(masked(record), &record);
  record += data;
  PutLittleEndian(masked(data), &record);
  return record;
}

EventFile::EventFile(const fs::path& folder, int64_t step) : file_(EventPath(folder)) {
  Message version;
  version.Double(1, SecondsSince1970());
  version.Bytes(3, "brain.Event:2");
  file_.Append(TfRecord(version.bytes()));
  Message start, event = Event(step + 1);
  start.Int(1, 1);  // SessionLog.START: discards other files' events from this step on
  event.Bytes(7, start.bytes());
  file_.Append(TfRecord(event.bytes()));
}

void EventFile::Scalars(int64_t step, std::span<const std::pair<std::string, double>> values) {
  Message summary, event = Event(step);
  for (const auto& [tag, number] : values) {
    Message value;
    value.Bytes(1, tag);
    value.Float(2, static_cast<float>(number));
    summary.Bytes(1, value.bytes());
  }
  event.Bytes(5, summary.bytes());
  file_.Append(TfRecord(event.bytes()));
}

}  // namespace qkv::train
