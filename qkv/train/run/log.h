// Training logs: JSON Lines, and event files for TensorBoard. Not here: curves (qkv/app/training/curves.h).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::train {

/// An append-only file; each Append is one write(2).
class Appender {
 public:
  /// Throws Error with the system's reason, as Append does. Refuses symbolic links (a run's folder may belong to
  /// another user) and anything that is not a regular file.
  explicit Appender(const std::filesystem::path& path);
  ~Appender();
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;
  void Append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int fd_;
};

/// Reads the objects of a JSON Lines file; none if the file does not exist. An incomplete last line is ignored. Each
/// object has a "step", optionally an "epoch" (both integers ≥ 0) and an "event" (text); all other values are numbers,
/// or null for non-finite ones. Throws Error with the line for anything else, and if it would take too much memory.
std::vector<io::Json> ReadLog(const std::filesystem::path& path);
/// The same for text; `where` is the prefix of errors.
std::vector<io::Json> ParseLog(std::string_view text, std::string_view where);

/// The same file opened for writing. Every line has a "step"; opening removes lines of steps after `step`, because a
/// run that resumes there takes those steps again.
class Log {
 public:
  Log(const std::filesystem::path& path, int64_t step);
  void Append(const io::Json& line);

 private:
  Appender file_;
};

/// CRC-32C (Castagnoli), as in iSCSI and TFRecord.
uint32_t Crc32c(std::string_view bytes);

/// A TFRecord: length, its masked CRC, data, its masked CRC.
std::string TfRecord(std::string_view data);

/// A TensorBoard event file in a folder of such files. Each process writes its own. It begins by telling TensorBoard to
/// discard earlier events of later steps.
class EventFile {
 public:
  /// The name contains the time and the process id.
  EventFile(const std::filesystem::path& folder, int64_t step);
  void Scalars(int64_t step, std::span<const std::pair<std::string, double>> values);

 private:
  Appender file_;
};

}  // namespace qkv::train
