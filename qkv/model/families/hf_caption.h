// Files that Hugging Face's models of an image encoder and a decoder have beside those of the two.
#pragma once

#include "qkv/io/fields.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

/// The name of the linear layer between encoder and decoder, "projection" in the table.
const Layout& HfCaptionLayout();

/// True for a config.json of such a model.
bool IsHfCaption(const io::Fields& config);

}  // namespace qkv::model
