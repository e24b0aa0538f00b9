// Which waiting work is next: clients share the engine by what their work costs, and each client's requests share its
// part. Weighted fair queueing (Demers, Keshav, Shenker 1989) at both levels: cheap work passes by expensive work, and
// nothing waits for ever. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace qkv::server {

struct QueuedWork;

/// What one client has had and waits for. Times are virtual: seconds of work per request, or per client, in turn.
struct ClientShare {
  std::vector<std::shared_ptr<QueuedWork>> waiting;
  double now = 0;    // of its requests
  double start = 0;  // at which its next work begins, of all clients
};

/// One request: what it has had, of its client's part.
struct Turn {
  std::string client;                       // its address: clients are told apart by ClientKey (host.h)
  std::shared_ptr<ClientShare> share = {};  // set by FairQueue
  double finish = 0;                        // of its last work, in the client's virtual time
  double queued = 0, computed = 0;          // seconds, so far
};

/// To be derived from. `cost` is given, in predicted seconds above 0; the rest is the queue's.
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
  /// What still waits and its client know each other.
  ~FairQueue();

  void Add(Work work, Turn& turn);
  /// The next of those for which `may` is true; null if there is none.
  Work First(const std::function<bool(const QueuedWork&)>& may) const;
  /// Takes it out to be computed: its client has had its cost, until Finish tells what it really took.
  void Take(const Work& work);
  /// What was taken has ended: its client has had so many seconds instead of its cost. `work->finish` is corrected as
  /// well, which the request's Turn begins its next work with.
  void Finish(const Work& work, double seconds);
  /// Takes it out without that. False if it is not there.
  bool Remove(const Work& work);

  int64_t size() const { return size_; }
  /// Of all that waits.
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
