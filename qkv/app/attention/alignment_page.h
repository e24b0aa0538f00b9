// The page of `qkv attend -o out.html` for a text: which tokens attend to which, in every block and head
// (web/alignment).
#pragma once

#include <string>

#include "qkv/app/attention/text_attention.h"

namespace qkv::app {

/// One self-contained HTML file. A weight is stored in two bytes, as a share of 65535.
std::string AlignmentPage(const TextAttention& attention);

}  // namespace qkv::app
