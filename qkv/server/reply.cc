#include "qkv/server/reply.h"

#include <new>
#include <utility>

#include "qkv/server/encoding.h"

namespace qkv::server {
namespace {

constexpr int64_t kMaxUnsent = int64_t{4} << 20;  // bytes of a stream that its client has not taken

bool IsJson(std::string_view body) {
  const size_t first = body.find_first_not_of(" \t\r\n");
  return first != body.npos && body[first] == '{';
}

}  // namespace

Reply::Reply(std::shared_ptr<Session> session, HttpRequest request, std::shared_ptr<std::atomic<bool>> cancelled)
    : session_(std::move(session)), cancelled_(std::move(cancelled)), unsent_(session_->unsent()) {
  request_ = std::move(request);
  holder_ = ClientOfAddress(request_.peer);
  received_ = std::ssize(request_.body);
}

Reply::~Reply() {
  try {
    if (!answered_) {
      Respond(ErrorResponse(500, "server_error", "the request was not answered", request_.path));
    } else if (streaming_) {
      EndStream();
    }
  } catch (const std::bad_alloc&) {  // without memory there is no answer
  }
  Free();
}

void Reply::PrepareBody() {
  if (!request_.body.empty() && IsGzip(request_.Header("content-encoding"))) {
    const auto reserve = [this](int64_t bytes) { Reserve(bytes); };
    request_.body = Gunzip(request_.body, session_->state()->limits.body, reserve);
  }
  if (IsJson(request_.body)) HoldJson();
}

void Reply::Reserve(int64_t bytes) {
  ClientBytes& all = session_->state()->bodies;
  if (bytes < 0) {
    all.Release(holder_, -bytes);
  } else if (!all.Reserve(holder_, bytes)) {
    throw HttpError(429, "rate_limit_error", std::string(kNoRoom));
  }
  reserved_ += bytes;
}

void Reply::Free() { session_->state()->bodies.Release(holder_, std::exchange(reserved_, 0)); }

// A request alone always has room, or a server of small limits could never read it.
void Reply::HoldJson() {
  const int64_t bytes = (kMostCopies - 1) * std::ssize(request_.body);
  ClientBytes& all = session_->state()->bodies;
  if (all.total() != received_ + reserved_) return Reserve(bytes);
  all.Hold(holder_, bytes);
  reserved_ += bytes;
}

void Reply::Note(WorkNote note) {
  session_->Post([session = session_, note = std::move(note)]() mutable { session->Note(std::move(note)); });
}

void Reply::Respond(HttpResponse response) {
  if (answered_) {  // the stream had begun, so a failure can only end it
    if (streaming_) EndStream();
    return;
  }
  answered_ = true;
  Free();  // before the client knows, since it may send the next request at once
  session_->Post(
      [session = session_, response = std::move(response)]() mutable { session->Write(std::move(response), false); });
}

void Reply::BeginStream(HttpResponse head) {
  answered_ = streaming_ = true;
  *unsent_ += std::ssize(head.body);
  session_->Post([session = session_, head = std::move(head)]() mutable { session->BeginStream(std::move(head)); });
}

bool Reply::Send(std::string piece) {
  if (cancelled() || *unsent_ > kMaxUnsent) return false;
  *unsent_ += std::ssize(piece);
  session_->Post([session = session_, piece = std::move(piece)]() mutable { session->Queue(std::move(piece), false); });
  return true;
}

void Reply::EndStream() {
  streaming_ = false;
  Free();
  session_->Post([session = session_] { session->Queue("", true); });
}

}  // namespace qkv::server
