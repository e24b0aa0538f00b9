#include "qkv/server/event_stream.h"

#include <fmt/format.h>

#include "qkv/app/open/json_line.h"

namespace qkv::server {
namespace {

void EndStream(Call& call) {
  call.exchange->Note(call.note());
  call.exchange->EndStream();
}

}  // namespace

bool EventStream::Write(std::string_view data) {
  std::string event = fmt::format("data: {}\n\n", data);
  if (begun_) return call_.exchange->Send(std::move(event));
  begun_ = true;
  call_.exchange->Note(call_.note());  // its client may leave before the end
  HttpResponse head{.type = "text/event-stream", .body = std::move(event)};
  head.headers.emplace_back("Cache-Control", "no-cache");
  call_.exchange->BeginStream(std::move(head));
  return !call_.exchange->cancelled();
}

bool EventStream::Send(const io::Json& event) { return Write(app::JsonLine(event)); }

void EventStream::Fail(int status, std::string_view type, std::string_view message) {
  Write(ErrorResponse(status, type, message).body);
  EndStream(call_);
}

void EventStream::Fail(const Error& error) {
  const HttpError failure = AsHttpError(error);
  Fail(failure.status(), failure.type(), failure.what());
}

void EventStream::End() {
  Write("[DONE]");
  EndStream(call_);
}

}  // namespace qkv::server
