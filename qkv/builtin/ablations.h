// The results of data/ablations, inside the binary: hours of training.
#pragma once

#include <span>
#include <string_view>

namespace qkv::builtin {

struct StoredAblation {
  std::string_view name;  // "data/ablations/cifar10.json"
  std::string_view text;  // as lab::AblationResults::FromJson takes it
};

/// By name.
std::span<const StoredAblation> Ablations();

}  // namespace qkv::builtin
