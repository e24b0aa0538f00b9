// The names of poolings.
#include <array>
#include <string_view>
#include <utility>

#include "qkv/app/vectors/embed.h"
#include "qkv/core/error.h"

namespace qkv::app {

Pooling ParsePooling(std::string_view name, std::string_view option) {
  constexpr std::array<std::pair<std::string_view, Pooling>, 5> kNames = {{{"model", Pooling::kModel},
                                                                           {"cls", Pooling::kClassToken},
                                                                           {"mean", Pooling::kMean},
                                                                           {"cls+mean", Pooling::kClassTokenAndMean},
                                                                           {"tokens", Pooling::kTokens}}};
  for (const auto& [known, pooling] : kNames) {
    if (name == known) return pooling;
  }
  Fail("{}: expected model, cls, mean, cls+mean or tokens, got \"{}\"", option, name);
}

}  // namespace qkv::app
