// A file descriptor, closed at the end of its scope. Internal to qkv/.
#pragma once

#include <unistd.h>

#include <utility>

namespace qkv::internal {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    other.Close();
    return *this;
  }
  ~Descriptor() { Close(); }

  int get() const { return descriptor_; }
  /// Leaves it open.
  void Release() { descriptor_ = -1; }

 private:
  void Close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  int descriptor_ = -1;
};

}  // namespace qkv::internal
