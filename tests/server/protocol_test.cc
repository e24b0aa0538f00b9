// HTTP as RFC 9110 and 9112 have it, over real sockets, and what the server says of it: the log, the counters.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "qkv/report/base64.h"
#include "qkv/server/encoding.h"
#include "tests/server/running_server.h"
#include "tests/support/goldens.h"

namespace qkv::server {
namespace {

std::string Golden(const std::string& name) { return GoldenFolder(name).string(); }

std::string Post(std::string_view path, std::string_view body, std::string_view headers) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}Content-Length: {}\r\n\r\n{}", path, headers,
                     body.size(), body);
}

constexpr std::string_view kSmuggled = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST(Protocol, RefusesATransferEncodingThatIsNotChunked) {
  const RunningServer running;
  for (const std::string& fields : {std::string("Transfer-Encoding: xchunked\r\n"),
                                    std::string("Transfer-Encoding: identity\r\n"),
                                    std::string("Transfer-Encoding: gzip\r\n"),
                                    std::string("Transfer-Encoding: \"chunked\"\r\n"),
                                    std::string("Transfer-Encoding: chunked, identity\r\n"),
                                    std::string("Transfer-Encoding: gzip, chunked\r\n"),
                                    std::string("Transfer-Encoding: chunked, chunked\r\n"),
                                    std::string("Transfer-Encoding:\r\n"),
                                    std::string("Transfer-Encoding: chunked;a=b\r\n"),
                                    std::string("Transfer-Encoding: chunk ed\r\n"),
                                    std::string("Transfer-Encoding: chunked,\r\n"),
                                    std::string("Transfer-Encoding: ,chunked\r\n"),
                                    std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                                    std::string("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"),
                                    std::string("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"),
                                    std::string("Transfer-Encoding: \vchunked\r\n"),
                                    std::string("Transfer-Encoding : chunked\r\n"),
                                    std::string("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n"),
                                    std::string("Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"),
                                    std::string("Content-Length: 0\r\nTransfer-Encoding: xchunked\r\n")}) {
    for (const std::string_view method : {"POST /v1/classify", "GET /health"}) {
      Client client(running.port());
      client.Send(fmt::format("{} HTTP/1.1\r\nHost: localhost\r\n{}\r\n0\r\n\r\n{}", method, fields, kSmuggled));
      const Answer answer = client.Read();
      EXPECT_EQ(answer.status, 400) << fields;
      EXPECT_EQ(answer.headers.at("connection"), "close") << fields;
      EXPECT_TRUE(client.IsClosed()) << fields << ": what follows is not taken for a request";
    }
  }
  Client old(running.port());
  old.Send(fmt::format("POST /v1/classify HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{}", kSmuggled));
  EXPECT_EQ(old.Read().status, 400);
  EXPECT_TRUE(old.IsClosed());
  for (const std::string_view name : {"chunked", "Chunked", "CHUNKED \t"}) {
    Client client(running.port());
    client.Send(
        fmt::format("POST /v2/repository/index HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: {}\r\n\r\n"
                    "2\r\n{{}}\r\n0\r\n\r\n{}",
                    name, kSmuggled));
    EXPECT_EQ(client.Read().status, 200) << name;
    EXPECT_EQ(client.Read().status, 200) << "the next request";
  }
}

TEST(Protocol, SkipsOneEmptyLineBeforeARequest) {
  const RunningServer running;
  Client client(running.port());
  for (const std::string_view line : {"\r\n", "\n", ""}) {
    client.Send(fmt::format("{}{}", line, kSmuggled));
    EXPECT_EQ(client.Read().status, 200);
  }
  client.Send("\r\n");  // behind a body, and nothing follows for a while
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  client.Send(kSmuggled);
  EXPECT_EQ(client.Read().status, 200);
  for (const std::string_view lines : {"\r\n\r\n", "\n\n", "\r\n\n", " \r\n", "\r"}) {
    Client other(running.port());
    other.Send(fmt::format("{}{}", lines, kSmuggled));
    EXPECT_EQ(other.Read().status, 400) << lines.size();
    EXPECT_TRUE(other.IsClosed());
  }
}

TEST(Protocol, ReadsHostStrictly) {
  const RunningServer running;
  const auto status = [&](std::string_view target, std::string_view host) {
    return running.Call(fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", target, host)).status;
  };
  for (const char* own : {"localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]", "[::1]:8080"}) {
    EXPECT_EQ(status("/health", own), 200) << own;
  }
  for (const char* malformed : {"", "[", "[]", "[::1].evil.example", "user@localhost", "localhost:x", "localhost:65536",
                                "local host", "::1", "localhost/", "[::1%25lo]", "localhost, localhost"}) {
    EXPECT_EQ(status("/health", malformed), 400) << malformed;
    EXPECT_EQ(status("http://localhost/health", malformed), 400) << malformed;
    if (*malformed == '\0') continue;
    EXPECT_NE(status(fmt::format("http://{}/health", malformed), "localhost"), 200) << malformed;
  }
  EXPECT_EQ(status("/health", "evil.example"), 403);
  EXPECT_EQ(status("/health", "127.0.0.1.evil.example"), 403);
  EXPECT_EQ(status("http://evil.example/health", "localhost"), 403);
  for (const char* address : {"HTTP://localhost/health", "Https://127.0.0.1:80/health", "http://[::1]/health"}) {
    EXPECT_EQ(status(address, "localhost"), 200) << address;
  }
  for (const char* wrong : {"ftp://localhost/health", "http:///health", "http:/localhost/health", "http://"}) {
    EXPECT_EQ(status(wrong, "localhost"), 400) << wrong;
  }
}

TEST(Protocol, UnpacksBodiesOfEveryRoute) {
  ServerConfig config;
  config.limits.body = 1'000'000;
  config.models = {{.id = "digits"}, {.id = "bert", .path = Golden("tasks/bert")}};
  const RunningServer running(config);
  const std::string image = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  const std::string encoded = report::Base64(std::as_bytes(std::span(image)));
  constexpr std::string_view kJson = "Content-Type: application/json\r\n";
  const std::tuple<const char*, std::string, std::string_view> kRequests[] = {
      {"/v1/classify?model=digits", image, "Content-Type: image/png\r\n"},
      {"/v1/classify", io::Json({{"model", "digits"}, {"image", encoded}}).dump(), kJson},
      {"/v1/embeddings", R"({"model": "bert", "input": "a text"})", kJson},
      {"/v2/models/digits/infer", image, "Inference-Header-Content-Length: 0\r\n"},
      {"/v2/repository/index", "{}", kJson},
      {"/explore/models", "{}", kJson}};
  for (const auto& [path, body, type] : kRequests) {
    const auto send = [&, path = path, type = type](std::string_view bytes, std::string_view encoding) {
      return running.Call(Post(path, bytes, fmt::format("{}Content-Encoding: {}\r\n", type, encoding)));
    };
    const Answer plain = running.Call(Post(path, body, type));
    ASSERT_EQ(plain.status, 200) << path << plain.body;
    EXPECT_EQ(send(Gzip(body, 6), "gzip").body, plain.body) << path;
    EXPECT_EQ(send(Gzip(body, 6), "X-GZIP").body, plain.body) << path;
    EXPECT_EQ(send(body, "identity").body, plain.body) << path;
    EXPECT_EQ(send(body, "gzip").status, 400) << path << ": not compressed";
    EXPECT_EQ(send(Gzip(std::string(20'000'000, ' '), 9), "gzip").status, 413) << path;
    for (const char* other : {"deflate", "br", "zstd", "gzip, gzip", "compress"}) {
      const Answer refused = send(Gzip(body, 6), other);
      EXPECT_EQ(refused.status, 415) << path << other;
      EXPECT_EQ(refused.headers.at("accept-encoding"), "gzip");
    }
    EXPECT_EQ(send(Gzip(body, 6), "gzip\r\nContent-Encoding: gzip").status, 415) << path;
  }
}

TEST(Protocol, UnpackedBodiesCountAmongAll) {
  ServerConfig config;
  config.limits.body = 2'000'000, config.limits.bodies = 2'000'000;
  const RunningServer running(config);
  const auto send = [&](size_t bytes) {
    const std::string body = "{}" + std::string(bytes, ' ');
    return running.Call(Post("/v2/repository/index", Gzip(body, 9), "Content-Encoding: gzip\r\n")).status;
  };
  for (int i = 0; i < 5; ++i) EXPECT_EQ(send(1'000'000), 200) << "given back";
  EXPECT_EQ(send(1'999'998), 429) << "with the compressed body it is too much";
}

TEST(Protocol, CompressesAnswersOnRequest) {
  const RunningServer running;
  const Answer plain = running.Call(Get("/openapi.json")),
               packed = running.Call(Get("/openapi.json", "Accept-Encoding: br, gzip\r\n"));
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  EXPECT_EQ(packed.headers.at("vary"), "Accept-Encoding");
  EXPECT_EQ(plain.headers.at("vary"), "Accept-Encoding");
  EXPECT_LT(packed.body.size(), plain.body.size() / 4);
  EXPECT_EQ(Gunzip(packed.body, 10'000'000, [](int64_t) {}), plain.body);
  EXPECT_EQ(running.Call(Get("/openapi.json", "Accept-Encoding: gzip;q=0\r\n")).body, plain.body);
  const Answer unchanged =
      running.Call(Get("/", "If-None-Match: " + running.Call(Get("/")).headers.at("etag") + "\r\n"));
  EXPECT_EQ(unchanged.status, 304);
  EXPECT_FALSE(unchanged.headers.contains("content-length"));
  const Answer metrics = running.Call(Get("/metrics", "Accept-Encoding: gzip\r\n"));
  EXPECT_NE(Gunzip(metrics.body, 10'000'000, [](int64_t) {}).find("process_resident_memory_bytes"), std::string::npos);
  EXPECT_FALSE(running.Call(Get("/health", "Accept-Encoding: gzip\r\n")).headers.contains("content-encoding"))
      << "small";
}

TEST(Protocol, AClientThatLeavesIsNoFailure) {
  ServerConfig config;
  config.models = {{.id = "t5", .path = Golden("tasks/t5")}};
  config.models[0].tasks = {"translate", "summarize"};
  RunningServer running(config);
  const io::Json slow = {{"model", "t5"},
                         {"text", std::vector<std::string>(32, "The house is green.")},
                         {"beams", 64},
                         {"max_tokens", 3000},
                         {"min_tokens", 3000}};
  io::Json stream = {{"text", "The house is green."}, {"stream", true}, {"max_tokens", 20000}, {"min_tokens", 20000}};
  {
    Client reading(running.port()), computing(running.port()), streaming(running.port());
    reading.Send("POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nab");
    streaming.Send(PostJson("/v1/summarize", stream));
    computing.Send(PostJson("/v1/translate", slow));
    const auto begun = [&] { return running.Call(Get("/metrics")).body.find("qkv_queue_depth{") != std::string::npos; };
    for (int i = 0; i < 200 && !begun(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  std::string counters;
  const auto left = [&] {
    counters = running.Call(Get("/metrics")).body;
    return counters.find("qkv_clients_left_total{route=\"/v1/translate\"} 1") != std::string::npos &&
           counters.find("qkv_clients_left_total{route=\"/v1/summarize\"} 1") != std::string::npos &&
           counters.find("qkv_clients_left_total{route=\"/v1/classify\"} 1") != std::string::npos;
  };
  for (int i = 0; i < 600 && !left(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_TRUE(left()) << counters;
  EXPECT_EQ(counters.find("status=\"5"), std::string::npos) << counters;
  const Answer stats = running.Call(Get("/v2/models/t5/stats"));
  EXPECT_EQ(io::Json::parse(stats.body)["model_stats"][0]["inference_stats"]["fail"]["count"], 0) << stats.body;
  running.End();
  for (const char* path : {"/v1/classify", "/v1/translate", "/v1/summarize"}) {
    const std::vector<io::Json> lines = running.Requests(path);
    ASSERT_EQ(lines.size(), 1u) << path;
    EXPECT_EQ(lines[0]["status"], 499) << lines[0];
    EXPECT_EQ(lines[0]["client_left"], true);
    EXPECT_EQ(lines[0]["level"], "info");
    EXPECT_EQ(lines[0].value("model", ""), std::string_view(path) == "/v1/classify" ? "" : "t5");
  }
}

TEST(Protocol, LogsWhatARequestTook) {
  ServerConfig config;
  config.trusted_proxies = {"127.0.0.0/8"};
  config.limits.body = 2000;
  RunningServer running(config);
  const std::string image = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  const Answer answer = running.Call(Post("/v1/classify", image,
                                          "Content-Type: image/png\r\nUser-Agent: " + std::string(1000, 'u') +
                                              "\r\nX-Forwarded-For: 1.1.1.1, 203.0.113.7\r\n"));
  ASSERT_EQ(answer.status, 200) << answer.body;
  running.Call("POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000\r\n\r\n");
  running.Call("GET /v1/models?x=" + std::string(20'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  running.End();
  const std::vector<io::Json> lines = running.Requests("/v1/classify");
  ASSERT_EQ(lines.size(), 1u);
  const io::Json& line = lines[0];
  EXPECT_EQ(line["model"], "digits");
  EXPECT_EQ(line["peer"], "203.0.113.7");
  EXPECT_EQ(line["proxy"], "127.0.0.1");
  EXPECT_EQ(line["bytes_in"], image.size());
  EXPECT_EQ(line["bytes"], answer.body.size());
  EXPECT_EQ(line["user_agent"], std::string(200, 'u'));
  EXPECT_TRUE(line["queue_ms"].is_number() && line["compute_ms"].is_number());
  for (const auto& [path, status] : {std::pair("/v1/embeddings", 413), std::pair("/v1/models", 431)}) {
    const std::vector<io::Json> refused = running.Requests(path);
    ASSERT_EQ(refused.size(), 1u) << path;
    EXPECT_EQ(refused[0]["status"], status);
    EXPECT_EQ(refused[0]["level"], "warning");
  }
}

TEST(Protocol, CountsTheExplorersCallsApart) {
  const RunningServer running;
  EXPECT_EQ(running.Call(Post("/explore/models", "{}", "Content-Type: application/json\r\n")).status, 200);
  EXPECT_EQ(running.Call(Post("/explore/nothing", "{}", "Content-Type: application/json\r\n")).status, 404);
  const std::string counters = running.Call(Get("/metrics")).body;
  EXPECT_NE(counters.find("qkv_request_seconds_count{route=\"/explore/models\"} 1"), std::string::npos) << counters;
  EXPECT_NE(counters.find("qkv_request_seconds_count{route=\"/explore/{call}\"} 1"), std::string::npos);
  EXPECT_NE(counters.find("qkv_build_info{version=\""), std::string::npos);
  for (const char* name : {"process_cpu_seconds_total", "process_virtual_memory_bytes", "process_open_fds",
                           "process_max_fds", "process_start_time_seconds", "process_threads"}) {
    EXPECT_NE(counters.find(fmt::format("\n{} ", name)), std::string::npos) << name;
  }
}

int StatusWithKey(const RunningServer& running, std::string_view key) {
  return running.Call(Get("/v1/models", fmt::format("Authorization: Bearer {}\r\n", key))).status;
}

TEST(Protocol, TakesNewKeysAtSighup) {
  const TemporaryFolder folder;
  const auto write = [&](const char* keys) { std::ofstream(folder / "keys") << keys; };
  write("old\nboth\n");
  const auto read = [&] {
    ServerConfig config;
    config.models = {{.id = "digits"}};
    config.api_keys = ReadKeyFile(folder / "keys");
    return config;
  };
  RunningServer running(read(), read);
  EXPECT_EQ(StatusWithKey(running, "old"), 200);
  EXPECT_EQ(StatusWithKey(running, "new"), 401);
  EXPECT_EQ(running.Call(Get("/v1/models", "Authorization: old\r\n")).status, 401) << "without its scheme";
  write("# both, and a new one\n new \nboth\n");
  ::raise(SIGHUP);
  for (int i = 0; i < 200 && StatusWithKey(running, "new") != 200; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(StatusWithKey(running, "new"), 200);
  EXPECT_EQ(StatusWithKey(running, "both"), 200);
  EXPECT_EQ(StatusWithKey(running, "old"), 401);
  write("# none\n");
  ::raise(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(StatusWithKey(running, "new"), 200) << "a file without keys changes nothing";
  EXPECT_EQ(running.Call(Get("/v1/models")).status, 401);
  running.End();
  EXPECT_TRUE(std::any_of(running.log().begin(), running.log().end(),
                          [](const io::Json& line) { return line["event"] == "reload" && line["level"] == "error"; }));
}

TEST(Protocol, IsNotReadyForAMomentBeforeItEnds) {
  ServerConfig config;
  config.notice_seconds = 3600;
  RunningServer running(config);
  EXPECT_EQ(running.Call(Get("/v2/health/ready")).status, 200);
  ::raise(SIGTERM);
  int status = 200;
  for (int i = 0; i < 500 && status == 200; ++i) {
    status = running.Call(Get("/readyz")).status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(status, 503);
  EXPECT_EQ(running.Call(Get("/v2/health/ready")).status, 503);
  for (const char* path : {"/health", "/healthz", "/livez", "/v2/health/live"}) {
    EXPECT_EQ(running.Call(Get(path)).status, 200) << path;
  }
  EXPECT_EQ(running.Call(Classify()).status, 200) << "requests are answered still";
  ::raise(SIGTERM);
  EXPECT_EQ(running.Failure(), "") << "a second one ends it at once";
}

TEST(Protocol, AnUnloadedModelIsNotReady) {
  const RunningServer running;
  const auto ready = [&] { return running.Call(Get("/v2/models/digits/ready")).status; };
  EXPECT_EQ(ready(), 200) << "not loaded yet, but at its first request";
  EXPECT_EQ(running.Call(Post("/v2/repository/models/digits/unload", "", "")).status, 200);
  EXPECT_EQ(ready(), 400) << "as the protocol has it: no failure";
  EXPECT_EQ(running.Call(Classify()).status, 200);
  EXPECT_EQ(ready(), 200);
}

TEST(Protocol, TellsTritonsStatistics) {
  const RunningServer running;
  EXPECT_EQ(running.Call(Classify(2)).status, 200);
  for (const char* path : {"/v2/models/stats", "/v2/models/digits/stats", "/v2/models/digits/versions/1/stats"}) {
    const Answer answer = running.Call(Get(path));
    const io::Json stats = io::Json::parse(answer.body)["model_stats"];
    ASSERT_EQ(stats.size(), 1u) << answer.body;
    EXPECT_EQ(stats[0]["name"], "digits");
    EXPECT_EQ(stats[0]["inference_count"], 2);
    EXPECT_GE(stats[0]["execution_count"], 1);
    EXPECT_EQ(stats[0]["inference_stats"]["success"]["count"], 1);
    EXPECT_GT(stats[0]["inference_stats"]["compute_infer"]["ns"], 0);
  }
  EXPECT_EQ(running.Call(Get("/v2/models/nothing/stats")).status, 404);
}

}  // namespace
}  // namespace qkv::server
