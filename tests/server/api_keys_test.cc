#include "qkv/server/api_keys.h"

#include <gtest/gtest.h>

namespace qkv::server {
namespace {

TEST(ApiKeys, AcceptAnyOfThemByTheSchemeBearer) {
  ApiKeys keys({"first", "second"});
  EXPECT_TRUE(keys.Asked());
  for (const char* good : {"Bearer first", "Bearer second", "bearer second", "BEARER   first"}) {
    EXPECT_TRUE(keys.Accept(good)) << good;
  }
  for (const char* wrong : {"", "first", "Bearer", "Bearer ", "Bearerfirst", "Basic first", "Bearer firs",
                            "Bearer first second", "Bearer firstfirst", "Bearer third", "\"Bearer first\""}) {
    EXPECT_FALSE(keys.Accept(wrong)) << wrong;
  }
  keys.Replace({"third"});
  EXPECT_TRUE(keys.Accept("Bearer third"));
  EXPECT_FALSE(keys.Accept("Bearer first"));
  keys.Replace({});
  EXPECT_FALSE(keys.Asked());
  EXPECT_TRUE(keys.Accept(""));
}

}  // namespace
}  // namespace qkv::server
