// For a CancelScope (work.h) that asks more than the one around it.
#pragma once

#include <functional>

namespace qkv {

/// What the innermost CancelScope of this thread says, for a scope within it that goes on asking. It must not outlive
/// that scope.
std::function<bool()> InnermostCancel();

}  // namespace qkv
