// Server-sent events (text/event-stream): an answer that comes in pieces, each a line of JSON.
#pragma once

#include <string_view>

#include "qkv/io/json.h"
#include "qkv/server/router.h"

namespace qkv::server {

class EventStream {
 public:
  explicit EventStream(Call& call) : call_(call) {}
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  /// The first event begins the answer, so an earlier failure has a status of its own. Returns false if the client no
  /// longer takes the answer.
  bool Send(const io::Json& event);
  /// True once the answer has begun: its status is 200 then, even if it fails later.
  bool begun() const { return begun_; }
  /// The last event: {"error"}, as ErrorResponse has it.
  void Fail(int status, std::string_view type, std::string_view message);
  /// The same for an Error, as ErrorResponse has it.
  void Fail(const Error& error);
  /// Ends the answer with "data: [DONE]", as OpenAI does.
  void End();

 private:
  bool Write(std::string_view data);

  Call& call_;
  bool begun_ = false;
};

}  // namespace qkv::server
