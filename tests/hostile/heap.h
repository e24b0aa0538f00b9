// Counts the heap of the whole program, C libraries and all: by AddressSanitizer's hooks. Without it nothing is
// counted.
#pragma once

#include <cstddef>

namespace qkv::hostile {

/// Whether memory is counted in this build.
bool CountsHeap();

/// From here on: how many more bytes than now were in use at a time.
class HeapWatch {
 public:
  HeapWatch();
  size_t Peak() const;

 private:
  size_t base_;
};

}  // namespace qkv::hostile
