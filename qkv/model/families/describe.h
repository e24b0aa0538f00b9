// Describes a model of any family from its files, or from its tensors.
#pragma once

#include <cstdint>
#include <optional>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"
#include "qkv/io/tensor_set.h"
#include "qkv/model/config/description.h"

namespace qkv::model {

/// Reads a config.json of any family (families/), recognised by its keys. preprocessor: Hugging Face's. Throws Error
/// that names the key, or the architecture and why qkv does not run it.
Description Describe(const io::Json& config, const std::optional<io::Json>& preprocessor, const io::TensorSet& tensors,
                     const ConfigNames& names = {});

/// Infers the description from names and shapes of tensors and from `given`. Throws Error that names the option if
/// neither determines something that changes every result (the number of heads). What follows the family's convention
/// is assumed, and listed in `assumptions`.
Description DescribeFromTensors(const io::TensorSet& tensors, const ModelHints& given = {});

/// Throws Error if `given` contradicts the model's files.
void RequireAgreement(const Description& description, const ModelHints& given);

/// `preprocess` for another input size, as the family's own library computes it.
image::Preprocess PreprocessForSize(const Description& description, int64_t height, int64_t width);

/// Reads timm's keys only, which models trained by qkv have too: without preprocessing and qkv's own keys.
Description DescribeTimm(const io::Json& config);

}  // namespace qkv::model
