// For a CancelScope (work.h) that asks more than the one around it.
#pragma once

#include <functional>

namespace qkv {

/// The check of this thread's innermost CancelScope, for a scope within it that also has to check. It must not outlive
/// that scope.
std::function<bool()> InnermostCancel();

}  // namespace qkv
