#include "qkv/server/client_bytes.h"

#include <algorithm>

namespace qkv::server {

bool ClientBytes::Fits(const std::string& client, int64_t bytes) const {
  const auto found = of_client_.find(client);
  const int64_t own = bytes + (found == of_client_.end() ? 0 : found->second), all = total_ + bytes;
  if (own <= most_ / 16 && all <= most_ + most_ / 8) return true;
  if (all > most_) return false;
  const bool alone = of_client_.size() == (found == of_client_.end() ? 0u : 1u);
  return alone || all <= most_ / 2 || own <= std::max(most_ / 4, request_);
}

void ClientBytes::Add(const std::string& client, int64_t bytes) {
  if (bytes == 0) return;
  total_ += bytes;
  if ((of_client_[client] += bytes) == 0) of_client_.erase(client);
}

bool ClientBytes::HasRoom(const std::string& client, int64_t bytes) const {
  const std::lock_guard lock(mutex_);
  return Fits(client, bytes);
}

bool ClientBytes::Reserve(const std::string& client, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!Fits(client, bytes)) return false;
  Add(client, bytes);
  return true;
}

void ClientBytes::Hold(const std::string& client, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Add(client, bytes);
}

void ClientBytes::Release(const std::string& client, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  Add(client, -bytes);
}

int64_t ClientBytes::total() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace qkv::server
