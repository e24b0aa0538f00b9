// A connection of the HTTP server and the state that all connections share. Internal to http_server.cc and session.cc.
#pragma once

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "qkv/server/client_bytes.h"
#include "qkv/server/growing_body.h"
#include "qkv/server/host.h"
#include "qkv/server/http_server.h"

namespace qkv::server {

class Session;

// Short names for a library with long ones.
namespace beast = boost::beast;
namespace http = beast::http;
namespace net = boost::asio;
using net::ip::tcp;
using Clock = std::chrono::steady_clock;
using ErrorCode = boost::system::error_code;

inline Clock::duration Seconds(double seconds) { return std::chrono::milliseconds(std::llround(1000 * seconds)); }

inline constexpr uint32_t kMaxHeader = 16 << 10;  // bytes of a request's
inline constexpr std::chrono::seconds kTaking{
    1};  // that a client has for an answer before its connection may be closed
// Copies of a body held at once: itself, and for JSON two of each text, the parser's and the value's.
inline constexpr int64_t kMostCopies = 3;

/// State that the connections share. All but `stopping` and `bodies` is used only by the thread of HttpServer::Run.
struct HttpServer::State : std::enable_shared_from_this<State> {
  State(Limits limits_given, Hooks hooks_given)
      : limits(limits_given), hooks(std::move(hooks_given)), bodies(limits.bodies, kMostCopies * limits.body) {}

  void Accept();
  bool OpenNext();
  void AcceptLater();
  Session* LongestWaiting() const;
  void Open(tcp::socket socket);
  void Remove(Session* session);
  void Drain();
  void Abort();  // closes unanswered connections
  void EndIfDone();
  void AwaitSignals();
  void OnSignal(int number);

  net::io_context context{1};
  net::executor_work_guard<net::io_context::executor_type> work = net::make_work_guard(context);
  tcp::acceptor acceptor{context};
  net::signal_set signals{context};
  net::steady_timer notice{context}, deadline{context}, grace{context}, pause{context};
  const Limits limits;
  const Hooks hooks;
  std::string address;
  double drain_seconds = 0, notice_seconds = 0;
  bool ending = false;  // a signal has come
  std::atomic<bool> stopping{false};
  std::set<Session*> sessions;      // that are open
  std::optional<tcp::socket> next;  // accepted, and not open yet
  bool accepting = false, full = false;
  ClientBytes bodies;  // and answers
};

/// An IPv4 address in its own form, also if an IPv6 socket accepted it.
std::string AddressText(const net::ip::address& address);

/// One connection: reads requests one after the other and writes their answers. Its members are called on the thread of
/// HttpServer::Run; other threads reach it by Post.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<HttpServer::State> state, tcp::socket socket)
      : state_(std::move(state)),
        stream_(std::move(socket)),
        reading_(state_->context),
        watching_(state_->context),
        buffer_(kMaxHeader + (64 << 10)) {
    ErrorCode ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
    const tcp::endpoint peer = stream_.socket().remote_endpoint(ignored);
    if (!ignored) peer_ = AddressText(peer.address()), client_ = ClientOfAddress(peer_);
  }

  void Begin() { ReadHeader(state_->limits.header_seconds); }
  bool idle() const { return phase_ == Phase::kIdle; }
  // True if it waits for its client: to send, or to take what is sent.
  bool waits() const {
    if (phase_ == Phase::kWriting) return (response_ || sending_) && Clock::now() > waits_since_ + kTaking;
    return phase_ != Phase::kWorking;
  }
  Clock::time_point since() const { return waits_since_; }
  const std::string& client() const { return client_; }
  template <typename F>
  void Post(F&& f) {
    net::post(state_->context, std::forward<F>(f));
  }

  // Drops everything at the server's end.
  void Abort() {
    gave_up_ = true;
    *cancelled_ = true;
    Close();
  }
  void Close() {
    ErrorCode ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    Leave();
  }

  void Write(HttpResponse response, bool close_after);
  void BeginStream(HttpResponse head);
  void Queue(std::string piece, bool last);
  void Note(WorkNote note) { outcome_.work = std::move(note); }
  const std::shared_ptr<HttpServer::State>& state() const { return state_; }
  std::shared_ptr<std::atomic<int64_t>> unsent() const { return unsent_; }

 private:
  enum class Phase { kIdle, kReading, kWorking, kWriting };

  // Part of a stream, framed.
  struct Piece {
    std::string bytes;
    int64_t counted = 0;  // of unsent_
  };

  void LimitReading(double seconds);
  void EndLimit();
  void ReadHeader(double seconds);
  void ParseHeader();
  bool SkipEmptyLine();
  void OnHeader(const ErrorCode& error);
  void BeginRequest();
  void TakeFields();
  void NameTarget();
  std::optional<HttpResponse> Refusal();
  void RequireFraming() const;
  void Hold(int64_t bytes);
  bool Reserve(int64_t bytes);
  HttpResponse Full() const;
  void ReadBody();
  void ReadSome();
  void OnBody(const ErrorCode& error);
  void Watch();
  void WatchSlowly(std::optional<Clock::time_point> closed);
  void EndWatch();
  void FailToRead(ErrorCode error);
  void Linger(int64_t left, Clock::time_point until);
  void OnWritten(const ErrorCode& error, size_t bytes, bool close_after);
  void WriteQueue();
  void Ended(bool client_left);
  void Leave() {
    if (left_) return;
    left_ = true;
    EndLimit();
    watching_.cancel();
    const bool counted = phase_ == Phase::kReading && outcome_.admitted;
    if (counted || phase_ == Phase::kWorking || phase_ == Phase::kWriting) Ended(client_gone_ || !gave_up_);
    Release();
    state_->Remove(this);
  }
  void Release() { Release(reserved_); }
  void Release(int64_t bytes) {
    state_->bodies.Release(holder_, bytes);
    reserved_ -= bytes;
  }
  http::response<http::string_body> Message(HttpResponse& response, bool close_after) const;

  std::shared_ptr<HttpServer::State> state_;
  beast::tcp_stream stream_;
  // tcp_stream's own timer closes the socket, and then there is no answering.
  net::steady_timer reading_, watching_;
  uint64_t limit_ = 0;         // counts its uses
  bool late_ = false;          // the request did not arrive in time
  bool skipped_line_ = false;  // an empty one before the request
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<GrowingBody>> parser_;
  std::string peer_, client_;
  // State of one request:
  HttpRequest request_;
  Outcome outcome_;
  Clock::time_point began_, waits_since_;
  std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
  std::shared_ptr<std::atomic<int64_t>> unsent_ = std::make_shared<std::atomic<int64_t>>(0);
  std::string holder_;    // the client that holds the reserved memory
  int64_t reserved_ = 0;  // bytes
  unsigned version_ = 11;
  bool keep_alive_ = false, head_only_ = false;
  bool client_gone_ = false;  // before the answer was sent
  bool gave_up_ = false;      // the server has, at its end
  std::optional<http::response<http::string_body>> response_;
  std::deque<Piece> pieces_;
  bool chunked_ = false, last_queued_ = false, sending_ = false;
  Phase phase_ = Phase::kIdle;
  uint64_t turn_ = 0;  // number of the request, to recognise late calls of handlers
  bool left_ = false;
};

}  // namespace qkv::server
