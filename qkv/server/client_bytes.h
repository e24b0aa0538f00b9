// How many bytes of whose requests and answers are held: no client takes the memory that others need.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace qkv::server {

/// Clients by ClientOfAddress (host.h). Thread-safe.
class ClientBytes {
 public:
  /// most: of all clients together. request: what one request may take.
  ClientBytes(int64_t most, int64_t request) : most_(most), request_(request) {}

  /// A client alone may have all. Beside others, and while more than half is taken, it may have a quarter, or one
  /// request's. An eighth more is for clients that have a sixteenth at most.
  bool HasRoom(const std::string& client, int64_t bytes) const;
  /// Takes them if there is room.
  bool Reserve(const std::string& client, int64_t bytes);
  /// Takes them whatever room there is.
  void Hold(const std::string& client, int64_t bytes);
  /// Gives back what was taken.
  void Release(const std::string& client, int64_t bytes);
  /// Of all clients.
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
