// What the libraries' preprocessing configurations share: numbers of a channel, sizes, centre crops.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/model/config/fields.h"
#include "qkv/model/config/preprocess_config.h"

namespace qkv::model {

/// `side`, the value of `key`. Throws Error when it is no number of pixels.
int64_t Side(const Fields& fields, std::string_view key, int64_t side);

/// One number a channel: a number or a list. A list for three channels serves one channel where all are equal (a model
/// changed to grey often keeps it); other lengths stay, for Apply to refuse, since pixels may be given without it.
std::vector<float> Channels(const Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                            int channels);

/// The same without a zero. Throws Error when there is one.
std::vector<float> Deviations(const Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                              int channels);

/// Throws Error when a given size is none.
void CheckOverride(ImageSize size);

bool CropsNothing(const image::Preprocess& preprocess);

/// Whether a centre crop can have an odd margin, which the two libraries round to different sides.
bool CropsOddly(const image::Preprocess& preprocess);

/// The number of fewest decimals near `x` for which `fits` holds, such as 0.9 for 224/248 where floor(224/x) = 248.
/// Falls back on the doubles next to `x`, then on `x` itself.
double ShortestDecimal(double x, const std::function<bool(double)>& fits);

/// The double that reads as the float does: 0.485, not 0.48500001.
double AsWritten(float x);

}  // namespace qkv::model
