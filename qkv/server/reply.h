// A handler's access to its connection. Internal to session.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "qkv/server/exchange.h"
#include "qkv/server/session.h"

namespace qkv::server {

inline constexpr std::string_view kNoRoom = "the server holds as many requests as its memory allows";

/// Every call is posted to the server's thread.
class Reply final : public Exchange {
 public:
  /// The session has reserved the request's body. cancelled: true once the answer is no longer needed.
  Reply(std::shared_ptr<Session> session, HttpRequest request, std::shared_ptr<std::atomic<bool>> cancelled);
  ~Reply() override;
  Reply(const Reply&) = delete;
  Reply& operator=(const Reply&) = delete;

  bool cancelled() const override { return *cancelled_; }
  void PrepareBody() override;
  void Note(WorkNote note) override;
  void Respond(HttpResponse response) override;
  void BeginStream(HttpResponse head) override;
  bool Send(std::string piece) override;
  void EndStream() override;

 private:
  void Reserve(int64_t bytes);
  void HoldJson();
  void Free();

  const std::shared_ptr<Session> session_;
  const std::shared_ptr<std::atomic<bool>> cancelled_;
  const std::shared_ptr<std::atomic<int64_t>> unsent_;
  std::string holder_;    // the client that holds the reserved memory
  int64_t received_ = 0;  // bytes of the body as it came, which the session has reserved
  int64_t reserved_ = 0;  // further bytes
  bool answered_ = false, streaming_ = false;
};

}  // namespace qkv::server
