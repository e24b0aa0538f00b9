#include "qkv/attention/plan.h"

namespace qkv::attention {

double MultiplyAdds(Order order, const Workload& w) {
  const auto queries = static_cast<double>(w.queries), keys = static_cast<double>(w.keys),
             width = static_cast<double>(w.width), heads = static_cast<double>(w.heads),
             joined = heads * static_cast<double>(w.head_width);
  if (order == Order::kAbsorbed) return 2 * queries * joined * width + 2 * queries * keys * heads * width;
  return 2 * keys * joined * width + 2 * queries * keys * joined;
}

Order CheapestOrder(const Workload& workload) {
  const bool absorbed =
      workload.keys_are_linear && MultiplyAdds(Order::kAbsorbed, workload) < MultiplyAdds(Order::kProjected, workload);
  return absorbed ? Order::kAbsorbed : Order::kProjected;
}

}  // namespace qkv::attention
