#include "qkv/model/families/describe.h"

#include <tuple>

#include "qkv/io/fields.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

// Reads the keys that SetOwnKeys writes.
void ParseOwnKeys(const io::Fields& config, VitConfig* c) {
  const std::string name = config.String("qkv_attention", std::string(Name(c->block.attention.kind)));
  const std::optional<nn::AttentionKind> kind = FindAttentionKind(name);
  Require(kind.has_value(), "config.json: \"qkv_attention\" is \"{}\", expected {}", name, kAttentionKindNames);
  c->block.attention.kind = *kind;
  c->block.attention.qk_width = config.Int("qkv_attention_rank", 0);
  const std::string rotary = config.String("qkv_rotary", std::string(Name(c->rotary)));
  const std::optional<PatchRotary> found = FindPatchRotary(rotary);
  Require(found.has_value(), "config.json: \"qkv_rotary\" is \"{}\", expected none, patches, normalised or mixed",
          rotary);
  c->rotary = *found;
  c->rotary_base = config.Number("qkv_rotary_base", c->rotary_base);
  std::tie(c->rotary_grid_height, c->rotary_grid_width) =
      config.Size("qkv_rotary_grid", {c->rotary_grid_height, c->rotary_grid_width});
  c->rotary_scales = config.Bool("qkv_rotary_scales", c->rotary_scales);
  c->rotary_offset = config.Number("qkv_rotary_offset", c->rotary_offset);
  c->rotary_columns_first = config.Bool("qkv_rotary_columns_first", c->rotary_columns_first);
}

}  // namespace

Description DescribeFromTensors(const io::TensorSet& tensors, const ModelHints& given) {
  Require(tensors.Find("blocks.0.attn.v.weight") == nullptr && tensors.Find("blocks.0.attn.qk.weight") == nullptr &&
              tensors.Find("blocks.0.attn.qk.query.weight") == nullptr,
          "checkpoint: its attention is of a kind that only a config.json tells (\"qkv_attention\")");
  Description description = FindFamily(tensors).describe_tensors(tensors, given);
  Validate(description.config);
  RequireAgreement(description, given);
  description.assumptions.insert(description.assumptions.begin(), "no config.json: all is read off the tensors");
  description.preprocess =
      PreprocessForSize(description, description.config.image_height, description.config.image_width);
  return description;
}

void RequireAgreement(const Description& description, const ModelHints& given) {
  Require(given.heads == 0 || given.heads == description.config.block.attention.heads,
          "checkpoint: --heads {} contradicts the model's own files, which say {}; leave it out", given.heads,
          description.config.block.attention.heads);
}

Description Describe(const io::Json& config, const std::optional<io::Json>& preprocessor, const io::TensorSet& tensors,
                     const ConfigNames& names) {
  const io::Fields fields(config, names.config);
  Require(!DescribesSequenceModel(config), "config.json: this is a sequence model, expected an image model");
  const FamilyRow& family = FindFamily(fields);
  Description description = family.describe(fields, preprocessor, tensors);
  ParseOwnKeys(fields, &description.config);
  Validate(description.config);
  if (description.text) Validate(*description.text, description.config.pooled_width());
  if (description.decoder) Validate(*description.decoder, description.config.block.width);
  const std::string background = fields.String("qkv_background", "any");
  Require(background == "any" || background == "dark",
          "config.json: \"qkv_background\" is \"{}\", expected any or dark", background);
  description.dark_background = background == "dark";
  const std::span<const io::KnownKey> of_decoder =
      description.decoder ? TextFamilyOf(description.decoder->model_type).known : std::span<const io::KnownKey>();
  io::Append(fields.Settle({family.known, of_decoder, kHfKnownKeys, GenerationKeys(/*superseded=*/true)}),
             &description.settings);
  // Without a size: that of the configuration, not of the model, because a Hugging Face processor may crop to another.
  if (description.preprocess_file.empty()) description.preprocess_file = names.preprocessor;
  const io::Fields images(description.preprocess_json, description.preprocess_file);
  const FamilyRow& own = FindFamily(description.config);
  description.preprocess = own.preprocess(description, images, /*size=*/{});
  if (!own.preprocess_known.empty()) io::Append(images.Settle({own.preprocess_known}), &description.settings);
  return description;
}

image::Preprocess PreprocessForSize(const Description& description, int64_t height, int64_t width) {
  const io::Fields images(description.preprocess_json, description.preprocess_file);
  return FindFamily(description.config).preprocess(description, images, std::pair(height, width));
}

}  // namespace qkv::model
