// Turns of clients and requests, with costs of their own: the order, bounds of waiting in pieces, and no starvation.
#include "qkv/server/fair_queue.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <string>

namespace qkv::server {
namespace {

constexpr double kPiece = 0.04, kDigit = 0.0005;

bool Any(const QueuedWork&) { return true; }

// Requests of several pieces, each of which is queued when the one before has been taken, as handlers do.
class Requests {
 public:
  // used: seconds that each piece really takes, unless they are the cost.
  void Add(const std::string& client, const std::string& name, double cost, int pieces = 1, double used = 0) {
    requests_.push_back({{.client = client}, name, cost, pieces, used});
    Queue(requests_.back());
  }
  // The name of the request whose turn it is; empty if there is none.
  std::string Serve() {
    const FairQueue::Work work = queue_.First(Any);
    if (!work) return "";
    queue_.Take(work);
    for (Request& request : requests_) {
      if (request.waiting != work) continue;
      const double used = request.used > 0 ? request.used : request.cost;
      queue_.Finish(work, used);
      used_[request.turn.client] += used;
      request.turn.finish = work->finish;
      request.waiting.reset();
      if (request.pieces > 0) Queue(request);
      return request.name;
    }
    return "?";
  }
  // Pieces of others that go before one of `name`.
  int Before(const std::string& name) {
    for (int before = 0; before < 100'000; ++before) {
      if (Serve() == name) return before;
    }
    return -1;
  }
  double UsedBy(const std::string& client) { return used_[client]; }
  const FairQueue& queue() const { return queue_; }

 private:
  struct Request {
    Turn turn;
    std::string name;
    double cost = 0;
    int pieces = 0;
    double used = 0;
    FairQueue::Work waiting = {};
  };
  void Queue(Request& request) {
    --request.pieces;
    request.waiting = std::make_shared<QueuedWork>();
    request.waiting->cost = request.cost;
    queue_.Add(request.waiting, request.turn);
  }

  FairQueue queue_;
  std::deque<Request> requests_;
  std::map<std::string, double> used_;
};

TEST(FairQueue, KeepsTheOrderOfEquals) {
  Requests requests;
  for (const char* name : {"a", "b", "c"}) requests.Add("client", name, kPiece);
  for (const char* name : {"a", "b", "c"}) EXPECT_EQ(requests.Serve(), name);
  EXPECT_EQ(requests.Serve(), "");
  EXPECT_EQ(requests.queue().size(), 0);
  EXPECT_EQ(requests.queue().cost(), 0);
}

TEST(FairQueue, ADigitPassesByPhotosOfOneRequestOfTenAndOfAHundredConnections) {
  for (const int others : {1, 10, 100}) {
    for (const std::string client : {"photos", "digits"}) {
      Requests requests;
      for (int i = 0; i < others; ++i) requests.Add("photos", "photo", kPiece, 64);
      for (int moment = 0; moment < 3 * others + 5; ++moment) {
        requests.Serve();  // it is computed while the digit comes
        requests.Add(client, "digit", kDigit);
        // At the end of a round those go first whose turn comes before the digit would be done: of 100 with an equal
        // part of the time, one or two.
        EXPECT_LE(requests.Before("digit"), others * kDigit / kPiece + 1) << others << " " << client << " " << moment;
      }
    }
  }
}

// The first piece of ten was alone when it began: the other nine came while it was computed.
TEST(FairQueue, ADigitPassesByPhotosThatCameDuringTheFirst) {
  for (const bool one_client : {true, false}) {
    FairQueue queue;
    std::deque<Turn> turns;
    const auto add = [&](double cost) {
      auto work = std::make_shared<QueuedWork>();
      work->cost = cost;
      queue.Add(work, turns.emplace_back(Turn{.client = one_client ? "a" : fmt::format("{}", turns.size())}));
      return work;
    };
    const FairQueue::Work first = add(kPiece);
    queue.Take(first);
    for (int i = 0; i < 9; ++i) add(kPiece);
    queue.Finish(first, kPiece);
    const FairQueue::Work digit = add(kDigit);
    EXPECT_EQ(queue.First(Any), digit) << one_client;
  }
}

TEST(FairQueue, RequestsOfManyPiecesTakeTurns) {
  Requests requests;
  for (const char* name : {"a", "b", "c"}) requests.Add("client", name, kPiece, 4);
  std::string order;
  for (int i = 0; i < 12; ++i) order += requests.Serve();
  EXPECT_EQ(order, "abcabcabcabc");
}

TEST(FairQueue, AClientHasOnePartHoweverManyRequestsItSends) {
  Requests requests;
  for (int i = 0; i < 50; ++i) requests.Add("many", "m", kPiece, 100);
  requests.Add("one", "o", kPiece, 100);
  int ones = 0;
  for (int i = 0; i < 60; ++i) ones += requests.Serve() == "o" ? 1 : 0;
  EXPECT_NEAR(ones, 30, 1);
}

TEST(FairQueue, CostsThatWereGuessedWronglyAreCorrected) {
  constexpr double kLight = 0.002, kHeavy = 50 * kLight;
  // One guess for all: the mean, too little, too much.
  for (const double guess : {0.05, 0.0001, 1.0}) {
    Requests requests;
    for (int i = 0; i < 8; ++i) {
      requests.Add("heavy", "h", guess, 100'000, kHeavy);
      requests.Add("light", "l", guess, 100'000, kLight);
    }
    for (int i = 0; i < 2000; ++i) requests.Serve();
    const double heavy = requests.UsedBy("heavy"), light = requests.UsedBy("light");
    EXPECT_NEAR(heavy / (heavy + light), 0.5, 0.05) << guess;
  }
}

TEST(FairQueue, RequestsOfAClientShareByWhatTheyReallyTake) {
  Requests requests;
  requests.Add("client", "heavy", 0.05, 100'000, 0.1);
  requests.Add("client", "light", 0.05, 100'000, 0.002);
  int heavy = 0;
  for (int i = 0; i < 1020; ++i) heavy += requests.Serve() == "heavy" ? 1 : 0;
  EXPECT_NEAR(heavy, 20, 3);
}

TEST(FairQueue, AddressesOfOneNetworkAreOneClient) {
  Requests requests;
  for (int i = 0; i < 50; ++i) requests.Add(fmt::format("2001:db8::{:x}", i + 1), "m", kPiece, 100);
  requests.Add("2001:db8:0:1::1", "o", kPiece, 100);
  int ones = 0;
  for (int i = 0; i < 60; ++i) ones += requests.Serve() == "o" ? 1 : 0;
  EXPECT_NEAR(ones, 30, 1);
}

TEST(FairQueue, AStreamOfCheapWorkStarvesNothing) {
  for (const std::string client : {"photos", "digits"}) {
    Requests requests;
    requests.Add("photos", "photo", kPiece);
    // A new digit as soon as one is taken; sixteen wait at each time.
    for (int i = 0; i < 16; ++i) requests.Add(client, "digit", kDigit);
    int served = 0;
    for (std::string name = requests.Serve(); name != "photo" && served < 100'000; name = requests.Serve()) {
      ++served;
      requests.Add(client, "digit", kDigit);
    }
    EXPECT_GE(served, 16);
    EXPECT_LE(served, 17 * kPiece / kDigit + 17) << "the photo's part of the time that the digits took";
  }
}

TEST(FairQueue, TakesTheFirstOfThoseThatMay) {
  FairQueue queue;
  Turn turn, other;
  const auto dear = std::make_shared<QueuedWork>(), cheap = std::make_shared<QueuedWork>();
  dear->cost = kPiece, cheap->cost = kDigit;
  queue.Add(dear, turn);
  queue.Add(cheap, other);
  EXPECT_EQ(queue.First(Any), cheap);
  EXPECT_EQ(queue.First([](const QueuedWork& work) { return work.cost > kDigit; }), dear);
  EXPECT_EQ(queue.First([](const QueuedWork&) { return false; }), nullptr);
  EXPECT_TRUE(queue.Remove(cheap));
  EXPECT_FALSE(queue.Remove(cheap));
  EXPECT_EQ(queue.First(Any), dear);
  EXPECT_DOUBLE_EQ(queue.cost(), kPiece);
}

}  // namespace
}  // namespace qkv::server
