// What is written down while training: a line of JSON for each thing that happened, and event files for TensorBoard.
// Not here: curves (cli/train_report.h).
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

/// A file that grows at its end, each piece by one write(2).
class Appender {
 public:
  /// Throws Error with the system's reason, as does Append; also for a link, which is not followed (a run's folder may
  /// be another person's), and for what is no regular file but a device.
  explicit Appender(const std::filesystem::path& path);
  ~Appender();
  Appender(const Appender&) = delete;
  Appender& operator=(const Appender&) = delete;
  void Append(std::string_view bytes);

 private:
  std::filesystem::path path_;
  int fd_;
};

/// The objects of a JSON Lines file; none where there is no such file. A last line that is cut off does not count. Each
/// has a "step" and perhaps an "epoch" (whole numbers, not negative) and an "event" (text); all else is numbers, or
/// null for what was none. Throws Error that names the line for anything else, and where it would take too much memory.
std::vector<io::Json> ReadLog(const std::filesystem::path& path);
/// The same of the file's text; `where` begins the errors.
std::vector<io::Json> ParseLog(std::string_view text, std::string_view where);

/// The same file for writing. Each line has a "step"; lines of steps after `step` are taken away when it is opened:
/// a run that is resumed there takes those steps again.
class Log {
 public:
  Log(const std::filesystem::path& path, int64_t step);
  void Append(const io::Json& line);

 private:
  Appender file_;
};

/// CRC-32C (Castagnoli), as iSCSI and TFRecord have it.
uint32_t Crc32c(std::string_view bytes);

/// A record of a TFRecord file: length, its masked CRC, data, their masked CRC.
std::string TfRecord(std::string_view data);

/// An event file for TensorBoard, in a folder of such files. Each process writes one of its own, which tells
/// TensorBoard to forget what was said of later steps than that where it begins.
class EventFile {
 public:
  /// The name has the time in it, and the process.
  EventFile(const std::filesystem::path& folder, int64_t step);
  void Scalars(int64_t step, std::span<const std::pair<std::string, double>> values);

 private:
  Appender file_;
};

}  // namespace qkv::train
