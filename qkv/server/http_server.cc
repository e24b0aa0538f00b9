// HTTP over Boost.Beast.
#include "qkv/server/http_server.h"

#include <csignal>
#include <map>

#include "qkv/server/session.h"

namespace qkv::server {
namespace {

constexpr double kGraceSeconds = 0.5;  // of connections without a request at the server's end

}  // namespace

void HttpServer::State::Accept() {
  if (stopping || accepting) return;
  full = false;
  const bool opened = !next || OpenNext();
  if (!opened || (std::ssize(sessions) >= limits.connections && LongestWaiting() == nullptr)) return AcceptLater();
  accepting = true;
  acceptor.async_accept([self = shared_from_this()](const ErrorCode& error, tcp::socket socket) {
    self->accepting = false;
    if (self->stopping) {
      if (!error) self->Open(std::move(socket));
      return;
    }
    if (error) return self->AcceptLater();  // out of descriptors: some will be free soon
    self->next.emplace(std::move(socket));
    self->Accept();
  });
}

// False if there is no room, and no connection that may be closed.
bool HttpServer::State::OpenNext() {
  if (std::ssize(sessions) >= limits.connections) {
    Session* const waiting = LongestWaiting();
    if (waiting == nullptr) return false;
    waiting->Close();
  }
  tcp::socket socket = std::move(*next);
  next.reset();
  Open(std::move(socket));
  return true;
}

// Accepts again later, unless a connection leaves or becomes idle before.
void HttpServer::State::AcceptLater() {
  full = true;
  pause.expires_after(std::chrono::milliseconds(100));
  pause.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->Accept();
  });
}

// The connection to close for a new one: the one that has waited longest for its client, of the client with most
// connections; none if it has only one.
Session* HttpServer::State::LongestWaiting() const {
  std::map<std::string_view, int> of_client;
  for (const Session* session : sessions) ++of_client[session->client()];
  Session* longest = nullptr;
  int most = 1;
  for (Session* session : sessions) {
    const int count = of_client[session->client()];
    if (!session->waits() || count <= 1 || count < most) continue;
    if (longest == nullptr || count > most || session->since() < longest->since()) longest = session;
    most = count;
  }
  return longest;
}

void HttpServer::State::Open(tcp::socket socket) {
  const auto session = std::make_shared<Session>(shared_from_this(), std::move(socket));
  sessions.insert(session.get());
  session->Begin();
}

void HttpServer::State::Remove(Session* session) {
  sessions.erase(session);
  if (full) Accept();
  EndIfDone();
}

void HttpServer::State::EndIfDone() {
  if (!stopping || !sessions.empty()) return;
  ErrorCode ignored;
  signals.cancel(ignored);
  signals.clear(ignored);  // a further signal ends the process, whatever is still running
  notice.cancel();
  deadline.cancel();
  grace.cancel();
  pause.cancel();
  work.reset();
}

void HttpServer::State::Drain() {
  if (stopping.exchange(true)) return;
  if (!ending && hooks.ends) hooks.ends();
  ending = true;
  // Connections that the kernel holds are accepted first: their clients may have sent requests.
  if (next) Open(std::move(*next));
  next.reset();
  ErrorCode none_left, ignored;
  acceptor.non_blocking(true, none_left);
  while (!none_left && std::ssize(sessions) < limits.connections) {
    tcp::socket socket(context);
    acceptor.accept(socket, none_left);
    if (!none_left) Open(std::move(socket));
  }
  acceptor.close(ignored);
  // Answers what a client sent just before it could know of the end.
  grace.expires_after(Seconds(kGraceSeconds));
  grace.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (error) return;
    const std::set<Session*> open = self->sessions;
    for (Session* session : open) {
      if (session->idle()) session->Close();
    }
  });
  deadline.expires_after(Seconds(drain_seconds));
  deadline.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->Abort();
  });
  EndIfDone();
}

void HttpServer::State::Abort() {
  const std::set<Session*> late = sessions;
  for (Session* session : late) session->Abort();
}

void HttpServer::State::AwaitSignals() {
  signals.async_wait([self = shared_from_this()](const ErrorCode& error, int number) {
    if (error) return;
    self->AwaitSignals();
    self->OnSignal(number);
  });
}

void HttpServer::State::OnSignal(int number) {
  if (number == SIGHUP && hooks.reload) return hooks.reload();
  if (stopping || ending) {
    Drain();
    Abort();
    if (hooks.give_up) hooks.give_up();
    return;
  }
  if (notice_seconds <= 0) return Drain();
  ending = true;
  if (hooks.ends) hooks.ends();
  notice.expires_after(Seconds(notice_seconds));
  notice.async_wait([self = shared_from_this()](const ErrorCode& error) {
    if (!error) self->Drain();
  });
}

HttpServer::HttpServer(const std::string& address, uint16_t port, const Limits& limits, Hooks hooks)
    : state_(std::make_shared<State>(limits, std::move(hooks))) {
  ErrorCode error;
  const net::ip::address parsed = net::ip::make_address(address == "localhost" ? "127.0.0.1" : address, error);
  Require(!error, "address: expected an IP address such as 127.0.0.1 or ::, got {}", address);
  const tcp::endpoint endpoint(parsed, port);
  tcp::acceptor& acceptor = state_->acceptor;
  acceptor.open(endpoint.protocol(), error);
  if (!error) acceptor.set_option(net::socket_base::reuse_address(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(net::socket_base::max_listen_connections, error);
  Require(!error, "cannot listen on {} port {}: {}", address, port, error.message());
  state_->address = parsed.to_string();
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) state_->signals.add(number);
}

HttpServer::~HttpServer() {
  // Late calls of handlers hold their session, which holds the context that would run them.
  state_->context.restart();
  state_->context.poll();
}

const std::string& HttpServer::address() const { return state_->address; }
uint16_t HttpServer::port() const { return state_->acceptor.local_endpoint().port(); }

void HttpServer::Run(double drain_seconds, double notice_seconds) {
  state_->drain_seconds = drain_seconds;
  state_->notice_seconds = notice_seconds;
  state_->AwaitSignals();
  state_->Accept();
  state_->context.run();
}

void HttpServer::Stop() {
  net::post(state_->context, [state = state_] { state->Drain(); });
}

bool HttpServer::loopback() const { return net::ip::make_address(state_->address).is_loopback(); }

}  // namespace qkv::server
