#include "qkv/server/encoding.h"

#include <gtest/gtest.h>

#include <functional>

#include "qkv/core/work.h"
#include "qkv/server/http_message.h"
#include "qkv/server/static_answer.h"

namespace qkv::server {
namespace {

int StatusOfCall(const std::function<void()>& call) {
  try {
    call();
  } catch (const HttpError& error) {
    return error.status();
  }
  return 200;
}

TEST(Encoding, NamesOfBodies) {
  for (const char* none : {"", "identity", "Identity"}) EXPECT_FALSE(IsGzip(none)) << none;
  for (const char* gzip : {"gzip", "GZIP", "x-gzip"}) EXPECT_TRUE(IsGzip(gzip)) << gzip;
  for (const char* other : {"deflate", "br", "zstd", "compress", "gzip, gzip", "gzip,identity", "identity, gzip", ",",
                            "gzip;q=1", "*", "xgzip"}) {
    EXPECT_EQ(StatusOfCall([&] { IsGzip(other); }), 415) << other;
  }
}

TEST(Encoding, PreferenceOfClients) {
  for (const char* yes : {"gzip", "deflate, gzip", "GZIP;q=0.5", "*", "gzip;q=1.0, identity;q=0.5",
                          "br;q=1.0, gzip;q=0.001", "identity;q=0, gzip", "x-gzip", "gzip ; q=0.3", "*;q=0, gzip"}) {
    EXPECT_TRUE(AcceptsGzip(yes)) << yes;
  }
  for (const char* no : {"", "identity", "deflate", "gzip;q=0", "gzip;q=0.000", "*;q=0", "gzip;q=0, *", "gzip;q=x",
                         "gzip;q=2", "identity, gzip;q=0.5", "notgzip", "gzip;q=-1", "gzip;q=nan"}) {
    EXPECT_FALSE(AcceptsGzip(no)) << no;
  }
}

TEST(Encoding, GunzipIsTheInverseOfGzip) {
  const auto ignore = [](int64_t) {};
  std::string large;
  for (int i = 0; i < 300'000; ++i) large += std::to_string(i);
  for (const std::string& text : {std::string(), std::string("a"), std::string(1'000'000, 'x'), large}) {
    for (const int level : {1, 9}) {
      EXPECT_EQ(Gunzip(Gzip(text, level), std::ssize(text), ignore), text) << text.size();
    }
  }
  EXPECT_EQ(Gunzip(Gzip("one ", 6) + Gzip("", 6) + Gzip("two", 6), 100, ignore), "one two") << "members";
}

TEST(Encoding, RefusesWhatIsNoGzipFile) {
  const std::string good = Gzip("some text, some text", 6);
  const auto status = [](const std::string& packed) {
    return StatusOfCall([&] { Gunzip(packed, 1000, [](int64_t) {}); });
  };
  EXPECT_EQ(status(good), 200);
  EXPECT_EQ(status(""), 400);
  EXPECT_EQ(status("some text"), 400);
  EXPECT_EQ(status(good + "more"), 400);
  for (size_t length = 1; length < good.size(); ++length) EXPECT_EQ(status(good.substr(0, length)), 400) << length;
  std::string damaged = good;
  damaged[good.size() - 6] ^= 1;  // the checksum
  EXPECT_EQ(status(damaged), 400);
}

// Memory is asked for before it is taken, and no more than the limit.
TEST(Encoding, BoundsABomb) {
  const std::string bomb = Gzip(std::string(50'000'000, '\0'), 9);
  EXPECT_LT(bomb.size(), 60'000u);
  int64_t reserved = 0;
  EXPECT_EQ(StatusOfCall([&] { Gunzip(bomb, 1'000'000, [&](int64_t bytes) { reserved += bytes; }); }), 413);
  EXPECT_LE(reserved, 1'000'001);
  reserved = 0;
  EXPECT_EQ(StatusOfCall([&] {
              Gunzip(bomb, 100'000'000, [&](int64_t bytes) {
                if ((reserved += bytes) > 300'000) throw HttpError(429, "rate_limit_error", "no room");
              });
            }),
            429);
  EXPECT_LE(reserved, 1'000'000);
  EXPECT_EQ(StatusOfCall([&] { Gunzip(Gzip("12345", 6), 5, [](int64_t) {}); }), 200);
  EXPECT_EQ(StatusOfCall([&] { Gunzip(Gzip("12345", 6), 4, [](int64_t) {}); }), 413);
}

TEST(Encoding, CountsMemoryThatIsCopied) {
  int64_t reserved = 0, most = 0;
  Gunzip(Gzip(std::string(1'000'000, 'x'), 6), 2'000'000, [&](int64_t bytes) {
    reserved += bytes;
    most = std::max(most, reserved);
  });
  EXPECT_GE(most, 1'500'000) << "the text, and half of it that was there before";
  EXPECT_GE(reserved, 1'000'000);
  EXPECT_LT(reserved, 1'100'000) << "given back";
}

TEST(Encoding, GzipCanBeCancelled) {
  const std::string text(50'000'000, 'x');
  const CancelScope scope([] { return true; });
  EXPECT_THROW(Gzip(text, 1), Cancelled);
}

TEST(StaticAnswer, IsSentOnce) {
  const std::string text(5000, 'x');
  const StaticAnswer answer(text, "text/html");
  const auto get = [&](const char* accept, const std::string& tag) {
    HttpRequest request{.method = "GET", .path = "/"};
    request.headers = {{"accept-encoding", accept}, {"if-none-match", tag}};
    return answer.For(request);
  };
  const auto header = [](const HttpResponse& response, std::string_view name) {
    for (const auto& [key, value] : response.headers) {
      if (key == name) return value;
    }
    return std::string();
  };
  const HttpResponse plain = get("", ""), packed = get("gzip", "");
  EXPECT_EQ(plain.body, text);
  EXPECT_EQ(header(packed, "Content-Encoding"), "gzip");
  EXPECT_EQ(Gunzip(packed.body, 5000, [](int64_t) {}), text);
  const std::string tag = header(plain, "ETag");
  EXPECT_NE(tag, header(packed, "ETag")) << "strong tags are of bytes";
  EXPECT_TRUE(tag.starts_with('"')) << tag;
  for (const std::string& same : {tag, "W/" + tag, "\"other\", " + tag, std::string("*")}) {
    const HttpResponse unchanged = get("", same);
    EXPECT_EQ(unchanged.status, 304) << same;
    EXPECT_EQ(unchanged.body, "");
    EXPECT_EQ(header(unchanged, "ETag"), tag);
  }
  EXPECT_EQ(get("gzip", tag).status, 200);
  EXPECT_EQ(get("", "\"other\"").status, 200);
}

}  // namespace
}  // namespace qkv::server
