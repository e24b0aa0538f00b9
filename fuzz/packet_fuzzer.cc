// Any bytes are a packet or an Error; a packet holds no more than was sent, and comes back from its own bytes.
#include <cstdlib>

#include "qkv/core/error.h"
#include "qkv/explore/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::explore;
  try {
    const Packet packet = Decode(std::as_bytes(std::span(data, size)));
    size_t bytes = 0;
    for (const auto& [name, array] : packet.arrays) {
      bytes += array.bytes.size();
      int64_t elements = 1;
      for (const int64_t extent : array.shape) elements *= extent;
      if (elements != array.size()) std::abort();
    }
    if (bytes > size) std::abort();
    const std::string again = Encode(packet);
    const Packet same = Decode(std::as_bytes(std::span(again)));
    if (same.json != packet.json || same.arrays.size() != packet.arrays.size()) std::abort();
  } catch (const qkv::Error&) {
  }
  return 0;
}
