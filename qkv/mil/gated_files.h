// Layouts of pretrained gated heads: which tensors they have, and what these are in GatedWeights.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/mil/gated_head.h"

namespace qkv::mil {

/// The weights of CLAM_SB and CLAM_MB (github.com/mahmoodlab/CLAM), of FEATHER and other ABMIL of MIL-Lab
/// (github.com/mahmoodlab/MIL-Lab), or of TRIDENT's ABMIL (github.com/mahmoodlab/TRIDENT), recognised by names and
/// shapes, within any of the wrappers "module.", "model.", …. classes: names, or empty for "class 0", ….
/// Throws Error, prefixed with `where`, for other heads (MIL_fc, TransMIL, …), for tensors that the layout lacks, and
/// for shapes that do not fit together. Moves tensors' names in `set`.
GatedWeights ReadGatedWeights(io::TensorSet* set, std::string_view where, const std::vector<std::string>& classes = {});

}  // namespace qkv::mil
