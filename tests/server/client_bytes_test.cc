#include "qkv/server/client_bytes.h"

#include <gtest/gtest.h>

namespace qkv::server {
namespace {

TEST(ClientBytes, OneClientAloneMayHaveAll) {
  ClientBytes bytes(160, 20);
  EXPECT_TRUE(bytes.Reserve("a", 150));
  EXPECT_FALSE(bytes.HasRoom("a", 11));
  EXPECT_FALSE(bytes.Reserve("a", 11));
  EXPECT_EQ(bytes.total(), 150) << "what was refused takes nothing";
  EXPECT_TRUE(bytes.Reserve("a", 10));
  bytes.Release("a", 160);
  EXPECT_EQ(bytes.total(), 0);
  EXPECT_TRUE(bytes.Reserve("b", 160)) << "a holds nothing any more";
}

TEST(ClientBytes, KeepsAShareForOthers) {
  ClientBytes bytes(160, 20);
  EXPECT_TRUE(bytes.Reserve("a", 160));
  EXPECT_TRUE(bytes.Reserve("b", 6));
  EXPECT_TRUE(bytes.Reserve("b", 4)) << "a sixteenth in steps";
  EXPECT_FALSE(bytes.Reserve("b", 1));
  EXPECT_TRUE(bytes.Reserve("c", 10)) << "the eighth is full";
  EXPECT_FALSE(bytes.Reserve("d", 1));
  bytes.Release("c", 10);
  EXPECT_TRUE(bytes.Reserve("d", 1));
}

TEST(ClientBytes, BesideOthersEachHasAQuarterOrARequest) {
  for (const int64_t request : {20, 60}) {
    ClientBytes bytes(160, request);
    const int64_t most = std::max<int64_t>(40, request);
    EXPECT_TRUE(bytes.Reserve("a", 70));
    EXPECT_TRUE(bytes.Reserve("b", most));
    EXPECT_FALSE(bytes.Reserve("b", 1)) << request;
    EXPECT_FALSE(bytes.Reserve("a", 1)) << request;
    bytes.Release("a", 70);
    EXPECT_TRUE(bytes.Reserve("b", 20)) << "less than half is taken, or it is alone";
  }
}

TEST(ClientBytes, HoldsWhateverRoomThereIs) {
  ClientBytes bytes(16, 4);
  bytes.Hold("a", 100);
  EXPECT_EQ(bytes.total(), 100);
  EXPECT_FALSE(bytes.HasRoom("b", 1));
  bytes.Release("a", 100);
  EXPECT_TRUE(bytes.HasRoom("b", 1));
}

}  // namespace
}  // namespace qkv::server
