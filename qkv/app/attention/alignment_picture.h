// The picture of `qkv attend` for a text: matrices of weights with the tokens' names beside them.
#pragma once

#include "qkv/app/attention/text_attention.h"
#include "qkv/image/image.h"

namespace qkv::app {

/// Rows are the tokens that look, columns those that they look at. Colours go from 0 to the picture's greatest weight,
/// but for a decoder's first row, which has one token only; the bar then ends at "≥ 72 %". One block and head fills the
/// picture, with percents in cells that have room for them; several are a sheet with a row for each block and a column
/// for each head. Returns RGB. Throws Error if the picture would be too large.
image::Image AlignmentPicture(const TextAttention& attention);

}  // namespace qkv::app
