// Bytes of requests and answers held for each client: no client takes the memory that others need.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace qkv::server {

/// Clients by ClientOfAddress (host.h). Thread-safe.
class ClientBytes {
 public:
  /// most: for all clients together. request: what one request may take.
  ClientBytes(int64_t most, int64_t request) : most_(most), request_(request) {}

  /// A client alone may have all. Beside others, and while more than half is taken, it may have a quarter, or one
  /// request's. An eighth more is for clients that have a sixteenth at most.
  bool HasRoom(const std::string& client, int64_t bytes) const;
  /// Takes the bytes if there is room.
  bool Reserve(const std::string& client, int64_t bytes);
  /// Takes the bytes even if there is no room.
  void Hold(const std::string& client, int64_t bytes);
  /// Gives the bytes back.
  void Release(const std::string& client, int64_t bytes);
  /// Bytes held for all clients.
  int64_t total() const;

 private:
  bool Fits(const std::string& client, int64_t bytes) const;
  void Add(const std::string& client, int64_t bytes);

  const int64_t most_, request_;
  mutable std::mutex mutex_;
  int64_t total_ = 0;
  std::map<std::string, int64_t> of_client_;
};

}  // namespace qkv::server
