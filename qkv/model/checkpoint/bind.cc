#include "qkv/model/checkpoint/bind.h"

#include <string>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_caption.h"
#include "qkv/model/families/text_family.h"
#include "qkv/model/layout/binder.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

std::vector<BoundTensor> Bind(const VitConfig& config, const io::TensorSet& tensors) {
  return BindTowers(config, nullptr, nullptr, tensors).image;
}

BoundTowers BindTowers(const VitConfig& config, const TextTower* text, const CaptionDecoder* decoder,
                       const io::TensorSet& tensors) {
  const FamilyRow& family = FindFamily(config);
  Binder binder(tensors);
  BoundTowers bound;
  bound.image = binder.Bind(TensorTable(config), family.layout(config), BasePrefix(tensors));
  for (BoundTensor& tensor : bound.image) {
    tensor.split = FindHalfSplitRows(config, tensor.spec.name);
    tensor.last_tokens = FindLastTokens(config, tensor.spec.name);
  }
  if (text != nullptr) {
    Require(family.text_layout != nullptr, "families: {} has no names for a text encoder", config.architecture);
    bound.text = binder.Bind(TensorTable(*text), *family.text_layout, TextPrefix(tensors));
  }
  if (decoder != nullptr) {
    const TextFamilyRow& row = TextFamilyOf(decoder->model_type);
    bound.decoder =
        binder.Bind(TensorTable(decoder->config), row.decoder(decoder->config), PrefixBefore(tensors, row.anchors));
    SetStorage(decoder->config, &bound.decoder);
    for (BoundTensor& tensor : binder.Bind(ProjectionTable(*decoder, config.block.width), HfCaptionLayout(), "")) {
      bound.decoder.push_back(std::move(tensor));
    }
  }
  const std::string& owner = decoder != nullptr ? decoder->architecture : config.architecture;
  binder.Finish(fmt::format("{} ({} layout)", owner, Name(config.family)), [&]() -> std::string {
    const std::string settings = family.settings_that_fit ? family.settings_that_fit(config, tensors) : "";
    return settings.empty() ? "" : fmt::format("\nthe tensors are those of a model with{}", settings);
  });
  return bound;
}

}  // namespace qkv::model
