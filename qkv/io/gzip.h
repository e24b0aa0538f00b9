// Decompression of gzip, bounded, and compression piece by piece.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "qkv/core/file.h"

namespace qkv::io {

bool IsGzip(std::span<const std::byte> bytes);
/// Throws Error, prefixed with `where`, for damaged or truncated data, and for more than `max_bytes` or the memory
/// limit.
std::string Gunzip(std::span<const std::byte> bytes, size_t max_bytes, std::string_view where);
/// Decompresses the first `count` bytes, or fewer if the data is shorter. Throws Error for damaged data.
std::string GunzipFirst(std::span<const std::byte> bytes, size_t count, std::string_view where);

/// Compresses what it receives into another sink. Equal bytes give equal bytes: the header has no time and no name.
class GzipSink : public FileSink {
 public:
  /// `to` must outlive this.
  explicit GzipSink(FileSink& to);
  ~GzipSink() override;
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override;
  /// Writes the end; nothing may follow.
  void Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace qkv::io
