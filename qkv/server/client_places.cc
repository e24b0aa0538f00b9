#include "qkv/server/client_places.h"

#include <algorithm>

#include "qkv/server/host.h"

namespace qkv::server {

int64_t ClientPlaces::Most(int64_t most) { return most + std::max<int64_t>(1, most / 8); }

bool ClientPlaces::Fits(const std::string& client) const {
  const auto found = of_client_.find(client);
  if (found == of_client_.end()) return taken_ < Most(most_);
  if (taken_ >= most_) return false;
  const bool alone = of_client_.size() == 1, crowded = taken_ > most_ / 2;
  return alone || !crowded || found->second < most_ / 4;
}

bool ClientPlaces::HasRoom(const std::string& address) const {
  const std::string client = ClientOfAddress(address);
  const std::lock_guard lock(mutex_);
  return Fits(client);
}

std::shared_ptr<void> ClientPlaces::Take(const std::string& address) {
  std::string client = ClientOfAddress(address);
  {
    const std::lock_guard lock(mutex_);
    if (!Fits(client)) return nullptr;
    ++of_client_[client];
    ++taken_;
  }
  return {this, [this, client = std::move(client)](void*) {
            const std::lock_guard lock(mutex_);
            --taken_;
            const auto found = of_client_.find(client);
            if (--found->second == 0) of_client_.erase(found);
          }};
}

}  // namespace qkv::server
