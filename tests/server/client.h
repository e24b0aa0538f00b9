// A client that sends bytes as they are, for tests of the transport.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "qkv/core/error.h"

namespace qkv::server {

struct Answer {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;
};

class Client {
 public:
  /// from: its own address. Throws Error if nothing listens.
  explicit Client(uint16_t port, double seconds = 20, const char* from = "127.0.0.1") {
    socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
    const timeval limit{static_cast<time_t>(seconds), 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    ::inet_pton(AF_INET, from, &own.sin_addr);
    Require(::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof(own)) == 0, "cannot call from {}", from);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool connected = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    if (!connected) ::close(socket_);
    Require(connected, "cannot connect to port {}", port);
  }
  ~Client() { Close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void Close() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }
  /// Sends no more, and still reads.
  void EndSending() { ::shutdown(socket_, SHUT_WR); }
  /// False if the other side has gone.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  /// The next answer, without 100 Continue. Its body is left out for an answer to HEAD. Throws Error if the connection
  /// ends before it.
  Answer Read(bool head = false) {
    const Answer answer = ReadOne(head);
    return answer.status == 100 ? ReadOne(head) : answer;
  }
  Answer ReadOne(bool head = false) {
    Answer answer;
    const std::string header = Until("\r\n\r\n");
    Require(header.starts_with("HTTP/1."), "no answer of HTTP: {}", header);
    answer.status = std::stoi(header.substr(9, 3));
    for (size_t line = header.find("\r\n") + 2; line + 2 < header.size(); line = header.find("\r\n", line) + 2) {
      const size_t colon = header.find(':', line);
      std::string name = header.substr(line, colon - line);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      answer.headers[name] = header.substr(colon + 2, header.find("\r\n", line) - colon - 2);
    }
    if (head || answer.status == 100 || answer.status == 204) return answer;
    if (answer.headers.contains("content-length")) {
      answer.body = Take(std::stoul(answer.headers["content-length"]));
    } else if (answer.headers["transfer-encoding"] == "chunked") {
      while (const size_t size = std::stoul(Until("\r\n"), nullptr, 16)) {
        answer.body += Take(size);
        Until("\r\n");
      }
      Until("\r\n");
    } else {
      while (Receive()) {
      }
      answer.body = std::move(buffer_);
      buffer_.clear();
    }
    return answer;
  }
  /// True if the other side closes within the client's seconds, without another byte.
  bool IsClosed() {
    char byte = 0;
    return buffer_.empty() && ::recv(socket_, &byte, 1, 0) == 0;
  }

 private:
  bool Receive() {
    char some[4096];
    const ssize_t got = ::recv(socket_, some, sizeof(some), 0);
    if (got <= 0) return false;
    buffer_.append(some, static_cast<size_t>(got));
    return true;
  }
  std::string Until(std::string_view end) {
    size_t found = 0;
    while ((found = buffer_.find(end)) == std::string::npos) {
      Require(Receive(), "the connection ended within an answer: {}", buffer_);
    }
    return Take(found + end.size());
  }
  std::string Take(size_t size) {
    while (buffer_.size() < size) Require(Receive(), "the connection ended within an answer: {}", buffer_);
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  int socket_ = -1;
  std::string buffer_;
};

}  // namespace qkv::server
