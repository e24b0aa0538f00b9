// The API keys of a server; each request must carry one of them.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::server {

/// Members may be called from several threads.
class ApiKeys {
 public:
  explicit ApiKeys(std::vector<std::string> keys) { Replace(std::move(keys)); }

  /// False: there are no keys, and everyone may call.
  bool Asked() const { return !Now()->empty(); }
  /// True if a header Authorization is "Bearer KEY" with one of them, or if there are no keys. Its time does not depend
  /// on where a wrong key differs, nor on which key is right.
  bool Accept(std::string_view authorization) const;
  void Replace(std::vector<std::string> keys);

 private:
  using Keys = std::vector<std::string>;

  std::shared_ptr<const Keys> Now() const {
    const std::lock_guard lock(mutex_);
    return keys_;
  }

  mutable std::mutex mutex_;
  std::shared_ptr<const Keys> keys_;
};

}  // namespace qkv::server
