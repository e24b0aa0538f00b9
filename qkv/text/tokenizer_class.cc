#include "qkv/text/tokenizer_class.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/text/decoder.h"

namespace qkv::text {
namespace {

using enum TokenizerKind;

// Order of tokens: begin, end, unknown, separator, padding, class, mask.
constexpr std::string_view kClipEnd = "<|endoftext|>";
constexpr TokenizerClass kClasses[] = {
    {kUnstated, "", "", TextFrame::kAsStated, false, {}},
    {kOther, "", "", TextFrame::kAsStated, false, {}},
    {kNotDone, "", "", TextFrame::kAsStated, false, {}},
    {kBackend, "", "", TextFrame::kAsStated, false, {}},
    {kBert,
     "BERT's",
     "WordPiece",
     TextFrame::kClassifySeparate,
     false,
     {"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {kBertSteps,
     "BERT's",
     "",
     TextFrame::kClassifySeparate,
     false,
     {"", "", "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"}},
    {kMpnet,
     "MPNet's",
     "WordPiece",
     TextFrame::kClassifySeparate,
     false,
     {"<s>", "</s>", "[UNK]", "</s>", "<pad>", "<s>", "<mask>"}},
    {kRoberta,
     "RoBERTa's",
     "BPE",
     TextFrame::kClassifySeparate,
     false,
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {kGpt2, "GPT-2's", "BPE", TextFrame::kAsStated, false, {kClipEnd, kClipEnd, kClipEnd, "", "", "", ""}},
    {kQwen2, "Qwen2's", "BPE", TextFrame::kAsStated, false, {"", kClipEnd, kClipEnd, "", kClipEnd, "", ""}},
    {kClip,
     "CLIP's",
     "BPE",
     TextFrame::kBeginEnd,
     false,
     {"<|startoftext|>", kClipEnd, kClipEnd, "", kClipEnd, "", ""}},
    {kLlama, "Llama's", "BPE", TextFrame::kAsStated, true, {"<s>", "</s>", "<unk>", "", "", "", ""}},
    {kGemma, "Gemma's", "BPE", TextFrame::kAsStated, true, {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"}},
    {kSiglip2, "SigLIP 2's", "BPE", TextFrame::kAsStated, true, {"<bos>", "<eos>", "<unk>", "", "<pad>", "", "<mask>"}},
    {kT5, "T5's", "Unigram", TextFrame::kEnd, false, {"", "</s>", "<unk>", "", "<pad>", "", ""}},
    {kXlmRoberta,
     "XLM-RoBERTa's",
     "Unigram",
     TextFrame::kBeginEnd,
     false,
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {kCamembert,
     "CamemBERT's",
     "Unigram",
     TextFrame::kBeginEnd,
     false,
     {"<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"}},
    {kSiglip, "SigLIP's", "", TextFrame::kEnd, false, {"", "</s>", "<unk>", "", "</s>", "", ""}},
    {kMarian, "Marian's", "", TextFrame::kEnd, false, {"", "</s>", "<unk>", "", "<pad>", "", ""}},
};

struct NamesOfKind {
  TokenizerKind kind;
  std::string_view names;  // separated by spaces
};

// Without "Fast". Names that are not here are kOther: transformers 5.24 does not have them either.
constexpr NamesOfKind kClassNames[] = {
    {kBert,
     "BertTokenizer DistilBertTokenizer ElectraTokenizer MobileBertTokenizer LxmertTokenizer SqueezeBertTokenizer "
     "LayoutLMTokenizer"},
    {kBertSteps, "ConvBertTokenizer DPRContextEncoderTokenizer DPRQuestionEncoderTokenizer DPRReaderTokenizer"},
    {kMpnet, "MPNetTokenizer"},
    {kRoberta, "RobertaTokenizer BartTokenizer LEDTokenizer LongformerTokenizer"},
    {kGpt2, "GPT2Tokenizer"},
    {kQwen2, "Qwen2Tokenizer"},
    {kClip, "CLIPTokenizer"},
    {kLlama, "LlamaTokenizer"},
    {kGemma, "GemmaTokenizer"},
    {kSiglip2, "Siglip2Tokenizer"},
    {kT5, "T5Tokenizer"},
    {kXlmRoberta, "XLMRobertaTokenizer"},
    {kCamembert, "CamembertTokenizer"},
    {kSiglip, "SiglipTokenizer"},
    {kMarian, "MarianTokenizer"},
    {kBackend,
     "TokenizersBackend PreTrainedTokenizer PythonBackend BloomTokenizer MT5Tokenizer Qwen3Tokenizer "
     "RetriBertTokenizer ChineseCLIPTokenizer"},
    {kNotDone,
     "AlbertTokenizer BarthezTokenizer BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer "
     "BertweetTokenizer BigBirdTokenizer BioGptTokenizer BlenderbotSmallTokenizer BlenderbotTokenizer "
     "ByT5Tokenizer CTRLTokenizer CanineTokenizer ClvpTokenizer CodeGenTokenizer CodeLlamaTokenizer "
     "CohereTokenizer CpmAntTokenizer CpmTokenizer DebertaTokenizer DebertaV2Tokenizer DiaTokenizer EsmTokenizer "
     "EsmcTokenizer FNetTokenizer FSMTTokenizer FastSpeech2ConformerTokenizer FlaubertTokenizer FunnelTokenizer "
     "GPTNeoXJapaneseTokenizer GPTNeoXTokenizer GPTSw3Tokenizer HerbertTokenizer LasrTokenizer LayoutLMv2Tokenizer "
     "LayoutLMv3Tokenizer LayoutXLMTokenizer LukeTokenizer M2M100Tokenizer MBart50Tokenizer MBartTokenizer "
     "MLukeTokenizer MarkupLMTokenizer MgpstrTokenizer MvpTokenizer MyT5Tokenizer NllbTokenizer NougatTokenizer "
     "OpenAIGPTTokenizer PLBartTokenizer ParakeetTokenizer PegasusTokenizer PerceiverTokenizer PhobertTokenizer "
     "Pop2PianoTokenizer ProphetNetTokenizer Qwen3_5Tokenizer RagTokenizer ReformerTokenizer RemBertTokenizer "
     "RoCBertTokenizer RoFormerTokenizer SeamlessM4TTokenizer Speech2TextTokenizer SpeechT5Tokenizer "
     "SplinterTokenizer TapasTokenizer Tipsv2Tokenizer UdopTokenizer VideoPrismTokenizer VitsTokenizer "
     "Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer WhisperTokenizer XGLMTokenizer XLMTokenizer XLNetTokenizer"},
};

// TOKENIZER_MAPPING_NAMES of transformers 5.24.
constexpr NamesOfKind kModelTypes[] = {
    {kBert,
     "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git grounding-dino layoutlm "
     "lxmert megatron-bert mm-grounding-dino mobilebert nezha nomic_bert qdqbert realm retribert squeezebert tvp "
     "vilt visual_bert"},
    {kMpnet, "mpnet"},
    {kRoberta,
     "bart bridgetower clap data2vec-text florence2 ibert led lilt longformer mega mra roberta "
     "roberta-prelayernorm"},
    {kGpt2,
     "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip instructblipvideo jais2 opt "
     "phi starcoder2"},
    {kQwen2,
     "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl lighton_ocr "
     "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio qwen2_moe qwen2_vl "
     "qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice"},
    {kClip, "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"},
    {kLlama, "idefics idefics2"},
    {kGemma,
     "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma "
     "zaya"},
    {kSiglip2, "siglip2"},
    {kT5, "mt5 musicgen musicgen_melody switch_transformers t5"},
    {kXlmRoberta, "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"},
    {kCamembert, "camembert"},
    {kBertSteps, "dpr"},
    {kSiglip, "siglip"},
    {kMarian, "marian"},
    {kBackend,
     "EvollaModel aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image "
     "glmasr got_ocr2 gpt_bigcode gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared kimi_k25 "
     "kimi_linear kosmos-2 mimo_v2_flash minicpm_ocr minicpmv4_6 minicpmv4_7 ministral ministral3 mistral mistral3 "
     "mistral_large4 mixtral nemo_speechlm nystromformer olmo2 olmo3 olmo_hybrid omniasr pegasus_x persimmon "
     "pix2struct "
     "pixtral pocket_tts stablelm umt5 voxtral voxtral_realtime xlm-roberta-xl "
     // MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS without a class of their own
     "arctic chatlm ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax hyperclovax_vlm internlm2 internlm3 iquestcoder "
     "jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron nvfp4 "
     "opencua openvla paddleocr_vl phi3 phi3_v phimoe step3_vl vipllava cohere_asr camembertv2-base smolvlm"},
    {kNotDone,
     "albert aya_vision barthez bartpho bert-generation bert-japanese bertweet big_bird biogpt blenderbot "
     "blenderbot-small byt5 canine clvp code_llama cohere cohere2 cpm cpmant ctrl data2vec-audio deberta "
     "deberta-v2 dia esm esmc esmfold2 falcon_mamba flaubert fnet fsmt funnel gpt-sw3 gpt_neox gpt_neox_japanese "
     "granite_speech5_ctc herbert hubert lasr_ctc lasr_encoder layoutlmv2 layoutlmv3 layoutxlm luke m2m_100 mamba "
     "mamba2 markuplm mbart mbart50 mgp-str mluke mpt mvp myt5 nemotron3_5_asr nemotron_asr_streaming nllb "
     "nllb-moe nougat olmo olmoe omniasr_ctc openai-gpt parakeet_ctc parakeet_rnnt parakeet_tdt pegasus perceiver "
     "phobert plbart pp_formulanet prophetnet qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp rag "
     "reformer rembert roc_bert roformer rwkv seamless_m4t seamless_m4t_v2 speech_to_text speecht5 splinter tapas "
     "tipsv2 udop unispeech unispeech-sat videoprism vits wav2vec2 wav2vec2-bert wav2vec2-conformer "
     "wav2vec2_phoneme whisper xglm xlm xlnet xlstm yoso"},
};
// For these the type's class counts, not the stated one.
constexpr std::string_view kWrongClass =
    "hyperclovax_vision_v2 qwen2 siglip2 qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp";

bool IsAmong(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(names.size(), end + 1));
  }
  return false;
}

// kUnstated for an empty name, `otherwise` for one that is not in the table.
TokenizerKind KindIn(std::span<const NamesOfKind> table, std::string_view name, TokenizerKind otherwise) {
  if (name.empty()) return kUnstated;
  for (const NamesOfKind& row : table) {
    if (IsAmong(row.names, name)) return row.kind;
  }
  return otherwise;
}

bool IsByteLevel(const io::Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key != "model" && value.dump().find("\"ByteLevel\"") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

TokenizerKind KindOf(const TokenizerSettings& settings, const io::Json* json) {
  const TokenizerKind stated = KindIn(kClassNames, settings.tokenizer_class, kOther);
  const TokenizerKind registered = KindIn(kModelTypes, settings.model_type, kUnstated);
  if (stated == kUnstated) return registered;
  if (IsAmong(kWrongClass, settings.model_type)) return registered;
  if (registered == kBackend) return kBackend;
  if (stated == kLlama && json != nullptr && IsByteLevel(*json)) return kBackend;
  return stated;
}

std::string_view StatedClass(const TokenizerSettings& settings) {
  return settings.tokenizer_class.empty() ? settings.model_type : settings.tokenizer_class;
}

const TokenizerClass& ClassOf(TokenizerKind kind) { return *std::ranges::find(kClasses, kind, &TokenizerClass::kind); }

namespace {

// The model without its vocabulary, and the steps, as tokenizer.json would have them.
std::string_view StepsOf(TokenizerKind kind) {
  switch (kind) {
    case kBert:
    case kMpnet:
      return R"({"model": {"type": "WordPiece", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
          "normalizer": {"type": "BertNormalizer"}, "pre_tokenizer": {"type": "BertPreTokenizer"},
          "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true}})";
    case kGpt2:
    case kRoberta:
      return R"({"model": {"type": "BPE"}, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
          "decoder": {"type": "ByteLevel"}})";
    case kQwen2:
      return R"json({"model": {"type": "BPE"}, "normalizer": {"type": "NFC"},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
              "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
            {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
          "decoder": {"type": "ByteLevel"}})json";
    case kClip:
      return R"json({"model": {"type": "BPE", "end_of_word_suffix": "</w>"},
          "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"},
            {"type": "Replace", "pattern": {"Regex": "\\s+"}, "content": " "}, {"type": "Lowercase"}]},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex":
              "<\\|startoftext\\|>|<\\|endoftext\\|>|'s|'t|'re|'ve|'m|'ll|'d|[\\p{L}]+|[\\p{N}]|[^\\s\\p{L}\\p{N}]+"}},
            {"type": "ByteLevel", "add_prefix_space": false}]},
          "decoder": {"type": "ByteLevel"}})json";
    case kLlama:
      return R"({"model": {"type": "BPE", "fuse_unk": true, "byte_fallback": true},
          "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "split": false},
          "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]}})";
    case kGemma:
    case kSiglip2:
      return R"({"model": {"type": "BPE", "fuse_unk": true, "byte_fallback": true},
          "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
          "pre_tokenizer": {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"},
          "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]}})";
    case kT5:
    case kXlmRoberta:
    case kCamembert:
      return R"({"model": {"type": "Unigram"},
          "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
            {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}]},
          "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}})";
    default:
      Fail("tokenizer: a class without steps of its own");
  }
}

// The settings that change the steps of a class.
void ApplySettings(TokenizerKind kind, const TokenizerSettings& settings, io::Json* steps) {
  const std::string unknown = settings.TextOf(kUnknown, ClassOf(kind).tokens[kUnknown]);
  io::Json& model = (*steps)["model"];
  io::Json& before = (*steps)["pre_tokenizer"];
  if (kind == kBert || kind == kMpnet) {
    model["unk_token"] = unknown;
    io::Json& normalizer = (*steps)["normalizer"];
    normalizer["lowercase"] = settings.lower_case.value_or(true);
    normalizer["handle_chinese_chars"] = settings.split_ideographs.value_or(true);
    if (settings.strip_accents) normalizer["strip_accents"] = *settings.strip_accents;
  } else if (kind == kGpt2 || kind == kRoberta) {
    before["add_prefix_space"] = settings.prefix_space.value_or(false);
  } else if (kind == kQwen2) {
    before["pretokenizers"][1]["add_prefix_space"] = settings.prefix_space.value_or(false);
  } else if (kind == kClip) {
    model["unk_token"] = unknown;
  } else if (kind == kLlama) {
    const bool prefixed = settings.prefix_space.value_or(true);
    before["prepend_scheme"] = !prefixed ? "never" : settings.legacy.value_or(false) ? "always" : "first";
    if (prefixed) {
      (*steps)["decoder"]["decoders"].push_back(
          io::Json{{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
    }
  } else if (kind == kGemma || kind == kSiglip2) {
    model["unk_token"] = unknown;
    io::Json& normalizers = (*steps)["normalizer"]["normalizers"];
    if (kind == kSiglip2) normalizers.insert(normalizers.begin(), io::Json{{"type", "Lowercase"}});
  } else if (kind == kT5) {
    model["unk_id"] = 2;
  } else if (kind == kXlmRoberta || kind == kCamembert) {
    model["unk_id"] = 3;
    const char* prefix = settings.prefix_space.value_or(!settings.prefix_space_is_null) ? "always" : "never";
    before["pretokenizers"][1]["prepend_scheme"] = prefix;
    (*steps)["decoder"]["prepend_scheme"] = prefix;
  }
}

// SentencePiece's map of characters, which is all that T5 and XLM-RoBERTa keep of a normalizer. Null: none.
io::Json PrecompiledOf(const io::Json& normalizer) {
  if (!normalizer.is_object()) return nullptr;
  const auto is_map = [](const io::Json& step) { return step.is_object() && step.value("type", "") == "Precompiled"; };
  if (is_map(normalizer)) return normalizer;
  const auto steps = normalizer.find("normalizers");
  if (steps == normalizer.end() || !steps->is_array()) return nullptr;
  const auto map = std::ranges::find_if(*steps, is_map);
  return map == steps->end() ? io::Json(nullptr) : *map;
}

// The place of a token among a Unigram model's pieces; the first one's if it is none.
int64_t PlaceOf(const std::string& token, const io::Json& pieces) {
  const auto found = std::ranges::find_if(
      pieces, [&](const io::Json& piece) { return piece.is_array() && !piece.empty() && piece[0] == token; });
  return found == pieces.end() ? 0 : found - pieces.begin();
}

// The steps of a class, in the place of those of `file`.
io::Json MakeSteps(const TokenizerClass& type, const TokenizerSettings& settings, const io::Fields& file) {
  Require(file.Has("model"), "{}: no tokenizer.json: it has no \"model\"", file.where());
  const std::string name = ModelTypeOf(file.Object("model"));
  Require(name == type.model,
          "{}: tokenizer_class \"{}\" makes a {} tokenizer, and {} has a {} vocabulary; set tokenizer_class to "
          "\"TokenizersBackend\" if the file alone counts",
          settings.where, StatedClass(settings), type.model, file.where(), name);
  io::Json steps = io::Json::parse(StepsOf(type.kind));
  ApplySettings(type.kind, settings, &steps);
  if (type.model == "Unigram") {
    if (io::Json map = PrecompiledOf(file.Value("normalizer")); !map.is_null()) steps["normalizer"] = std::move(map);
  }
  if (type.kind == kCamembert) {
    steps["model"]["unk_id"] =
        PlaceOf(settings.TextOf(kUnknown, type.tokens[kUnknown]), file.Object("model").List("vocab"));
  }
  return steps;
}

StatedToken OfClass(std::string content) {
  return {.token = {.content = std::move(content), .special = true}, .by_class = true};
}

// extra_special_tokens, or else what the class adds by itself.
std::vector<StatedToken> ExtraTokens(TokenizerKind kind, const TokenizerSettings& settings,
                                     const std::optional<std::vector<StatedToken>>& pieces) {
  if (kind == kCamembert && !settings.extra && !settings.additional) {
    return {OfClass("<s>NOTUSED"), OfClass("</s>NOTUSED"), OfClass("<unk>NOTUSED")};
  }
  if (kind != kT5) {
    return settings.extra ? *settings.extra
           : pieces       ? *pieces
                          : settings.additional.value_or(std::vector<StatedToken>());
  }
  const int64_t count = settings.extra_ids.value_or(100);
  std::vector<StatedToken> tokens = pieces ? *pieces : settings.additional.value_or(std::vector<StatedToken>());
  const int64_t stated = std::ranges::count_if(
      tokens, [](const StatedToken& token) { return token.token.content.find("<extra_id_") != std::string::npos; });
  Require(stated == 0 || count == 0 || stated == count,
          "{}: extra_ids is {}, and additional_special_tokens has {} of them; expected as many", settings.where, count,
          stated);
  for (int64_t i = 0; i < count && stated == 0; ++i) {
    tokens.push_back(OfClass(fmt::format("<extra_id_{}>", i)));
  }
  return settings.extra ? *settings.extra : tokens;
}

// Ids of named tokens, which the class needs or the settings state.
void SetSpecialIds(const TokenizerClass& type, const TokenizerSettings& settings, TokenizerParts* parts) {
  SpecialIds& ids = parts->special;
  std::optional<int32_t>* to[] = {&ids.begin,   &ids.end,      &ids.unknown, &ids.separate,
                                  &ids.padding, &ids.classify, &ids.mask};
  for (size_t i = 0; i < kNamedTokens.size(); ++i) {
    const std::string text = settings.TextOf(i, type.tokens[i]);
    if (!text.empty()) *to[i] = FindToken(*parts, text);
  }
}

int32_t NeededId(const std::optional<int32_t>& id, size_t index, const TokenizerClass& type,
                 const TokenizerSettings& settings) {
  Require(id.has_value(), "{}: expected a token for \"{}\", which a tokenizer of {} kind needs, got null",
          settings.where, kNamedTokens[index], type.label);
  return *id;
}

void SetFrame(const TokenizerClass& type, const TokenizerSettings& settings, bool has_processor,
              TokenizerParts* parts) {
  const SpecialIds& ids = parts->special;
  std::vector<TemplateItem> items = {{true, {}}};
  const auto put = [&](bool in_front, int32_t id) {
    items.insert(in_front ? items.begin() : items.end(), TemplateItem{false, {id}});
  };
  const auto needed = [&](const std::optional<int32_t>& id, size_t index) {
    return NeededId(id, index, type, settings);
  };
  if (type.frame == TextFrame::kClassifySeparate) {
    put(true, needed(ids.classify, kClassify));
    put(false, needed(ids.separate, kSeparate));
  } else if (type.frame == TextFrame::kBeginEnd) {
    put(true, needed(ids.begin, kBegin));
    put(false, needed(ids.end, kEnd));
  } else if (type.frame == TextFrame::kEnd) {
    put(false, needed(ids.end, kEnd));
  } else {
    if (has_processor && !settings.add_begin && !settings.add_end) return;
    if (settings.add_begin.value_or(false) && ids.begin) put(true, *ids.begin);
    if (settings.add_end.value_or(false) && ids.end) put(false, *ids.end);
  }
  parts->templates.clear();
  if (items.size() > 1) parts->templates.push_back(std::move(items));
}

// A mask that takes the space in front of it.
TokenizerSettings WithMask(const TokenizerClass& type, TokenizerSettings settings) {
  NamedToken& mask = settings.named[kMask];
  if (!mask.stated) mask = {true, StatedToken{{.content = std::string(type.tokens[kMask]), .special = true}}};
  if (mask.token && !mask.token->flags) mask.token->flags = mask.token->token.lstrip = true;
  return settings;
}

}  // namespace

void FinishTokenizer(const TokenizerClass& type, const TokenizerSettings& settings, bool has_processor,
                     TokenizerParts* parts) {
  parts->settings = settings.settings;
  SetSpecialIds(type, settings, parts);
  SetFrame(type, settings, has_processor, parts);
  const bool is_bpe = parts->description.starts_with("BPE") || parts->description.starts_with("SentencePiece BPE");
  const bool is_python = type.kind == kSiglip || type.kind == kMarian;
  parts->clean_decoded =
      settings.clean_up.value_or(false) && (is_python || !is_bpe || settings.clean_up_bpe.value_or(false));
  if (settings.model_max_length) parts->model_max_length = settings.model_max_length;
  parts->truncates_left = settings.truncates_left.value_or(parts->truncation && parts->truncation->left);
  PaddingSettings& padding = parts->padding_on_request;
  if (parts->padding) padding = *parts->padding;
  padding.fixed.reset();
  padding.left = settings.pads_left.value_or(parts->padding ? parts->padding->left : type.pads_left);
  if (parts->special.padding) padding.id = *parts->special.padding;
}

TokenizerParts MakeTokenizer(const io::Fields& file, TokenizerKind kind, const TokenizerSettings& settings,
                             bool has_json, const std::optional<std::vector<StatedToken>>& pieces) {
  Require(kind != kNotDone,
          "{}: \"{}\" chooses a class of tokenizers that takes other steps than {} has, which qkv does not do; set "
          "tokenizer_class to \"TokenizersBackend\" if the file alone counts",
          settings.where, StatedClass(settings), file.where());
  TokenizerClass type = ClassOf(kind == kBertSteps && !has_json ? kBert : kind);
  // transformers' class takes the token of the file's padding where neither settings nor class have one.
  const std::string padding = settings.found ? file.Object("padding").String("pad_token", "") : "";
  if (type.tokens[kPadding].empty()) type.tokens[kPadding] = padding;
  const bool is_rebuilt = !type.model.empty();
  const io::Json steps = is_rebuilt ? MakeSteps(type, settings, file) : io::Json();
  TokenizerParts parts = ReadTokenizerJson(file, is_rebuilt ? io::Fields(steps, file.where()) : file);
  if (!has_json) parts.description += fmt::format(", {}", type.label);
  if (kind == kClip) {
    parts.decoders.push_back(DecodeReplace("</w>", " "));
    parts.trim_decoded = true;
  }
  AddConfiguredTokens(kind == kMpnet || kind == kCamembert ? WithMask(type, settings) : settings, type.tokens,
                      ExtraTokens(kind, settings, pieces), &parts);
  if (kind == kQwen2) AddSpecialTokensAgain(settings, type.tokens, ExtraTokens(kind, settings, pieces), &parts);
  FinishTokenizer(type, settings, file.Has("post_processor"), &parts);
  if (has_json) {
    for (io::Setting& setting : SettleTokenizerJson(file, is_rebuilt)) parts.settings.push_back(std::move(setting));
  }
  return parts;
}

}  // namespace qkv::text
