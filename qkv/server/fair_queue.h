// Chooses which waiting work is next: clients share the engine by the cost of their work, and each client's requests
// share its part. Weighted fair queueing (Demers, Keshav, Shenker 1989) at both levels: cheap work passes expensive
// work, and nothing waits for ever. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qkv::server {

struct QueuedWork;

/// What one client has used, and its waiting work. Times are virtual: seconds of work per request, or per client.
struct ClientShare {
  std::vector<std::shared_ptr<QueuedWork>> waiting;
  double now = 0;    // of its requests
  double start = 0;  // at which its next work begins, of all clients
};

/// One request's use of its client's share.
struct Turn {
  std::string client;                       // its address: clients are told apart by ClientKey (host.h)
  std::shared_ptr<ClientShare> share = {};  // set by FairQueue
  double finish = 0;                        // of its last work, in the client's virtual time
  double queued = 0, computed = 0;          // seconds, so far
};

/// Base class of work. The caller sets `cost`, in predicted seconds above 0; the rest is the queue's.
struct QueuedWork {
  double cost = 0;
  double finish = 0;  // virtual
  uint64_t number = 0;
  int64_t requests = 1, clients = 1;  // that waited while it was computed: of its client, and of all
  std::shared_ptr<ClientShare> client = {};
};

class FairQueue {
 public:
  using Work = std::shared_ptr<QueuedWork>;

  FairQueue() = default;
  FairQueue(const FairQueue&) = delete;
  FairQueue& operator=(const FairQueue&) = delete;
  /// Separates waiting work from its clients, which point at each other.
  ~FairQueue();

  void Add(Work work, Turn& turn);
  /// The next of those for which `may` is true; null if there is none.
  Work First(const std::function<bool(const QueuedWork&)>& may) const;
  /// Takes the work out to be computed: its cost is charged to its client until Finish corrects it.
  void Take(const Work& work);
  /// The work has ended: its client is charged these seconds instead of its cost. Also corrects `work->finish`, from
  /// which the request's Turn begins its next work.
  void Finish(const Work& work, double seconds);
  /// Takes the work out without charging. False if it is not there.
  bool Remove(const Work& work);

  int64_t size() const { return size_; }
  /// Cost of all waiting work.
  double cost() const;
  void ForEach(const std::function<void(const QueuedWork&)>& use) const;

 private:
  int64_t CountClients(const ClientShare& served) const;
  void Prune();

  std::map<std::string, std::shared_ptr<ClientShare>> clients_;
  double now_ = 0;  // of the clients
  uint64_t added_ = 0;
  int64_t size_ = 0;
};

}  // namespace qkv::server
