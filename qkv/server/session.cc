#include "qkv/server/session.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/write.hpp>
#include <cctype>
#include <ctime>
#include <random>
#include <sstream>
#include <string>
#include <string_view>

#include "qkv/server/encoding.h"
#include "qkv/server/reply.h"

namespace qkv::server {
namespace {

constexpr int64_t kSmall = int64_t{64} << 10;          // bytes of an answer that is sent whatever is reserved
constexpr int64_t kMaxLingering = int64_t{256} << 20;  // bytes of a refused body that are read and dropped
constexpr double kLingerSeconds = 2;
constexpr std::chrono::milliseconds kLook{25};    // between two looks at a connection with bytes that are not read yet
constexpr std::chrono::milliseconds kClosed{50};  // from a client's end of sending until it counts as gone
constexpr size_t kMaxNamed = 1000;                // bytes of a target in the log, if its header is too long

// The category of the parser's errors.
const boost::system::error_category& HttpErrors() { return make_error_code(http::error::bad_method).category(); }

// True for header fields whose values are lists and may be repeated (RFC 9110, 5.3), among those that the server reads.
bool IsList(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kLists = {"accept-encoding", "content-encoding", "if-none-match",
                                                             "x-forwarded-for"};
  return std::find(kLists.begin(), kLists.end(), name) != kLists.end();
}

// The client's own id if it is fit for logs, else a new one.
std::string RequestId(std::string_view given) {
  const auto fit = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
  if (!given.empty() && given.size() <= 128 && std::all_of(given.begin(), given.end(), fit)) return std::string(given);
  static std::mt19937_64 random(std::random_device{}());
  return fmt::format("{:016x}", random());
}

// RFC 9110's form of now.
std::string HttpDate() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  std::array<char, 64> text;
  return {text.data(), std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

// The answer to a request that could not be read; status 0 if its client has gone.
std::pair<int, std::string> StatusOf(const ErrorCode& error, const Limits& limits) {
  if (error == http::error::body_limit) {
    return {413, fmt::format("the request's body is larger than the {} bytes that this server takes (limits.body)",
                             limits.body)};
  }
  if (error == http::error::header_limit) return {431, "the request's header is larger than this server takes"};
  if (error == beast::error::timeout) return {408, "the request did not arrive in time"};
  if (error == http::error::end_of_stream || error == http::error::partial_message) return {0, ""};
  if (error.category() == HttpErrors()) {
    return {400, "the request is not well-formed HTTP"};
  }
  return {0, ""};
}

}  // namespace

std::string AddressText(const net::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address.to_string();
  return net::ip::make_address_v4(net::ip::v4_mapped, address.to_v6()).to_string();
}

// Cancels the current read unless it ends in time.
void Session::LimitReading(double seconds) {
  late_ = false;
  reading_.expires_after(Seconds(seconds));
  reading_.async_wait([self = shared_from_this(), limit = ++limit_](const ErrorCode& error) {
    if (error || self->left_ || limit != self->limit_) return;
    self->late_ = true;
    self->stream_.cancel();
  });
}

void Session::EndLimit() {
  ++limit_;  // its timer may be over already, and its handler on the way
  reading_.cancel();
}

void Session::ReadHeader(double seconds) {
  phase_ = Phase::kIdle;
  skipped_line_ = false;
  stream_.expires_never();
  began_ = Clock::now();
  LimitReading(seconds);
  waits_since_ = Clock::now();
  if (state_->full) state_->Accept();  // it may make room
  if (left_) return;
  ParseHeader();
}

void Session::ParseHeader() {
  parser_.emplace();
  parser_->header_limit(kMaxHeader);
  parser_->body_limit(static_cast<uint64_t>(state_->limits.body));
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](const ErrorCode& error, size_t) { self->OnHeader(error); });
}

// Skips an empty line before a request, which old clients send after a body (RFC 9112, 2.2) and the parser rejects.
bool Session::SkipEmptyLine() {
  const auto bytes = buffer_.data();
  const std::string_view begin(static_cast<const char*>(bytes.data()), bytes.size());
  const size_t length = begin.starts_with("\r\n") ? 2 : begin.starts_with('\n') ? 1 : 0;
  if (skipped_line_ || length == 0) return false;
  skipped_line_ = true;
  buffer_.consume(length);
  return true;
}

void Session::OnHeader(const ErrorCode& error) {
  if (left_) return;
  if (error && SkipEmptyLine() && !late_ && error.category() == HttpErrors()) return ParseHeader();
  EndLimit();
  BeginRequest();
  if (error && late_ && buffer_.size() == 0) return Close();  // no request had begun
  phase_ = Phase::kReading;
  TakeFields();
  if (error) {
    NameTarget();
    return FailToRead(error);
  }
  std::optional<HttpResponse> refusal = Refusal();
  const int64_t length = static_cast<int64_t>(parser_->content_length().value_or(0));
  if (!refusal && length > 0 && !state_->bodies.HasRoom(holder_, length)) refusal = Full();
  if (refusal) {
    const bool body_follows = length > 0 || parser_->get().count(http::field::transfer_encoding) > 0;
    return Write(std::move(*refusal), body_follows);
  }
  if (beast::iequals(parser_->get()[http::field::expect], "100-continue")) {
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    net::async_write(stream_, net::buffer(kContinue), [self = shared_from_this()](const ErrorCode& failed, size_t) {
      if (failed) return self->Close();
      self->ReadBody();
    });
    return;
  }
  ReadBody();
}

void Session::BeginRequest() {
  ++turn_;
  request_ = {};
  request_.peer = peer_;
  holder_ = client_;
  outcome_ = {};
  client_gone_ = false;
  if (!late_) began_ = Clock::now();
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  unsent_ = std::make_shared<std::atomic<int64_t>>(0);
}

void Session::TakeFields() {
  const auto& message = parser_->get();
  version_ = message.version();
  keep_alive_ = message.keep_alive();
  request_.method = message.method_string();
  head_only_ = message.method() == http::verb::head;
  for (const auto& field : message) {
    std::string name(field.name_string());
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto [known, is_new] = request_.headers.emplace(std::move(name), field.value());
    if (!is_new && IsList(known->first)) known->second.append(", ").append(field.value());
  }
  request_.id = RequestId(request_.Header("x-request-id"));
  if (!state_->hooks.client) return;
  const std::string client = state_->hooks.client(request_);
  if (client.empty() || client == peer_) return;
  request_.proxy = peer_;
  request_.peer = client;
  holder_ = ClientOfAddress(client);
}

// Extracts, for the log, the path of a request whose header cannot be read.
void Session::NameTarget() {
  const auto target = parser_->get().target();
  std::string_view path(target.data(), target.size());
  if (path.empty()) {  // the header is too long, and was not parsed
    std::string_view line(static_cast<const char*>(buffer_.data().data()), buffer_.size());
    line = line.substr(0, line.find('\n'));
    path = line.substr(std::min(line.find(' ') + 1, line.size()));
    path = path.substr(0, path.find(' '));
    if (!path.starts_with('/')) return;
  }
  HttpRequest named;
  try {
    ParseTarget(path.substr(0, kMaxNamed), &named);
  } catch (const HttpError&) {
    return;
  }
  request_.path = named.path;
}

// The reason not to read a request further.
std::optional<HttpResponse> Session::Refusal() {
  const auto& message = parser_->get();
  try {
    const size_t hosts = message.count(http::field::host);
    if (hosts > 1 || (version_ >= 11 && hosts == 0)) BadRequest("Host: expected one");
    ParseTarget({message.target().data(), message.target().size()}, &request_);
    RequireFraming();
    outcome_.admitted = true;
    if (std::optional<HttpResponse> refusal = state_->hooks.admit(request_)) return refusal;
    IsGzip(request_.Header("content-encoding"));
    return std::nullopt;
  } catch (const HttpError& wrong) {
    HttpResponse refusal = ErrorResponse(wrong.status(), wrong.type(), wrong.what(), request_.path);
    if (wrong.status() == 415) refusal.headers.emplace_back("Accept-Encoding", "gzip");
    return refusal;
  }
}

// The end of a body must be unambiguous, or only one side could take its bytes for a request (RFC 9112, 6).
void Session::RequireFraming() const {
  const auto& message = parser_->get();
  const size_t count = message.count(http::field::transfer_encoding);
  if (count == 0) return;
  if (count == 1 && beast::iequals(message[http::field::transfer_encoding], "chunked") && parser_->chunked() &&
      version_ >= 11 && message.count(http::field::content_length) == 0) {
    return;
  }
  BadRequest("Transfer-Encoding", "chunked alone, without Content-Length, and not of version 1.0");
}

void Session::Hold(int64_t bytes) {
  reserved_ += bytes;
  state_->bodies.Hold(holder_, bytes);
}

bool Session::Reserve(int64_t bytes) {
  if (!state_->bodies.Reserve(holder_, bytes)) return false;
  reserved_ += bytes;
  return true;
}

HttpResponse Session::Full() const { return ErrorResponse(429, "rate_limit_error", kNoRoom, request_.path); }

void Session::ReadBody() {
  LimitReading(state_->limits.transfer_seconds);
  if (parser_->is_done()) return OnBody({});
  ReadSome();
}

// Memory is reserved as bytes arrive: an announced length reserves nothing.
void Session::ReadSome() {
  waits_since_ = Clock::now();
  http::async_read_some(stream_, buffer_, *parser_, [self = shared_from_this()](const ErrorCode& error, size_t) {
    if (error || self->left_ || self->parser_->is_done()) return self->OnBody(error);
    if (!self->Reserve(std::ssize(self->parser_->get().body()) - self->reserved_)) {
      self->EndLimit();
      return self->Write(self->Full(), true);
    }
    self->ReadSome();
  });
}

void Session::OnBody(const ErrorCode& error) {
  if (left_) return;
  EndLimit();
  outcome_.received = std::ssize(parser_->get().body());
  if (error) return FailToRead(error);
  phase_ = Phase::kWorking;
  HttpRequest whole = request_;  // logs need the rest of it afterwards
  whole.body = std::move(parser_->get().body());
  Release();
  Hold(std::ssize(whole.body));
  Watch();
  state_->hooks.handle(std::make_shared<Reply>(shared_from_this(), std::move(whole), cancelled_));
}

void Session::FailToRead(ErrorCode error) {
  if (late_) error = beast::error::timeout;
  const auto [status, why] = StatusOf(error, state_->limits);
  if (status == 0) return Close();
  Write(ErrorResponse(status, "invalid_request_error", why, request_.path), true);
}

// Notices if the client leaves before its answer is ready.
void Session::Watch() {
  stream_.socket().async_wait(tcp::socket::wait_read,
                              [self = shared_from_this(), turn = turn_](const ErrorCode& error) {
                                if (error || self->left_ || turn != self->turn_ || self->phase_ == Phase::kIdle) return;
                                char next = 0;
                                ErrorCode state;
                                self->stream_.socket().non_blocking(true, state);
                                self->stream_.socket().receive(net::buffer(&next, 1), tcp::socket::message_peek, state);
                                if (state == net::error::would_block || state == net::error::try_again)
                                  return self->Watch();
                                // Its end, or bytes of the next request: from now on the socket is always ready to be
                                // read.
                                self->WatchSlowly(std::nullopt);
                              });
}

// A client that has stopped sending may still wait for its answer (shutdown), or have gone (close): the network signals
// both alike until something is sent. So the answer may take a while; then the client counts as gone. A stream sends
// something all the time.
void Session::WatchSlowly(std::optional<Clock::time_point> closed) {
  pollfd state{.fd = stream_.socket().native_handle(), .events = POLLRDHUP, .revents = 0};
  ::poll(&state, 1, 0);
  const Clock::time_point now = Clock::now();
  if ((state.revents & POLLRDHUP) != 0) {
    keep_alive_ = false;
    if (!closed) closed = now;
  }
  const bool reset = (state.revents & (POLLERR | POLLHUP)) != 0;
  if (reset || (closed && phase_ == Phase::kWorking && now >= *closed + kClosed)) {
    *cancelled_ = client_gone_ = true;
    return;
  }
  watching_.expires_after(kLook);
  watching_.async_wait([self = shared_from_this(), turn = turn_, closed](const ErrorCode& error) {
    if (error || self->left_ || turn != self->turn_ || self->phase_ == Phase::kIdle) return;
    self->WatchSlowly(closed);
  });
}

void Session::EndWatch() {
  ErrorCode ignored;
  stream_.socket().cancel(ignored);
  watching_.cancel();
}

http::response<http::string_body> Session::Message(HttpResponse& response, bool close_after) const {
  http::response<http::string_body> message(static_cast<http::status>(response.status), version_);
  message.set(http::field::server, "qkv");
  message.set(http::field::date, HttpDate());
  if (!response.type.empty()) message.set(http::field::content_type, response.type);
  message.set("X-Request-Id", request_.id);
  message.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : response.headers) message.set(name, value);
  if (state_->hooks.headers) {
    for (const auto& [name, value] : state_->hooks.headers(request_)) {
      // Vary is a list: an answer may differ by encodings and by origins.
      name == "Vary" ? message.insert(name, value) : message.set(name, value);
    }
  }
  message.keep_alive(keep_alive_ && !close_after && !state_->stopping);
  return message;
}

void Session::Write(HttpResponse response, bool close_after) {
  if (left_) return;
  if (response.status == 499) return Close();
  phase_ = Phase::kWriting;
  // The request's body is freed; the answer is held until its client has taken it.
  Release();
  const int64_t size = std::ssize(response.body);
  if (size <= kSmall || state_->bodies.total() == 0) {
    Hold(size);
  } else if (!Reserve(size)) {
    response = Full();
  }
  outcome_.status = response.status;
  outcome_.sent = head_only_ ? 0 : std::ssize(response.body);
  response_ = Message(response, close_after);
  if (response.status != 204 && response.status != 304) response_->content_length(response.body.size());
  if (!head_only_) response_->body() = std::move(response.body);
  EndWatch();
  stream_.expires_after(Seconds(state_->limits.transfer_seconds));
  waits_since_ = Clock::now();
  http::async_write(stream_, *response_,
                    [self = shared_from_this(), close_after](const ErrorCode& error, size_t bytes) {
                      self->OnWritten(error, bytes, close_after);
                    });
}

void Session::OnWritten(const ErrorCode& error, size_t, bool close_after) {
  if (left_) return;
  const bool streamed = !response_;
  response_.reset();
  if (error) return Leave(), stream_.close();
  const bool bad_reading = close_after;
  Ended(streamed && client_gone_);  // a stream ends early then; a whole answer was written
  Release();
  if (bad_reading) return Linger(kMaxLingering, Clock::now() + Seconds(kLingerSeconds));
  if (!keep_alive_ || state_->stopping) return Close();
  ReadHeader(state_->limits.idle_seconds);
}

// Answers a request that was not read to its end: a connection closed at once would be reset, and its client could lose
// the answer.
void Session::Linger(int64_t left, Clock::time_point until) {
  phase_ = Phase::kIdle;
  ErrorCode ignored;
  stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  stream_.expires_at(until);
  buffer_.clear();
  stream_.async_read_some(buffer_.prepare(64 << 10),
                          [self = shared_from_this(), left, until](const ErrorCode& error, size_t got) {
                            if (self->left_) return;
                            if (error || left <= static_cast<int64_t>(got)) return self->Close();
                            self->Linger(left - static_cast<int64_t>(got), until);
                          });
}

void Session::BeginStream(HttpResponse head) {
  if (left_) return;
  phase_ = Phase::kWriting;
  outcome_.status = head.status;
  chunked_ = version_ >= 11;
  if (!chunked_) keep_alive_ = false;
  std::string first = std::move(head.body);
  http::response<http::string_body> message = Message(head, false);
  if (chunked_) message.chunked(true);
  std::ostringstream header;
  header << message.base();
  pieces_.clear();
  last_queued_ = false;
  pieces_.push_back({std::move(header).str()});
  if (!first.empty()) {
    Queue(std::move(first), false);
  } else {
    WriteQueue();
  }
}

void Session::Queue(std::string piece, bool last) {
  if (left_ || last_queued_) return;
  last_queued_ = last;
  outcome_.sent += std::ssize(piece);
  const int64_t counted = std::ssize(piece);
  if (!piece.empty()) {
    Hold(counted);
    if (chunked_) piece = fmt::format("{:x}\r\n{}\r\n", piece.size(), piece);
    pieces_.push_back({std::move(piece), counted});
  }
  if (last && chunked_) pieces_.push_back({"0\r\n\r\n"});
  WriteQueue();
}

void Session::WriteQueue() {
  if (sending_ || left_) return;
  if (pieces_.empty()) {
    if (!last_queued_) return;
    EndWatch();
    return OnWritten({}, 0, false);
  }
  sending_ = true;
  stream_.expires_after(Seconds(state_->limits.transfer_seconds));
  waits_since_ = Clock::now();
  net::async_write(stream_, net::buffer(pieces_.front().bytes),
                   [self = shared_from_this()](const ErrorCode& error, size_t) {
                     self->sending_ = false;
                     if (self->left_) return;
                     const int64_t counted = self->pieces_.front().counted;
                     *self->unsent_ -= counted;
                     self->Release(counted);
                     self->pieces_.pop_front();
                     if (error) {
                       *self->cancelled_ = true;
                       return self->Close();
                     }
                     self->WriteQueue();
                   });
}

void Session::Ended(bool client_left) {
  outcome_.client_left = client_left;
  outcome_.seconds = std::chrono::duration<double>(Clock::now() - began_).count();
  outcome_.given_up = gave_up_ && !client_left;
  if (client_left) outcome_.status = 499;
  if (outcome_.given_up) outcome_.status = 503;
  phase_ = Phase::kIdle;
  if (state_->hooks.ended) state_->hooks.ended(request_, outcome_);
}

}  // namespace qkv::server
