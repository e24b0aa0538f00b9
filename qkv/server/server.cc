#include "qkv/server/server.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cmath>
#include <ctime>
#include <mutex>
#include <new>
#include <thread>

#include "qkv/core/file_error.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/server/api_keys.h"
#include "qkv/server/client_places.h"
#include "qkv/server/context.h"
#include "qkv/server/encoding.h"
#include "qkv/server/host.h"
#include "qkv/server/http_server.h"
#include "qkv/server/log_writer.h"
#include "qkv/server/routes.h"

namespace qkv::server {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kLateMs = 2000;         // in which handlers should notice that their time is over
constexpr int64_t kOtherFiles = 256;  // descriptors of models' files, the log and libraries

// ISO 8601 with milliseconds, UTC.
std::string Now() {
  const auto now = std::chrono::system_clock::now();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text;
  const size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  return fmt::format("{}.{:03}Z", std::string_view(text.data(), length), ms);
}

// Limits connections by the number of descriptors, so that models can still be opened.
Limits WithinDescriptors(Limits limits) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return limits;
  const rlim_t wanted = std::min<rlim_t>(files.rlim_max, static_cast<rlim_t>(limits.connections + kOtherFiles));
  if (files.rlim_cur < wanted) {
    rlimit more = files;
    more.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &more) == 0) files = more;
  }
  const int64_t left = static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, INT32_MAX)) - kOtherFiles;
  limits.connections = static_cast<int>(std::clamp<int64_t>(left, 8, limits.connections));
  return limits;
}

// Freed memory goes back to the system: large blocks at once, and few threads have heaps of their own.
void ReturnFreedMemory() {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, 4);
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
#endif
}

constexpr size_t kMaxAgent = 200;  // bytes of a User-Agent in the log

std::string_view LevelOf(const Outcome& outcome) {
  if (outcome.client_left) return "info";
  return outcome.status >= 500 ? "error" : outcome.status >= 400 ? "warning" : "info";
}

double Milliseconds(double seconds) { return std::round(1e6 * seconds) / 1e3; }

bool Contains(const std::vector<std::string>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end() ||
         std::find(list.begin(), list.end(), "*") != list.end();
}

}  // namespace

struct Server::State {
  State(ServerConfig config, Log given_log, std::function<ServerConfig()> given_reload)
      : log(std::move(given_log)),
        reload(std::move(given_reload)),
        context(std::move(config),
                [this](const std::string& id, std::string_view event, const std::string& detail) {
                  Write(event == "failed"  ? "error"
                        : event == "unfit" ? "warning"
                                           : "info",
                        "model", {{"model", id}, {"what", event}, {"detail", detail}});
                }),
        keys(this->config().api_keys),
        proxies(this->config().trusted_proxies),
        http(this->config().address, this->config().port, WithinDescriptors(this->config().limits),
             {.admit = [this](const HttpRequest& request) { return Admit(request); },
              .client =
                  [this](const HttpRequest& request) {
                    return proxies.ClientOf(request.peer, request.Header("x-forwarded-for"));
                  },
              .handle = [this](const std::shared_ptr<Exchange>& exchange) { LogFaults([&] { Handle(exchange); }); },
              .ended = [this](const HttpRequest& request, const Outcome& outcome) { Ended(request, outcome); },
              .headers = [this](const HttpRequest& request) { return Cors(request); },
              .ends = [this] { context.ending = true; },
              .give_up =
                  [this] {
                    if (give_up) give_up();
                  },
              .reload =
                  reload ? [this] { boost::asio::post(workers, [this] { Reload(); }); } : std::function<void()>()}),
        places(this->config().most_active),
        workers(static_cast<size_t>(ClientPlaces::Most(this->config().most_active)) + 1) {
    AddRoutes(router, context);
  }

  const ServerConfig& config() const { return context.config(); }

  void Write(std::string_view level, std::string_view event, io::Json fields) {
    io::Json line = {{"time", Now()}, {"level", level}, {"event", event}};
    line.update(fields);
    log.Write(std::move(line));
  }

  // True for pages that may call: this server's own, and those of the configured origins.
  bool IsOwnOrigin(const HttpRequest& request) const {
    const std::string_view origin = request.Header("origin"), host = request.Header("host");
    return origin.empty() || origin == fmt::format("http://{}", host) || origin == fmt::format("https://{}", host);
  }
  // A foreign page may reach this machine by a name of its own (DNS rebinding) and then calls by that name; it cannot
  // know a key, and an address is no name.
  bool IsOwnHost(const HttpRequest& request) const {
    const std::string& name = request.host;
    return name.empty() || IsAddress(name) || name == "localhost" || keys.Asked() || Contains(config().hosts, name);
  }

  std::optional<HttpResponse> Admit(const HttpRequest& request) {
    ++context.admitted;
    if (!IsOwnHost(request)) {
      return ErrorResponse(403, "permission_error",
                           FormatShown("this server is not called {0}; its owner can add {0} to hosts in the file of "
                                       "--config (docs/server.md)",
                                       request.host),
                           request.path);
    }
    const bool foreign = !IsOwnOrigin(request);
    if (foreign && !Contains(config().origins, request.Header("origin"))) {
      return ErrorResponse(403, "permission_error",
                           FormatShown("pages of other origins may not call this server; its owner can add {} to "
                                       "origins in the file of --config (docs/server.md)",
                                       request.Header("origin")),
                           request.path);
    }
    if (foreign && request.method == "OPTIONS") return Preflight();
    Match match;
    try {
      match = router.Find(request);
    } catch (const HttpError& error) {
      HttpResponse response = ErrorResponse(error.status(), error.type(), error.what(), request.path);
      if (error.status() == 405) response.headers.emplace_back("Allow", router.Methods(request));
      return response;
    }
    if (!match.route->open && !keys.Accept(request.Header("authorization"))) {
      HttpResponse response = ErrorResponse(401, "authentication_error",
                                            request.Header("authorization").empty()
                                                ? "expected the header Authorization: Bearer KEY"
                                                : "the key in the header Authorization is wrong, expected Bearer KEY",
                                            request.path);
      response.headers.emplace_back("WWW-Authenticate", "Bearer");
      return response;
    }
    if (!match.route->runs_inline && !places.HasRoom(request.peer)) return Busy(request);
    return std::nullopt;
  }

  HttpResponse Busy(const HttpRequest& request) const {
    HttpResponse response =
        ErrorResponse(429, "rate_limit_error", "the server works on as many requests as it takes", request.path);
    response.headers = {{"Retry-After", std::to_string(context.RetryAfter())}};
    return response;
  }

  static HttpResponse Preflight() {
    HttpResponse response{.status = 204, .type = ""};
    response.headers = {
        {"Access-Control-Allow-Methods", "GET, HEAD, POST"},
        {"Access-Control-Allow-Headers", "Authorization, Content-Type, Inference-Header-Content-Length, X-Request-Id"},
        {"Access-Control-Max-Age", "600"}};
    return response;
  }

  // Tells a browser that a page of another origin may read the answer.
  std::vector<std::pair<std::string, std::string>> Cors(const HttpRequest& request) const {
    const std::string_view origin = request.Header("origin");
    if (origin.empty() || IsOwnOrigin(request) || !Contains(config().origins, origin)) return {};
    return {{"Access-Control-Allow-Origin", std::string(origin)},
            {"Access-Control-Expose-Headers", "X-Request-Id, Retry-After, Inference-Header-Content-Length"},
            {"Vary", "Origin"}};
  }

  void Handle(std::shared_ptr<Exchange> exchange) {
    const Match match = router.Find(exchange->request());
    const bool packed = !exchange->request().Header("content-encoding").empty();  // unpacking takes time
    if (match.route->runs_inline && !packed) return Send(*exchange, Answer(exchange, match));
    std::shared_ptr<void> place = TakePlace(exchange->request().peer);
    if (place == nullptr) return exchange->Respond(Busy(exchange->request()));
    boost::asio::post(workers, [this, exchange = std::move(exchange), match, place = std::move(place)]() mutable {
      LogFaults([&] {
        std::optional<HttpResponse> response;
        {
          const std::shared_ptr<void> until_answered = std::move(place);
          response = Answer(exchange, match);
        }  // released before its client knows, who may send another request at once
        Send(*exchange, std::move(response));
      });
    });
  }

  // A place among the requests in progress, until it is destroyed.
  std::shared_ptr<void> TakePlace(const std::string& address) {
    std::shared_ptr<void> place = places.Take(address);
    if (place == nullptr) return nullptr;
    ++context.active;
    return {this, [this, place = std::move(place)](void*) mutable {
              place.reset();
              --context.active;
            }};
  }

  // No exception may end the process. The exchange's destructor then answers its client.
  template <typename F>
  void LogFaults(F&& f) {
    try {
      try {
        f();
      } catch (const std::exception& error) {
        Write("error", "fault", {{"detail", error.what()}});
      }
    } catch (const std::bad_alloc&) {  // for the line, too
    }
  }

  static void Send(Exchange& exchange, std::optional<HttpResponse> response) {
    if (response) exchange.Respond(std::move(*response));
  }

  // Nothing if the handler has answered already.
  std::optional<HttpResponse> Answer(const std::shared_ptr<Exchange>& exchange, const Match& match) {
    const std::chrono::milliseconds limit(static_cast<int64_t>(1000 * config().request_seconds));
    const auto begin = std::make_shared<std::atomic<Clock::time_point>>(Clock::now());
    Call call{.exchange = exchange, .parameters = match.parameters};
    call.cancelled = [exchange, begin, limit] { return exchange->cancelled() || Clock::now() > begin->load() + limit; };
    call.renew = [begin] { *begin = Clock::now(); };
    call.memory = std::make_shared<ImageMemory>(context.image_bytes, config().image_bytes);
    call.turn->client = exchange->request().peer;
    std::optional<HttpResponse> response = MakeResponse(call, *match.route);
    if (response) exchange->Note(call.note());
    return response;
  }

  // An answer that cannot be compressed, for lack of memory, goes uncompressed.
  static void Compress(const HttpRequest& request, HttpResponse* response) {
    try {
      CompressAnswer(request, response);
    } catch (const Error&) {
    } catch (const std::bad_alloc&) {
    }
  }

  std::optional<HttpResponse> MakeResponse(Call& call, const Route& route) {
    const HttpRequest& request = call.request();
    try {
      const CancelScope scope(call.cancelled);
      call.exchange->PrepareBody();
      std::optional<HttpResponse> response = route.handler(call);
      if (response) Compress(request, &*response);
      return response;
    } catch (const Error& error) {
      const HttpError failure = AsHttpError(error);
      if (failure.status() == 500 || dynamic_cast<const FileError*>(&error) != nullptr) {
        Write("error", "fault", {{"id", request.id}, {"path", request.path}, {"detail", error.what()}});
      }
      return ErrorResponse(failure.status(), failure.type(), failure.what(), request.path);
    } catch (const Cancelled&) {
      if (call.exchange->cancelled()) return HttpResponse{.status = 499};
      return ErrorResponse(503, "timeout_error", "the request was given up before it was computed", request.path);
    } catch (const std::bad_alloc&) {
      Write("error", "memory", {{"id", request.id}, {"path", request.path}});
      return ErrorResponse(503, "server_error", "the server is out of memory for this request", request.path);
    } catch (const std::exception& error) {
      Write("error", "fault", {{"id", request.id}, {"path", request.path}, {"detail", error.what()}});
      return ErrorResponse(500, "server_error", "the server failed; its log says more under this request's id",
                           request.path);
    }
  }

  void Ended(const HttpRequest& request, const Outcome& outcome) {
    if (outcome.admitted) --context.admitted;
    if (outcome.given_up) ++given_up;
    std::string_view series;
    try {
      const Route& route = *router.Find(request).route;
      series = Contains(route.counted_paths, request.path) ? std::string_view(request.path) : route.pattern;
    } catch (const HttpError&) {
    }
    context.metrics().CountRequest(series, request, outcome);
    if (!outcome.client_left) {
      context.statistics().CountRequest(outcome.work.model, outcome.status < 400, outcome.seconds);
    }
    if (!config().log) return;
    io::Json line = {{"id", request.id},
                     {"peer", request.peer},
                     {"method", request.method},
                     {"path", request.path},
                     {"status", outcome.status},
                     {"bytes", outcome.sent},
                     {"bytes_in", outcome.received},
                     {"ms", Milliseconds(outcome.seconds)},
                     {"queue_ms", Milliseconds(outcome.work.queued)},
                     {"compute_ms", Milliseconds(outcome.work.computed)},
                     {"client_left", outcome.client_left}};
    if (!request.proxy.empty()) line["proxy"] = request.proxy;
    if (!outcome.work.model.empty()) line["model"] = outcome.work.model;
    const std::string_view agent = request.Header("user-agent");
    if (!agent.empty()) line["user_agent"] = agent.substr(0, kMaxAgent);
    Write(LevelOf(outcome), "request", std::move(line));
  }

  // All or nothing: a broken file leaves the models and the keys unchanged.
  void Reload() {
    const std::lock_guard lock(reloading);
    try {
      ServerConfig next = reload();
      Require(!keys.Asked() || !next.api_keys.empty(),
              "api_key_file: the server asks for keys until it ends, and there is none any more");
      context.models().Replace(std::move(next.models));
      keys.Replace(std::move(next.api_keys));
      Write("info", "reload", {{"detail", "the list of models and the keys were read again"}});
    } catch (const std::exception& error) {
      Write("error", "reload", {{"detail", error.what()}});
    }
  }

  LogWriter log;  // the members below write to it
  const std::function<ServerConfig()> reload;
  std::function<void()> give_up;
  int64_t given_up = 0;  // requests given up at the end; for the thread of Run
  std::mutex reloading;
  Context context;
  Router router;
  ApiKeys keys;
  const TrustedProxies proxies;
  HttpServer http;
  ClientPlaces places;
  boost::asio::thread_pool workers;
};

Server::Server(ServerConfig config, Log log, std::function<ServerConfig()> reload) {
  ReturnFreedMemory();
  if (config.threads > 0) SetNumThreads(config.threads);
  state_ = std::make_unique<State>(std::move(config), std::move(log), std::move(reload));
}

Server::~Server() { state_->workers.join(); }

std::string Server::Url() const {
  const std::string& address = state_->http.address();
  const bool six = address.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", six ? "[" : "", address, six ? "]" : "", port());
}

uint16_t Server::port() const { return state_->http.port(); }

void Server::Run(std::function<void()> give_up) {
  state_->give_up = std::move(give_up);
  if (!state_->http.loopback() && !state_->keys.Asked()) {
    state_->Write("warning", "open", {{"detail", "other machines reach this server, and no key is asked for"}});
  }
  state_->Write("info", "start", {{"url", Url()}, {"models", state_->config().models.size()}});
  std::exception_ptr failure;
  std::atomic<bool> loaded{false};
  std::thread loading([&] {
    try {
      state_->context.models().LoadAtStart();
    } catch (const std::exception&) {
      failure = std::current_exception();
      state_->http.Stop();
    }
    loaded = true;
    if (!failure) state_->LogFaults([&] { state_->context.models().FindUnfit(); });
  });
  state_->http.Run(state_->config().drain_seconds, state_->config().notice_seconds);
  if (!loaded && state_->give_up) state_->give_up();
  loading.join();
  // Late handlers have lost their client, and notice that soon.
  for (int i = 0; i < kLateMs && state_->context.active > 0; ++i) std::this_thread::sleep_for(1ms);
  const int64_t late = std::max<int64_t>(state_->given_up, state_->context.active);
  if (late > 0) {
    state_->Write("warning", "end", {{"detail", "the time for what had begun is over"}, {"given_up", late}});
  } else if (!failure) {
    state_->Write("info", "end", {{"detail", "all that had begun was answered"}});
  }
  // A stalled reader of the log does not keep the process alive.
  const bool written = state_->log.Flush(1s);
  if ((late > 0 || !written) && state_->give_up) state_->give_up();
  state_->workers.join();
  if (failure) std::rethrow_exception(failure);
}

void Server::Stop() { state_->http.Stop(); }

}  // namespace qkv::server
