#include "qkv/core/pause.h"

#include <utility>

#include "qkv/core/serial.h"
#include "qkv/core/work.h"

namespace qkv {
namespace {

thread_local PauseScope* t_scope = nullptr;

// Puts it back even if the others throw.
class Without {
 public:
  Without() : scope_(std::exchange(t_scope, nullptr)) {}
  ~Without() { t_scope = scope_; }
  Without(const Without&) = delete;
  Without& operator=(const Without&) = delete;
  PauseScope* scope() const { return scope_; }

 private:
  PauseScope* const scope_;
};

}  // namespace

void Pause() {
  CheckCancelled();
  if (t_scope == nullptr || InLoop()) return;
  const Without none;
  none.scope()->others_();
}

PauseScope::PauseScope(std::function<void()> others)
    : others_(std::move(others)), before_(std::exchange(t_scope, this)) {}
PauseScope::~PauseScope() { t_scope = before_; }

}  // namespace qkv
