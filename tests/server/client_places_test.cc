#include "qkv/server/client_places.h"

#include <gtest/gtest.h>

#include <vector>

namespace qkv::server {
namespace {

using Places = std::vector<std::shared_ptr<void>>;

// Takes places until there are none; how many.
int TakeAll(ClientPlaces& places, const std::string& address, Places* taken) {
  for (int i = 0;; ++i) {
    std::shared_ptr<void> place = places.Take(address);
    if (place == nullptr) return i;
    taken->push_back(std::move(place));
  }
}

TEST(ClientPlaces, LeavesRoomForOthers) {
  ClientPlaces places(16);
  Places first, second;
  EXPECT_EQ(TakeAll(places, "10.0.0.1", &first), 16) << "alone: it may be a proxy";
  EXPECT_TRUE(places.HasRoom("10.0.0.2"));
  second.push_back(places.Take("10.0.0.2"));
  EXPECT_NE(second[0], nullptr);
  EXPECT_FALSE(places.HasRoom("10.0.0.2")) << "it has one";
  first.resize(10);
  EXPECT_FALSE(places.HasRoom("10.0.0.1")) << "it has more than a quarter";
  EXPECT_EQ(TakeAll(places, "10.0.0.2", &second), 3) << "a quarter";
  first.clear();
  EXPECT_EQ(TakeAll(places, "10.0.0.2", &second), 12) << "alone again";
}

TEST(ClientPlaces, CountsNetworksOfIpv6) {
  ClientPlaces places(1);
  const std::shared_ptr<void> place = places.Take("2001:db8::1");
  EXPECT_FALSE(places.HasRoom("2001:db8::ffff:2"));
  EXPECT_TRUE(places.HasRoom("2001:db8:0:1::1"));
}

}  // namespace
}  // namespace qkv::server
