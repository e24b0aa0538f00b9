// The transport over real sockets: what it takes, what it limits, how it ends.
#include "qkv/server/http_server.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/server/client.h"
#include "tests/support/errors.h"

namespace qkv::server {
namespace {

using namespace std::chrono_literals;

// Answers with the request's body, until another handler is set.
class Running {
 public:
  explicit Running(const Limits& limits = {}, double drain_seconds = 5)
      : server_("127.0.0.1", 0, limits,
                {.admit = [this](const HttpRequest& r) { return admit ? admit(r) : std::nullopt; },
                 .handle = [this](std::shared_ptr<Exchange> exchange) { handle(std::move(exchange)); },
                 .ended =
                     [this](const HttpRequest&, const Outcome& outcome) {
                       const std::lock_guard lock(mutex_);
                       outcomes_.push_back(outcome);
                     }}),
        port_(server_.port()),
        thread_([this, drain_seconds] { server_.Run(drain_seconds); }) {}
  ~Running() { End(); }

  void End() {
    if (!thread_.joinable()) return;
    server_.Stop();
    thread_.join();
  }
  uint16_t port() const { return port_; }
  HttpServer& server() { return server_; }
  std::vector<Outcome> outcomes() {
    const std::lock_guard lock(mutex_);
    return outcomes_;
  }

  std::function<std::optional<HttpResponse>(const HttpRequest&)> admit;
  std::function<void(std::shared_ptr<Exchange>)> handle = [](std::shared_ptr<Exchange> exchange) {
    exchange->Respond({.type = "text/plain", .body = exchange->request().path + " " + exchange->request().body});
  };

 private:
  std::mutex mutex_;
  std::vector<Outcome> outcomes_;
  HttpServer server_;
  uint16_t port_;
  std::thread thread_;
};

std::string Get(std::string_view path, std::string_view more = "") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}\r\n", path, more);
}
std::string Post(std::string_view path, std::string_view body, std::string_view more = "") {
  return fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n{}\r\n{}", path, body.size(), more,
                     body);
}

TEST(HttpServer, KeepsConnectionsAndAnswersInOrder) {
  Running running;
  Client client(running.port());
  client.Send(Get("/a"));
  EXPECT_EQ(client.Read().body, "/a ");
  client.Send(Post("/b", "one") + Post("/c", "two") + Get("/d"));  // pipelined
  EXPECT_EQ(client.Read().body, "/b one");
  EXPECT_EQ(client.Read().body, "/c two");
  EXPECT_EQ(client.Read().body, "/d ");
  client.Send(Get("/e", "Connection: close\r\n"));
  EXPECT_EQ(client.Read().body, "/e ");
  EXPECT_TRUE(client.IsClosed());
  EXPECT_EQ(running.outcomes().size(), 5u);
}

TEST(HttpServer, ClosesAfterHttp10) {
  Running running;
  Client client(running.port());
  client.Send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "/a ");
  EXPECT_TRUE(client.IsClosed());
}

TEST(HttpServer, TakesChunkedBodies) {
  Running running;
  Client client(running.port());
  client.Send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  std::this_thread::sleep_for(20ms);
  client.Send("2;x=y\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "/a abcde");
}

TEST(HttpServer, SaysContinue) {
  Running running;
  Client client(running.port());
  client.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadOne().status, 100);
  client.Send("abc");
  EXPECT_EQ(client.Read().body, "/a abc");
  // A body that is too large is not asked for.
  Running small({.body = 2});
  Client other(small.port());
  other.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(other.ReadOne().status, 413);
}

TEST(HttpServer, AnswersHeadWithoutABody) {
  Running running;
  Client client(running.port());
  client.Send("HEAD /abc HTTP/1.1\r\nHost: a\r\n\r\n");
  const Answer answer = client.Read(/*head=*/true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-length"), "5");
  client.Send(Get("/d"));
  EXPECT_EQ(client.Read().body, "/d ");
}

TEST(HttpServer, NamesRequests) {
  Running running;
  Client client(running.port());
  client.Send(Get("/", "X-Request-Id: abc-1\r\n"));
  EXPECT_EQ(client.Read().headers.at("x-request-id"), "abc-1");
  client.Send(Get("/", "X-Request-Id: a b\"c\r\n"));
  EXPECT_EQ(client.Read().headers.at("x-request-id").size(), 16u);
}

TEST(HttpServer, RefusesWhatIsNotWellFormed) {
  Running running;
  for (const std::string bytes :
       {"nonsense\r\n\r\n", "GET /a HTTP/7.0\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\na",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "GET ftp://other/ HTTP/1.1\r\nHost: a\r\n\r\n"}) {
    Client client(running.port());
    client.Send(bytes);
    EXPECT_EQ(client.Read().status, 400) << bytes;
  }
}

TEST(HttpServer, LimitsHeaderAndBody) {
  Running running({.body = 10});
  Client header(running.port());
  header.Send(Get("/", "A: " + std::string(100'000, 'x') + "\r\n"));
  EXPECT_EQ(header.Read().status, 431);
  Client body(running.port());
  body.Send(Post("/", "12345678901"));
  const Answer refused = body.Read();
  EXPECT_EQ(refused.status, 413);
  EXPECT_NE(refused.body.find("the 10 bytes that this server takes (limits.body)"), std::string::npos) << refused.body;
  EXPECT_TRUE(body.IsClosed());
  Client chunked(running.port());
  chunked.Send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n8\r\n12345678\r\n");
  EXPECT_EQ(chunked.Read().status, 413);
  Client fits(running.port());
  fits.Send(Post("/", "1234567890"));
  EXPECT_EQ(fits.Read().status, 200);
}

TEST(HttpServer, LimitsAllBodiesTogether) {
  Running running({.body = 100, .bodies = 150});
  Client first(running.port());
  first.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n" + std::string(99, 'x'));
  std::this_thread::sleep_for(50ms);
  Client second(running.port());
  second.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n");
  const Answer refused = second.Read();
  EXPECT_EQ(refused.status, 429);
  EXPECT_TRUE(refused.headers.contains("retry-after"));
  first.Send("x");
  EXPECT_EQ(first.Read().status, 200);
  Client third(running.port());
  third.Send(Post("/a", std::string(100, 'x')));
  EXPECT_EQ(third.Read().status, 200);
}

// A client whose body does not come holds no memory, whatever length it announced.
TEST(HttpServer, ReservesForBodiesAsTheyCome) {
  Running running({.body = 64 << 20, .bodies = 64 << 20});
  std::vector<std::unique_ptr<Client>> silent;
  for (int i = 0; i < 32; ++i) {
    silent.push_back(std::make_unique<Client>(running.port(), 20, "127.0.0.2"));
    silent.back()->Send(fmt::format("POST /a HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n",
                                    i % 2 == 0 ? "Transfer-Encoding: chunked" : "Content-Length: 67108864"));
  }
  std::this_thread::sleep_for(50ms);
  for (const char* from : {"127.0.0.1", "127.0.0.2"}) {
    Client other(running.port(), 20, from);
    other.Send(Post("/a", std::string(60 << 20, 'x')));
    EXPECT_EQ(other.Read().status, 200) << from;
  }
}

// Reading JSON takes its length again for the parser, and for what it gives.
TEST(HttpServer, CountsWhatReadingJsonTakes) {
  Running running({.body = 8 << 20, .bodies = 24 << 20});
  std::promise<void> entered, open;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    try {
      exchange->PrepareBody();
    } catch (const HttpError& error) {
      return exchange->Respond({.status = error.status()});
    }
    if (exchange->request().path != "/held") return exchange->Respond({});
    std::thread([&, exchange] {
      entered.set_value();
      open.get_future().wait();
      exchange->Respond({});
    }).detach();
  };
  const std::string text(5 << 20, 'x'), json = " {" + text;
  Client first(running.port());
  first.Send(Post("/held", json));
  entered.get_future().wait();
  Client other(running.port());
  other.Send(Post("/a", text));
  EXPECT_EQ(other.Read().status, 200) << "20 of 24 MiB";
  other.Send(Post("/a", json));
  EXPECT_EQ(other.Read().status, 429);
  open.set_value();
  EXPECT_EQ(first.Read().status, 200);
  // One alone is read, whatever it takes.
  Running small({.body = 8 << 20, .bodies = 8 << 20});
  small.handle = [](std::shared_ptr<Exchange> exchange) {
    exchange->PrepareBody();
    exchange->Respond({});
  };
  Client alone(small.port());
  alone.Send(Post("/a", json));
  EXPECT_EQ(alone.Read().status, 200);
}

// What one client holds leaves room for others. Of a body without a length it is known on the way.
TEST(HttpServer, KeepsMemoryForOtherClients) {
  Running running({.body = 4 << 20, .bodies = 16 << 20});
  const std::string chunk(1 << 20, 'x');
  std::vector<std::unique_ptr<Client>> greedy;
  for (int i = 0; i < 5; ++i) {
    greedy.push_back(std::make_unique<Client>(running.port(), 20, "127.0.0.2"));
    greedy.back()->Send("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  }
  // The first four hold all, to the last byte; the fifth is told so.
  for (int i = 0; i < 4; ++i) {
    for (int piece = 0; piece < 4; ++piece) {
      greedy[static_cast<size_t>(i)]->Send(fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk));
    }
  }
  for (int i = 0, status = 100; status == 100; ++i) {  // asks alone, and takes nothing
    ASSERT_LT(i, 1000) << "the server has not read it";
    std::this_thread::sleep_for(10ms);
    Client asking(running.port(), 20, "127.0.0.2");
    asking.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n");
    status = asking.ReadOne().status;
  }
  greedy[4]->Send(fmt::format("{:x}\r\n{}\r\n", chunk.size(), chunk));
  EXPECT_EQ(greedy[4]->Read().status, 429);
  Client other(running.port());
  other.Send(Post("/a", std::string(768 << 10, 'x')));
  EXPECT_EQ(other.Read().status, 200);
}

TEST(HttpServer, CountsAnswersThatAreNotTaken) {
  Running running({.body = 1 << 20, .bodies = 24 << 20});
  running.handle = [](std::shared_ptr<Exchange> exchange) {
    exchange->Respond({.type = "text/plain", .body = std::string(16 << 20, 'x')});
  };
  {
    Client deaf(running.port());
    deaf.Send(Get("/a"));
    std::this_thread::sleep_for(100ms);
    Client next(running.port());
    next.Send(Get("/a"));
    EXPECT_EQ(next.Read().status, 429);
  }
  for (int i = 0; i < 100; ++i) {
    Client later(running.port());
    later.Send(Get("/a"));
    if (later.Read().status == 200) return;
    std::this_thread::sleep_for(20ms);
  }
  FAIL() << "what the first client held was not released";
}

TEST(HttpServer, WantsOneHost) {
  Running running;
  for (const char* hosts : {"", "Host: a\r\nHost: b\r\n"}) {
    Client client(running.port());
    client.Send(fmt::format("GET /a HTTP/1.1\r\n{}\r\n", hosts));
    EXPECT_EQ(client.Read().status, 400) << hosts;
  }
  Client old(running.port());
  old.Send("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.Read().status, 200);
}

TEST(HttpServer, GivesUpSlowClients) {
  Running running({.header_seconds = 0.2, .idle_seconds = 0.2, .transfer_seconds = 0.2});
  Client header(running.port());
  header.Send("GET /a HTTP/1.1\r\nHost: a\r\n");
  const Answer late = header.Read();
  EXPECT_EQ(late.status, 408);
  EXPECT_NE(late.body.find("did not arrive in time"), std::string::npos);
  EXPECT_EQ(late.headers.at("connection"), "close");
  EXPECT_TRUE(header.IsClosed());
  Client body(running.port());
  body.Send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc");
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_TRUE(body.IsClosed());
  Client nothing(running.port());
  EXPECT_TRUE(nothing.IsClosed());
  Client idle(running.port());
  idle.Send(Get("/a"));
  EXPECT_EQ(idle.Read().status, 200);
  EXPECT_TRUE(idle.IsClosed());
  running.End();
  const std::vector<Outcome> outcomes = running.outcomes();
  ASSERT_EQ(outcomes.size(), 3u);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(outcomes[static_cast<size_t>(i)].status, 408);
    EXPECT_FALSE(outcomes[static_cast<size_t>(i)].client_left);
    EXPECT_EQ(outcomes[static_cast<size_t>(i)].sent, std::ssize(late.body));
  }
}

// Its time for reading is over when it is answered: a slow answer is not cut.
TEST(HttpServer, LimitsReadingAlone) {
  Running running({.header_seconds = 0.1, .idle_seconds = 0.1, .transfer_seconds = 0.1});
  running.handle = [](std::shared_ptr<Exchange> exchange) {
    std::thread([exchange] {
      std::this_thread::sleep_for(400ms);
      exchange->Respond({.body = "late"});
    }).detach();
  };
  Client client(running.port());
  client.Send(Post("/a", "body"));
  EXPECT_EQ(client.Read().body, "late");
  client.Send(Post("/a", "body"));
  EXPECT_EQ(client.Read().body, "late");
}

TEST(HttpServer, TakesWholeAddresses) {
  Running running;
  Client client(running.port());
  client.Send("GET http://127.0.0.1/a HTTP/1.1\r\nHost: other\r\n\r\n");
  EXPECT_EQ(client.Read().body, "/a ");
}

TEST(HttpServer, SendsNoLengthOfNoContent) {
  Running running;
  running.handle = [](std::shared_ptr<Exchange> exchange) { exchange->Respond({.status = 204, .type = ""}); };
  Client client(running.port());
  for (int i = 0; i < 2; ++i) {
    client.Send(Get("/a"));
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 204);
    EXPECT_FALSE(answer.headers.contains("content-length"));
  }
}

// What a slow client has not taken is bounded, and its handler is told.
TEST(HttpServer, LimitsWhatAStreamKeeps) {
  Running running;
  std::promise<int> sent;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    std::thread([&sent, exchange] {
      exchange->BeginStream({.type = "text/event-stream", .body = "data: 0\n\n"});
      int pieces = 0;
      while (pieces < 200 && exchange->Send(std::string(1 << 20, 'x'))) {
        ++pieces;
        std::this_thread::sleep_for(5ms);
      }
      sent.set_value(pieces);
    }).detach();
  };
  Client client(running.port());
  client.Send(Get("/a"));
  const int pieces = sent.get_future().get();
  EXPECT_GE(pieces, 4);
  EXPECT_LT(pieces, 64);  // the system's own buffers take some
  client.Close();
}

TEST(HttpServer, LimitsConnections) {
  Running running({.connections = 1});
  auto first = std::make_unique<Client>(running.port());
  first->Send(Get("/a"));
  EXPECT_EQ(first->Read().status, 200);
  Client second(running.port());
  second.Send(Get("/b"));
  auto answer = std::async(std::launch::async, [&] { return second.Read().body; });
  EXPECT_EQ(answer.wait_for(100ms), std::future_status::timeout);
  first.reset();
  EXPECT_EQ(answer.get(), "/b ");
}

TEST(HttpServer, ClosesTheLongestIdleConnectionOfMany) {
  Running running({.connections = 3});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(std::make_unique<Client>(running.port()));
    clients.back()->Send(Get("/a"));
    EXPECT_EQ(clients.back()->Read().status, 200) << i;
  }
  EXPECT_TRUE(clients[0]->IsClosed());
  EXPECT_TRUE(clients[1]->IsClosed());
  for (size_t i = 2; i < 5; ++i) {
    clients[i]->Send(Get("/b"));
    EXPECT_EQ(clients[i]->Read().status, 200) << i;
  }
}

// Those that wait for their client: in a header, for a body, for an answer to be taken.
TEST(HttpServer, ClosesTheLongestWaitingConnectionOfMany) {
  const std::string within_body = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345";
  for (const std::string& request : {std::string("GET /a HTTP/1.1\r\nHo"), within_body, Get("/large")}) {
    Running running({.connections = 4});
    running.handle = [](std::shared_ptr<Exchange> exchange) {
      exchange->Respond({.body = std::string(exchange->request().path == "/large" ? 32 << 20 : 1, 'x')});
    };
    std::vector<std::unique_ptr<Client>> waiting;
    for (int i = 0; i < 4; ++i) {
      waiting.push_back(std::make_unique<Client>(running.port(), 20, "127.0.0.2"));
      waiting.back()->Send(request);
      std::this_thread::sleep_for(10ms);
    }
    Client newcomer(running.port());
    newcomer.Send(Get("/b"));
    EXPECT_EQ(newcomer.Read().status, 200) << request;
    if (request == within_body) {
      EXPECT_TRUE(waiting[0]->IsClosed());
      waiting[3]->Send("67890");
      EXPECT_EQ(waiting[3]->Read().status, 200);
    }
  }
}

TEST(HttpServer, ClosesNoConnectionWhoseRequestIsWorkedOn) {
  Running running({.connections = 2});
  std::mutex mutex;
  std::vector<std::shared_ptr<Exchange>> held;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    if (exchange->request().path == "/b") return exchange->Respond({.body = "b"});
    const std::lock_guard lock(mutex);
    held.push_back(std::move(exchange));
  };
  const auto count = [&] {
    const std::lock_guard lock(mutex);
    return held.size();
  };
  std::vector<std::unique_ptr<Client>> working;
  for (size_t i = 0; i < 2; ++i) {
    working.push_back(std::make_unique<Client>(running.port(), 20, "127.0.0.2"));
    working.back()->Send(Get("/a"));
    while (count() == i) std::this_thread::sleep_for(1ms);
  }
  Client newcomer(running.port());
  newcomer.Send(Get("/b"));
  auto answer = std::async(std::launch::async, [&] { return newcomer.Read().body; });
  EXPECT_EQ(answer.wait_for(200ms), std::future_status::timeout);
  {
    const std::lock_guard lock(mutex);
    for (const auto& exchange : held) exchange->Respond({.body = "a"});
    held.clear();
  }
  EXPECT_EQ(answer.get(), "b");
  for (const auto& client : working) EXPECT_EQ(client->Read().body, "a") << "its answer is not cut";
}

TEST(HttpServer, TurnsRequestsAwayBeforeTheirBody) {
  Running running;
  running.admit = [](const HttpRequest&) { return ErrorResponse(429, "rate_limit_error", "later"); };
  Client client(running.port());
  client.Send("POST /v2/models HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n");
  const Answer answer = client.Read();
  EXPECT_EQ(answer.status, 429);
  EXPECT_EQ(answer.headers.at("connection"), "close");
}

TEST(HttpServer, StreamsAndNoticesThatTheClientGoes) {
  Running running;
  std::promise<bool> noticed;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    std::thread([&noticed, exchange] {
      exchange->BeginStream({.type = "text/event-stream", .body = "data: 0\n\n"});
      for (int i = 1; i <= 3; ++i) exchange->Send(fmt::format("data: {}\n\n", i));
      if (exchange->request().path == "/all") return exchange->EndStream();
      for (int i = 0; i < 500 && !exchange->cancelled(); ++i) {
        exchange->Send("data: more\n\n");
        std::this_thread::sleep_for(10ms);
      }
      noticed.set_value(exchange->cancelled());
    }).detach();
  };
  Client client(running.port());
  client.Send(Get("/all"));
  EXPECT_EQ(client.Read().body, "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n");
  client.Send("GET /all HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.Read().body, "data: 0\n\ndata: 1\n\ndata: 2\n\ndata: 3\n\n");
  Client leaving(running.port());
  leaving.Send(Get("/long"));
  std::this_thread::sleep_for(50ms);
  leaving.Close();
  EXPECT_TRUE(noticed.get_future().get());
}

TEST(HttpServer, TellsAHandlerThatTheClientHasGone) {
  Running running;
  std::promise<bool> noticed;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    std::thread([&noticed, exchange] {
      for (int i = 0; i < 500 && !exchange->cancelled(); ++i) std::this_thread::sleep_for(10ms);
      noticed.set_value(exchange->cancelled());
      exchange->Respond({});
    }).detach();
  };
  Client client(running.port());
  client.Send(Get("/a"));
  std::this_thread::sleep_for(50ms);
  client.Close();
  EXPECT_TRUE(noticed.get_future().get());
}

TEST(HttpServer, TellsThatTheClientHasGoneBehindFurtherBytes) {
  for (const std::string& more : {std::string("\r\n"), Get("/b")}) {
    Running running;
    std::promise<bool> noticed;
    running.handle = [&](std::shared_ptr<Exchange> exchange) {
      std::thread([&noticed, exchange] {
        for (int i = 0; i < 1000 && !exchange->cancelled(); ++i) std::this_thread::sleep_for(10ms);
        noticed.set_value(exchange->cancelled());
        exchange->Respond({.status = 499});
      }).detach();
    };
    Client client(running.port());
    client.Send(Get("/a"));
    std::this_thread::sleep_for(50ms);
    client.Send(more);
    std::this_thread::sleep_for(50ms);
    client.Close();
    EXPECT_TRUE(noticed.get_future().get()) << more;
    running.End();
    ASSERT_EQ(running.outcomes().size(), 1u);
    EXPECT_TRUE(running.outcomes()[0].client_left);
  }
}

TEST(HttpServer, AnswersAClientThatHasEndedItsSending) {
  Running running;
  running.handle = [](std::shared_ptr<Exchange> exchange) {
    std::thread([exchange] {
      std::this_thread::sleep_for(5ms);  // its end of sending arrives meanwhile
      if (exchange->request().path == "/a")
        return exchange->Respond({.body = exchange->cancelled() ? "gone" : "there"});
      exchange->BeginStream({.body = "begin"});
      std::this_thread::sleep_for(1500ms);
      exchange->Send(exchange->cancelled() ? " gone" : " there");
      exchange->EndStream();
    }).detach();
  };
  for (const auto& [path, body] : {std::pair("/a", "there"), std::pair("/stream", "begin there")}) {
    Client client(running.port());
    client.Send(Get(path));
    client.EndSending();
    EXPECT_EQ(client.Read().body, body);
    EXPECT_TRUE(client.IsClosed());
  }
  running.End();
  ASSERT_EQ(running.outcomes().size(), 2u);
  for (const Outcome& outcome : running.outcomes()) {
    EXPECT_FALSE(outcome.client_left);
    EXPECT_EQ(outcome.status, 200);
  }
}

TEST(HttpServer, EndsAStreamThatFails) {
  Running running;
  running.handle = [](std::shared_ptr<Exchange> exchange) {
    exchange->BeginStream({.body = std::string(1'000'000, 'x')});
    exchange->Respond({.status = 500, .body = "too late"});
    exchange->Respond({.status = 500, .body = "later still"});
  };
  Client client(running.port());
  for (int i = 0; i < 2; ++i) {
    client.Send(Get("/a"));
    const Answer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, std::string(1'000'000, 'x'));
  }
}

TEST(HttpServer, AnswersForAHandlerThatDoesNot) {
  Running running;
  running.handle = [](std::shared_ptr<Exchange>) {};
  Client client(running.port());
  client.Send(Get("/a"));
  EXPECT_EQ(client.Read().status, 500);
}

TEST(HttpServer, AnswersWhatHasBegunAtItsEnd) {
  Running running;
  std::promise<void> begun;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    begun.set_value();
    std::thread([exchange] {
      std::this_thread::sleep_for(300ms);
      exchange->Respond({.body = "late"});
    }).detach();
  };
  Client working(running.port()), idle(running.port());
  working.Send(Get("/a"));
  begun.get_future().get();
  running.server().Stop();
  const Answer answer = working.Read();
  EXPECT_EQ(answer.body, "late");
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(working.IsClosed());
  EXPECT_TRUE(idle.IsClosed());
  running.End();
  EXPECT_NE(ErrorMessage([&] { Client(running.port()); }), "");
}

TEST(HttpServer, GivesUpWhatTakesTooLongAtItsEnd) {
  Running running({}, /*drain_seconds=*/0.3);
  std::promise<void> begun;
  std::promise<bool> cancelled;
  running.handle = [&](std::shared_ptr<Exchange> exchange) {
    begun.set_value();
    std::thread([&, exchange] {
      for (int i = 0; i < 500 && !exchange->cancelled(); ++i) std::this_thread::sleep_for(10ms);
      cancelled.set_value(exchange->cancelled());
    }).detach();
  };
  Client client(running.port());
  client.Send(Get("/a"));
  begun.get_future().get();
  running.server().Stop();
  EXPECT_TRUE(cancelled.get_future().get());
}

TEST(HttpServer, RefusesAddressesThatItCannotHave) {
  Running running;
  EXPECT_NE(ErrorMessage([&] { HttpServer("127.0.0.1", running.port(), {}, {}); }).find("cannot listen"),
            std::string::npos);
  EXPECT_NE(ErrorMessage([&] { HttpServer("example.org", 0, {}, {}); }).find("expected an IP address"),
            std::string::npos);
}

}  // namespace
}  // namespace qkv::server
