#include "qkv/io/gzip.h"

#include <gtest/gtest.h>

#include <string>

namespace qkv::io {
namespace {

// A file in memory.
class TextSink : public FileSink {
 public:
  using FileSink::Write;
  void Write(std::span<const std::byte> bytes) override {
    text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }

  std::string text;
};

TEST(GzipSink, IsUnpackedToWhatWasWritten) {
  std::string text;
  for (uint32_t i = 0; i < 300'000; ++i) text += static_cast<char>(i * i * 2654435761u >> (i % 3 == 0 ? 24 : 29));
  for (const size_t length : {size_t{0}, size_t{1}, size_t{65'536}, text.size()}) {
    for (const size_t piece : {size_t{7}, size_t{65'536}, size_t{200'000}}) {
      TextSink packed;
      GzipSink sink(packed);
      for (size_t at = 0; at < length; at += piece) {
        sink.Write(std::string_view(text).substr(at, std::min(piece, length - at)));
      }
      sink.Finish();
      const auto bytes = std::as_bytes(std::span(packed.text));
      EXPECT_TRUE(IsGzip(bytes));
      EXPECT_EQ(Gunzip(bytes, text.size(), "here"), text.substr(0, length)) << length << " " << piece;
    }
  }
}

}  // namespace
}  // namespace qkv::io
