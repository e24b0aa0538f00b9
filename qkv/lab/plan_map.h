// The break-even map: which order of attention's products needs the fewest multiply-adds, over the shapes of a model.
#pragma once

#include <string>

#include "qkv/attention/plan.h"

namespace qkv::lab {

/// SVG of the cheapest order over E/D and N/D. `shown` is marked as one more point unless its width is 0.
std::string BreakEvenMap(const attention::Workload& shown);

}  // namespace qkv::lab
