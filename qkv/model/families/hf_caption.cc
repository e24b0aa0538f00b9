// Hugging Face transformers: VisionEncoderDecoderModel, an image encoder of any family here with a decoder of any
// family of texts that has cross-attention (GPT-2, TrOCR), for captions and the reading of text lines.
#include "qkv/model/families/hf_caption.h"

#include "qkv/core/error.h"
#include "qkv/model/families/families.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

constexpr std::string_view kModelTypes[] = {"vision-encoder-decoder"};

constexpr NameRow kRows[] = {{"projection", "enc_to_dec_proj"}};
constexpr std::span<const NameRow> kTables[] = {kRows};
constexpr Layout kLayout = {kTables, {}, {}};

// The image encoder, whose class is always the bare model, whatever class the part was taken from.
Description DescribeEncoder(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                            const io::TensorSet& tensors) {
  io::Json json = config.Object("encoder").json();
  json.erase("architectures");
  const io::Fields encoder = config.Object("encoder").With(json);
  Require(encoder.Has("model_type"), "config.json: \"encoder\" has no \"model_type\"; expected an image encoder");
  const FamilyRow& family = FindFamily(encoder);
  Require(&family != &kHfCaption, "config.json: the encoder is itself an encoder-decoder");
  Description description = family.describe(encoder, preprocessor, tensors);
  Require(!description.text && description.config.query_tokens == 0,
          "config.json: the encoder is {}; expected a plain image encoder, such as ViT, DeiT or BEiT",
          description.config.architecture);
  return description;
}

SequenceConfig DescribeDecoder(const io::Fields& decoder, const io::TensorSet& tensors,
                               std::vector<std::string>* assumptions) {
  const TextFamilyRow* const family = FindTextFamily(decoder);
  Require(family != nullptr && family->decoder != nullptr,
          "config.json: the decoder's \"model_type\" is {}; expected gpt2 or trocr, which read an image encoder",
          io::Quoted(decoder.String("model_type", "")));
  const TextDescription description = family->describe(decoder, tensors);
  Require(description.decoder && !description.encoder && description.decoder->block.cross,
          "config.json: the decoder, {}, has no cross-attention to read an image encoder (\"add_cross_attention\"); "
          "expected GPT-2 with it, or TrOCR",
          description.model_type);
  assumptions->insert(assumptions->end(), description.assumptions.begin(), description.assumptions.end());
  return *description.decoder;
}

// As transformers reads files without generation_config.json: the decoder's settings fill gaps in the model's.
io::Json MergedGeneration(const io::Fields& config) {
  io::Json keys = config.Object("decoder").json();
  for (const auto& [key, value] : config.json().items()) {
    if (!value.is_null()) keys[key] = value;
  }
  return keys;
}

Description DescribeHfCaption(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                              const io::TensorSet& tensors) {
  Description description = DescribeEncoder(config, preprocessor, tensors);
  const io::Fields decoder = config.Object("decoder");
  CaptionDecoder& d = description.decoder.emplace();
  d.architecture = HfArchitecture(config, "VisionEncoderDecoderModel");
  d.model_type = decoder.String("model_type", "");
  d.config = DescribeDecoder(decoder, tensors, &description.assumptions);
  d.projection = !decoder.Has("cross_attention_hidden_size") && d.config.block.width != description.config.block.width;
  const io::Json merged = MergedGeneration(config);
  d.generation = ReadGenerationDefaults(config.With(merged), nullptr);
  return description;
}

// Files without a config.json are described as their encoders.
Description DescribeHfCaptionTensors(const io::TensorSet&, const ModelHints&) {
  Fail("checkpoint: an image encoder with a decoder needs its config.json");
}

Translation TranslateToHfCaption(const Description& description) {
  Fail("convert: {} ({}) cannot be written for Hugging Face:\n  qkv does not write models with a decoder",
       description.config.architecture, Name(description.config.family));
}

}  // namespace

const Layout& HfCaptionLayout() { return kLayout; }
bool IsHfCaption(const io::Fields& config) { return HasModelType(config, kModelTypes); }

// The encoder's own row holds the configuration and has the names of its tensors.
constinit const FamilyRow kHfCaption = {
    .library = Family::kHuggingFace,
    .model_types = kModelTypes,
    .recognises = IsHfCaption,
    .recognises_tensors = [](const io::TensorSet&) { return false; },
    .describe = DescribeHfCaption,
    .known = kHfImageKeys,
    .describe_tensors = DescribeHfCaptionTensors,
    .settings = kHfSettings,
    .preprocess_settings = kHfPreprocessKeys,
    .arguments = [](io::Json& config) -> io::Json& { return config["encoder"]; },
    .change_preprocess = ChangeHfPreprocess,
    .write_labels = WriteHfLabels,
    .holds = [](const VitConfig&) { return false; },
    .layout = [](const VitConfig&) -> const Layout& { return kLayout; },
    .preprocess = PreprocessOfHf,
    .preprocess_known = kHfProcessorKeys,
    .translate = TranslateToHfCaption,
};

}  // namespace qkv::model
