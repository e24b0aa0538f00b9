#include "qkv/server/fair_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "qkv/server/host.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxClients = 256;  // remembered without a request

}  // namespace

FairQueue::~FairQueue() {
  for (const auto& [name, client] : clients_) client->waiting.clear();
}

void FairQueue::Add(Work work, Turn& turn) {
  if (!turn.share) {
    if (clients_.size() >= kMaxClients) Prune();
    std::shared_ptr<ClientShare>& share = clients_[ClientKey(turn.client)];
    if (!share) share = std::make_shared<ClientShare>();
    turn.share = share;
  }
  ClientShare& client = *turn.share;
  if (client.waiting.empty()) client.start = std::max(client.start, now_);
  turn.finish = std::max(turn.finish, client.now) + work->cost;
  work->finish = turn.finish;
  work->number = ++added_;
  work->client = turn.share;
  client.waiting.push_back(std::move(work));
  ++size_;
}

FairQueue::Work FairQueue::First(const std::function<bool(const QueuedWork&)>& may) const {
  Work first;
  double finish = 0;
  for (const auto& [name, client] : clients_) {
    Work best;
    for (const Work& work : client->waiting) {
      if (!may(*work)) continue;
      if (!best || std::tie(work->finish, work->number) < std::tie(best->finish, best->number)) best = work;
    }
    if (!best) continue;
    const double end = client->start + best->cost;
    if (!first || std::tie(end, best->number) < std::tie(finish, first->number)) first = best, finish = end;
  }
  return first;
}

void FairQueue::Take(const Work& work) {
  ClientShare& client = *work->client;
  work->requests = std::ssize(client.waiting);
  work->clients = CountClients(client);
  Remove(work);
  client.start += work->cost;
}

// Virtual time advances by the seconds' share of each waiting client, as if all were served at once. Clients that came
// during the work count: they waited for most of it, and later ones should not wait until these had their share.
void FairQueue::Finish(const Work& work, double seconds) {
  ClientShare& client = *work->client;
  work->requests = std::max<int64_t>(work->requests, std::ssize(client.waiting) + 1);
  work->clients = std::max(work->clients, CountClients(client));
  client.now += seconds / static_cast<double>(work->requests);
  now_ += seconds / static_cast<double>(work->clients);
  client.start += seconds - work->cost;
  work->finish += seconds - work->cost;
}

// Waiting clients, and this one.
int64_t FairQueue::CountClients(const ClientShare& served) const {
  return std::ranges::count_if(
      clients_, [&](const auto& client) { return client.second.get() == &served || !client.second->waiting.empty(); });
}

bool FairQueue::Remove(const Work& work) {
  if (std::erase(work->client->waiting, work) == 0) return false;
  --size_;
  return true;
}

double FairQueue::cost() const {
  double cost = 0;
  ForEach([&](const QueuedWork& work) { cost += work.cost; });
  return cost;
}

void FairQueue::ForEach(const std::function<void(const QueuedWork&)>& use) const {
  for (const auto& [name, client] : clients_) {
    for (const Work& work : client->waiting) use(*work);
  }
}

// A client without requests owes nothing: it has had at most its share.
void FairQueue::Prune() {
  std::erase_if(clients_, [](const auto& client) { return client.second.use_count() == 1; });
}

}  // namespace qkv::server
