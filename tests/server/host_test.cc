#include "qkv/server/host.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace qkv::server {
namespace {

TEST(ParseHost, TakesNamesAndAddressesWithPorts) {
  const std::pair<const char*, const char*> kGood[] = {{"localhost", "localhost"},
                                                       {"LocalHost:8080", "localhost"},
                                                       {"127.0.0.1:80", "127.0.0.1"},
                                                       {"[::1]", "::1"},
                                                       {"[2001:DB8::1]:65535", "2001:db8::1"},
                                                       {"a-b.example.", "a-b.example."},
                                                       {"a%20b", "a%20b"},
                                                       {"host:", "host"},
                                                       {"[::ffff:1.2.3.4]:1", "::ffff:1.2.3.4"}};
  for (const auto& [given, name] : kGood) EXPECT_EQ(ParseHost(given), name) << given;
}

TEST(ParseHost, RefusesAllElse) {
  for (const char* wrong : {"",
                            "[",
                            "]",
                            "[]",
                            "[]:80",
                            "[::1",
                            "::1",
                            "[::1]x",
                            "[::1].evil.example",
                            "[::1]evil:80",
                            "[::1]:80:80",
                            "[127.0.0.1]",
                            "[localhost]",
                            "[fe80::1%lo]",
                            "[v1.x]",
                            ":80",
                            "a:80:80",
                            "a:x",
                            "a:-1",
                            "a:+1",
                            "a:65536",
                            "a:999999999999",
                            "a: 80",
                            "a b",
                            " a",
                            "a ",
                            "user@a",
                            "user:word@a:80",
                            "a/b",
                            "a?b",
                            "a#b",
                            "a\\b",
                            "a%2",
                            "a%zz",
                            "a\"",
                            "a<b>",
                            "a,b@c",
                            "\x01",
                            "caf\xc3\xa9",
                            "[::1]:x"}) {
    EXPECT_EQ(ParseHost(wrong), std::nullopt) << wrong;
  }
}

TEST(TrustedProxies, NameTheLastClientThatIsNoProxy) {
  const TrustedProxies proxies({"10.0.0.0/8", "::1", "192.168.1.1"});
  const auto client = [&](const char* peer, const char* forwarded) { return proxies.ClientOf(peer, forwarded); };
  EXPECT_EQ(client("10.1.2.3", "203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(client("10.1.2.3", "1.1.1.1, 203.0.113.7, 10.9.9.9"), "203.0.113.7") << "what stands before is made up";
  EXPECT_EQ(client("::1", "[2001:db8::1]:443"), "2001:db8::1");
  EXPECT_EQ(client("::1", "2001:db8::1"), "2001:db8::1");
  EXPECT_EQ(client("192.168.1.1", "203.0.113.7:5000"), "203.0.113.7");
  EXPECT_EQ(client("192.168.1.2", "203.0.113.7"), "192.168.1.2") << "not trusted";
  EXPECT_EQ(client("11.0.0.1", "203.0.113.7"), "11.0.0.1");
  EXPECT_EQ(client("10.1.2.3", ""), "10.1.2.3");
  EXPECT_EQ(client("10.1.2.3", "unknown"), "10.1.2.3");
  EXPECT_EQ(client("10.1.2.3", "evil, 10.0.0.2"), "10.0.0.2");
  EXPECT_EQ(client("10.1.2.3", ", ,"), "10.1.2.3");
  EXPECT_EQ(client("10.1.2.3", "10.0.0.1, 10.0.0.2"), "10.0.0.1") << "all are proxies: the first";
  EXPECT_EQ(client("::ffff:10.1.2.3", "203.0.113.7"), "203.0.113.7") << "IPv4 within IPv6";
  EXPECT_EQ(client("10.1.2.3", "2001:DB8:0:0::7"), "2001:db8::7") << "one spelling in the log";
  EXPECT_EQ(client("10.1.2.3", "fe80::1%eth0"), "10.1.2.3") << "a zone is of the proxy's machine";
  EXPECT_EQ(TrustedProxies({}).ClientOf("10.1.2.3", "203.0.113.7"), "10.1.2.3");
  EXPECT_EQ(TrustedProxies({"0.0.0.0/0"}).ClientOf("8.8.8.8", "203.0.113.7"), "203.0.113.7");
  for (const char* wrong :
       {"", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "proxy.example", "/8", "1.2.3.4/x"}) {
    EXPECT_NE(ErrorMessage([&] { TrustedProxies({wrong}); }), "") << wrong;
  }
}

TEST(ClientKey, IsTheNetworkOfIpv6AndElseTheAddress) {
  EXPECT_EQ(ClientKey("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
  EXPECT_EQ(ClientKey("2001:db8:1:2:ffff::1"), ClientKey("2001:db8:1:2::7"));
  EXPECT_NE(ClientKey("2001:db8:1:3::1"), ClientKey("2001:db8:1:2::1"));
  EXPECT_EQ(ClientKey("fe80::1%eth0"), ClientKey("fe80::2"));
  for (const char* whole : {"10.0.0.1", "::ffff:10.0.0.1", "", "someone"}) EXPECT_EQ(ClientKey(whole), whole);
}

}  // namespace
}  // namespace qkv::server
