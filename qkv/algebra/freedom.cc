#include "qkv/algebra/freedom.h"

#include <algorithm>

namespace qkv::algebra {

ParameterCount CountParameters(int64_t D, int64_t E, bool bias, Terms terms) {
  Require(D > 0 && E > 0, "count parameters: expected D > 0 and E > 0, got D = {}, E = {}", D, E);
  const int64_t m = D + bias, n = D + (bias && terms == Terms::kExact), k = std::min({E, m, n});
  const int64_t separate = 2 * (D + bias) * E;
  return {.separate = separate,
          .merged = m * n,
          .identity_block = E <= D ? separate - E * E : 0,
          .freedom = k * (m + n - k)};
}

}  // namespace qkv::algebra
