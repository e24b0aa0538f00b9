// Any bytes as gzip data and as a tar archive, and what the one unpacks to as the other: read, or refused with an
// Error.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/train/data/archive.h"

namespace {

void Check(bool ok) {
  if (!ok) std::abort();
}

void List(std::span<const std::byte> bytes) {
  try {
    size_t sum = 0;
    for (const qkv::train::ArchiveMember& member : qkv::train::ListTar(bytes, "fuzz")) sum += member.bytes.size();
    Check(sum < bytes.size());
  } catch (const qkv::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::train;
  constexpr size_t kMost = size_t{4} << 20, kFirst = 100;
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  List(bytes);
  std::string first;
  bool begins = true;
  try {
    first = qkv::io::GunzipFirst(bytes, kFirst, "fuzz");
    Check(first.size() <= kFirst);
  } catch (const qkv::Error&) {
    begins = false;
  }
  try {
    const std::string text = qkv::io::Gunzip(bytes, kMost, "fuzz");
    Check(text.size() <= kMost && begins && first == text.substr(0, kFirst));
    List(std::as_bytes(std::span(text)));
  } catch (const qkv::Error&) {
  }
  return 0;
}
