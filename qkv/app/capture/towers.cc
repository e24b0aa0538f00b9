#include "qkv/app/capture/towers.h"

#include <cstring>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/model/two_tower.h"

namespace qkv::app {
namespace {

constexpr const char *kIds = "input_ids", *kMask = "attention_mask";

}  // namespace

Tensor<int64_t> ReadTokenTensor(const io::StoredTensor& stored, const std::string& path) {
  Require(stored.shape.rank() == 2 && stored.shape.size() > 0, "{}: \"{}\" is {}, expected [texts, tokens]", path,
          stored.name, stored.shape);
  Require(stored.dtype == DType::kI64 || stored.dtype == DType::kI32, "{}: \"{}\" is of {}, expected I64 or I32", path,
          stored.name, Name(stored.dtype));
  auto values = Tensor<int64_t>::Uninitialised(stored.shape);
  const std::byte* from = stored.bytes.data();
  for (int64_t i = 0; i < values.size(); ++i) {
    if (stored.dtype == DType::kI64) {
      std::memcpy(&values[i], from + i * 8, 8);
    } else {
      int32_t value = 0;
      std::memcpy(&value, from + i * 4, 4);
      values[i] = value;
    }
  }
  return values;
}

TextTensors ReadTextTensors(const io::SafeTensors& file, const std::string& path) {
  const io::StoredTensor *const ids = file.Find(kIds), *const mask = file.Find(kMask);
  Require(ids != nullptr, "{}: there is no tensor \"{}\"", path, kIds);
  TextTensors inputs{ReadTokenTensor(*ids, path), {}};
  if (mask == nullptr) return inputs;
  inputs.mask = ReadTokenTensor(*mask, path);
  Require(inputs.mask.shape() == inputs.ids.shape(), "{}: \"attention_mask\" is {}, expected {} as \"input_ids\"", path,
          inputs.mask.shape(), inputs.ids.shape());
  return inputs;
}

bool IsTextInput(std::string_view name) { return name == kIds || name == kMask; }

void AddEmbeddings(const model::Checkpoint& checkpoint, const model::BuildOptions& options, const io::SafeTensors* file,
                   const std::string& path, Captured* captured) {
  const bool has_texts = file != nullptr && file->Find(kIds) != nullptr;
  Require(!has_texts || checkpoint.description.text.has_value(),
          "{}: holds \"{}\", but {} has no text encoder; leave them out", path, kIds, checkpoint.source);
  if (!checkpoint.description.text) return;
  const auto pooled = captured->find("pooled");
  if (pooled != captured->end()) {
    Tensor<float> embeds = pooled->second.Clone();
    model::NormaliseRows(embeds);  // NaN is written as such, as in every tensor of `qkv run`
    captured->emplace("image_embeds", std::move(embeds));
  }
  if (!has_texts) return;
  const TextTensors texts = ReadTextTensors(*file, path);
  const model::TwoTowerModel model(checkpoint, model::Towers::kText, options);
  captured->emplace("text_embeds", model.TextEmbeds(texts.ids, texts.mask));
  const auto images = captured->find("image_embeds");
  if (images == captured->end()) return;
  captured->emplace("logits_per_image", model.LogitsPerImage(images->second, captured->at("text_embeds")));
}

}  // namespace qkv::app
