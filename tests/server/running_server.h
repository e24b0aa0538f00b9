// A server in this process, and requests to it, for tests over real sockets.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/server/server.h"
#include "tests/server/client.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::server {

class RunningServer {
 public:
  explicit RunningServer(ServerConfig config = {}, std::function<ServerConfig()> reload = {})
      : server_(
            [&] {
              config.port = 0;
              if (config.models.empty()) config.models = {{.id = "digits"}};
              return config;
            }(),
            [this](const io::Json& line) { log_.push_back(line); }, std::move(reload)),
        thread_([this] { failure_ = ErrorMessage([this] { server_.Run([this] { gave_up_ = true; }); }); }) {}
  ~RunningServer() { End(); }

  void End() {
    if (!thread_.joinable()) return;
    server_.Stop();
    thread_.join();
  }
  Server& server() { return server_; }
  /// Waits until it has ended by itself; why, or an empty text.
  std::string Failure() {
    thread_.join();
    return failure_;
  }
  uint16_t port() const { return server_.port(); }
  /// True if not all that had begun was answered. Of a server that has ended.
  bool gave_up() const { return gave_up_; }
  /// Of a server that has ended.
  const std::vector<io::Json>& log() const { return log_; }

  /// The log's lines of requests with a path. Of a server that has ended.
  std::vector<io::Json> Requests(std::string_view path) const {
    std::vector<io::Json> lines;
    for (const io::Json& line : log_) {
      if (line["event"] == "request" && line["path"] == path) lines.push_back(line);
    }
    return lines;
  }

  Answer Call(const std::string& request) const {
    Client client(port());
    client.Send(request);
    return client.Read();
  }

 private:
  std::vector<io::Json> log_;  // written by one thread at a time
  std::string failure_;
  bool gave_up_ = false;
  Server server_;
  std::thread thread_;
};

inline std::string Get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n", path, more);
}
inline std::string PostJson(std::string_view path, const io::Json& json) {
  const std::string body = json.dump();
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}", path,
      body.size(), body);
}
inline std::string Classify(int images = 1) {
  const std::string image = ReadFile(SourceFolder() / "examples/digits/7-black.png");
  std::string body;
  for (int i = 0; i < images; ++i) {
    body += "--b\r\nContent-Disposition: form-data; name=\"image\"; filename=\"7.png\"\r\n\r\n" + image + "\r\n";
  }
  body += "--b--\r\n";
  return fmt::format(
      "POST /v1/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
      "Content-Length: {}\r\n\r\n{}",
      body.size(), body);
}

}  // namespace qkv::server
