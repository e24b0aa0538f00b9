// Shared by the readers and writers of preprocessing configurations: values per channel, sizes, centre crops.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "qkv/image/preprocess.h"
#include "qkv/io/fields.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/preprocess_config.h"
#include "qkv/model/layout/config_files.h"

namespace qkv::model {

/// `side`, the value of `key`. Throws Error if it is not a valid number of pixels.
int64_t Side(const io::Fields& fields, std::string_view key, int64_t side);

/// Values per channel, from one number or a list. A list of three equal values fits one channel (a model changed to
/// grey often keeps it). Lists of other lengths are kept, and Apply rejects them: a caller that provides pixels does
/// not need them.
std::vector<float> Channels(const io::Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                            int channels);

/// As Channels. Throws Error if a value is 0.
std::vector<float> Deviations(const io::Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                              int channels);

/// The keys of timm's pretrained_cfg and of Hugging Face's preprocessor_config.json that a caller may set.
inline constexpr std::string_view kTimmPreprocessKeys[] = {"input_size", "interpolation", "crop_mode"};
inline constexpr std::string_view kHfPreprocessKeys[] = {
    "image_processor_type", "do_resize",      "size",        "resample", "do_center_crop", "crop_size",
    "do_rescale",           "rescale_factor", "do_normalize"};

/// FamilyRow::change_preprocess in timm's keys, which vit-pytorch's models have too, and in Hugging Face's.
void ChangeTimmPreprocess(const Description& description, const io::Json& settings, const ModelHints& given,
                          ConfigFiles* files);
void ChangeHfPreprocess(const Description& description, const io::Json& settings, const ModelHints& given,
                        ConfigFiles* files);

/// Values that a caller gave, one for each channel. what: their option, for messages.
std::vector<double> PerChannel(const std::vector<double>& given, int64_t channels, std::string_view what);

/// Throws Error if a given size is not valid.
void CheckOverride(ImageSize size);

bool IsFullCrop(const image::Preprocess& preprocess);

/// True if a centre crop can have an odd margin, which the two libraries round to different sides.
bool HasOddCropMargin(const image::Preprocess& preprocess);

/// The number with the fewest decimals near `x` for which `fits` holds, such as 0.9 for 224/248 where floor(224/x) =
/// 248. Falls back to the doubles next to `x`, then to `x` itself.
double ShortestDecimal(double x, const std::function<bool(double)>& fits);

/// The double with the float's shortest decimal form: 0.485, not 0.48500001.
double ShortestDecimalValue(float x);

}  // namespace qkv::model
