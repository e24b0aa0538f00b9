// Requests in progress for each client: no client takes the places that others need.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

namespace qkv::server {

class ClientPlaces {
 public:
  /// most: places of all clients together. An eighth more is for clients that have none.
  explicit ClientPlaces(int64_t most) : most_(most) {}

  /// A client alone may have all places. Beside others it may have a quarter while more than half are taken.
  bool HasRoom(const std::string& address) const;
  /// A place until it is destroyed; null if there is no room. The places must outlive it.
  std::shared_ptr<void> Take(const std::string& address);
  /// Limit for clients without a place: `most` and the eighth more.
  static int64_t Most(int64_t most);

 private:
  bool Fits(const std::string& client) const;

  const int64_t most_;
  mutable std::mutex mutex_;
  int64_t taken_ = 0;
  std::map<std::string, int64_t> of_client_;
};

}  // namespace qkv::server
