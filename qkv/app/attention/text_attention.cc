#include "qkv/app/attention/text_attention.h"

#include <fmt/format.h>

#include <numeric>
#include <span>
#include <utility>

#include "qkv/app/open/parse.h"
#include "qkv/core/error.h"
#include "qkv/core/lines.h"
#include "qkv/core/memory.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/report/text.h"

namespace qkv::app {

using inspect::PartKind;

namespace {

// A page with more weights, of two bytes each, is slow to open on a phone.
constexpr int64_t kTextPageWeights = int64_t{12} << 20;
constexpr size_t kShownTextBytes = 60;  // of a text, in a message
constexpr int64_t kAnyLength = int64_t{1} << 40;

std::vector<std::string> ReadableTokens(const text::Tokenizer& tokenizer, std::span<const int32_t> ids) {
  std::vector<std::string> tokens;
  for (const int32_t id : ids) tokens.push_back(tokenizer.ReadableToken(id));
  return tokens;
}

View<const int32_t> OneText(const std::vector<int32_t>& ids) { return {ids.data(), {1, std::ssize(ids)}}; }

}  // namespace

PartKind ParsePart(std::string_view name, std::string_view option) {
  for (const PartKind part : {PartKind::kEncoder, PartKind::kDecoder, PartKind::kCross}) {
    if (Name(part) == name) return part;
  }
  Fail("{}: expected encoder, decoder or cross, got \"{}\"", option, name);
}

std::string Describe(PartKind part) {
  return part == PartKind::kCross ? std::string("cross-attention")
                                  : fmt::format("self-attention of the {}", Name(part));
}

std::string Describe(const TextAttention& attention) {
  return fmt::format("{}, {}", attention.model, Describe(attention.part));
}

io::Json Facts(const TextAttention& attention) {
  io::Json json = {{"model", attention.model},
                   {"part", Name(attention.part)},
                   {"source", attention.source},
                   {"rows", attention.rows},
                   {"columns", attention.columns},
                   {"row_ids", attention.row_ids},
                   {"column_ids", attention.column_ids},
                   {"layers", attention.layers},
                   {"heads", attention.heads}};
  if (!attention.target.empty()) json["target"] = attention.target;
  return json;
}

io::Json ToJson(const TextAttention& attention) {
  io::Json json = Facts(attention);
  json["weights"] = Nested(attention.weights);
  return json;
}

TextAttender::TextAttender(const LanguageModel& model, TextAttendRequest request)
    : model_(model), request_(std::move(request)) {
  const model::TextDescription& d = model.model().description();
  pair_ = d.encoder && d.decoder;
  part_ = request_.part.value_or(pair_ ? PartKind::kCross : d.encoder ? PartKind::kEncoder : PartKind::kDecoder);
  const std::string& source = model.checkpoint().source;
  Require(part_ != PartKind::kCross || pair_,
          "{}: {} has no cross-attention, only self-attention: leave out --cross; models that read one text and write "
          "another have it (Marian, T5, runs of qkv train on pairs)",
          source, d.architecture);
  Require(part_ != PartKind::kEncoder || d.encoder, "{}: {} has no encoder; --part decoder is what it has", source,
          d.architecture);
  Require(part_ != PartKind::kDecoder || d.decoder, "{}: {} has no decoder; --part encoder is what it has", source,
          d.architecture);
  Require(!request_.target || (pair_ && part_ != PartKind::kEncoder),
          "{}: --target is what a decoder writes of a text that an encoder reads; {}", source,
          pair_ ? "the encoder does not see it" : "this model has one text only");
  const model::SequenceConfig& c = part_ == PartKind::kEncoder ? *d.encoder : *d.decoder;
  depth_ = c.depth;
  heads_ = part_ == PartKind::kCross ? c.block.cross->heads : c.block.attention.heads;
  plan_ = PlanMaps(request_.layers, request_.head, depth_, heads_, request_.format == MapFormat::kHtml);
}

std::vector<int32_t> TextAttender::TargetIds(const std::string& text, std::string* target) const {
  if (!request_.target) {
    Written written = model_.Write(
        std::span(&text, 1), {.prefix = request_.prefix, .settings = request_.settings, .stop = request_.stop})[0];
    Require(!written.ids.empty(), "attend: the model writes nothing; give --target, or more --tokens");
    *target = std::move(written.text);
    return std::move(written.ids);
  }
  *target = *request_.target;
  return GivenTarget();
}

std::vector<int32_t> TextAttender::GivenTarget() const {
  const std::string& target = *request_.target;
  const int64_t length = model_.model().decoder().config().length;
  RequireTextBytes(target.size(), length, "attend: --target");
  std::vector<int32_t> ids =
      model_.target_tokenizer().Encode(target, {.max_length = kAnyLength, .padding = text::Padding::kNone});
  Require(!Trim(target).empty() && !ids.empty(), "attend: --target is empty; give the words that are to be written");
  RequireTextLength(std::ssize(ids) <= length,
                    "attend: --target has {} tokens, and the model writes {}; give a shorter one: {}", ids.size(),
                    length, Printable(target, kShownTextBytes));
  return ids;
}

std::vector<int32_t> TextAttender::Read(const std::string& text) const {
  Require(!Trim(text).empty(), "attend: the text is empty; give words whose tokens look at each other");
  const std::string whole = pair_ ? request_.prefix + text : text;
  const int64_t length = model_.model().text_length();
  RequireTextBytes(whole.size(), length, "attend: the text");
  std::vector<int32_t> ids = model_.Encode({&whole, 1})[0];
  RequireTextLength(
      std::ssize(ids) <= length,
      "attend: the text has {} tokens, and the model reads {}; give a shorter one, such as a sentence: {}", ids.size(),
      length, Printable(text, kShownTextBytes));
  return ids;
}

TextAttender::Ids TextAttender::Tokens(const std::string& text, const std::vector<int32_t>& source) const {
  Ids ids{.source = source};
  if (!pair_ || part_ == PartKind::kEncoder) return ids;
  ids.written = TargetIds(text, &ids.target);
  // Each step reads the token written before.
  ids.fed = {model_.StartToken()};
  ids.fed.insert(ids.fed.end(), ids.written.begin(), ids.written.end() - 1);
  return ids;
}

// As for a page of images.
void TextAttender::FitPage(MapPlan& plan, int64_t T, int64_t N) const {
  const std::string kept =
      plan.Reduce(T * N, kTextPageWeights, request_.layers.empty(), request_.head.empty(), depth_ - 1);
  Require(
      plan.weights(T * N) <= kTextPageWeights,
      "attend: a page of {} × {} × {} × {} weights (blocks, heads, rows, columns) is more than {}; ask for fewer by "
      "--layer or --head, for a shorter text, or write .npy",
      plan.rows.size(), plan.columns.size(), T, N, report::WithCommas(kTextPageWeights));
  if (kept.empty()) return;
  Notify(request_.note,
         FormatShown("{} × {} tokens: the page holds {} only; --layer and --head choose others", T, N, kept));
}

TextAttention TextAttender::Compute(const std::string& text, const std::vector<int32_t>& source) const {
  Ids ids = Tokens(text, source);
  const text::Tokenizer &reads = model_.tokenizer(), &writes = model_.target_tokenizer();
  TextAttention attention;
  attention.model = request_.model.empty() ? model_.model().description().architecture : request_.model;
  attention.part = part_;
  attention.source = pair_ ? request_.prefix + text : text;
  attention.target = std::move(ids.target);
  const bool of_target = !ids.written.empty();
  const text::Tokenizer& row_tokenizer = of_target ? writes : reads;
  attention.row_ids = of_target ? ids.written : ids.source;
  attention.column_ids = of_target && part_ == PartKind::kDecoder ? ids.fed : ids.source;
  attention.rows = ReadableTokens(row_tokenizer, attention.row_ids);
  attention.columns = ReadableTokens(part_ == PartKind::kDecoder ? row_tokenizer : reads, attention.column_ids);
  const int64_t T = std::ssize(attention.rows), N = std::ssize(attention.columns);
  MapPlan plan = plan_;
  if (request_.format == MapFormat::kHtml) FitPage(plan, T, N);
  attention.weights = Weights(plan, ids, T, N);
  if (!model::AllFinite(attention.weights.data(), attention.weights.size())) {
    throw model::AnswerError(
        "attend: attention weights hold NaN or infinity: the model's weights are broken, or too large for the "
        "precision");
  }
  attention.layers = std::move(plan.rows), attention.heads = std::move(plan.columns);
  return attention;
}

// A block's heads arrive a few rows at a time, so that only what was requested is kept.
Tensor<float> TextAttender::Weights(const MapPlan& plan, const Ids& ids, int64_t T, int64_t N) const {
  std::vector<int64_t> heads = plan.heads;
  if (plan.fusion) {
    heads.resize(static_cast<size_t>(heads_));
    std::iota(heads.begin(), heads.end(), 0);
  }
  const int64_t L = std::ssize(plan.blocks), H = plan.fusion ? 1 : std::ssize(heads);
  RequireMemory(sizeof(float) * static_cast<double>(L * H) * static_cast<double>(T) * static_cast<double>(N),
                fmt::format("attend: {} blocks, {} heads, {} × {} tokens", L, H, T, N));
  Tensor<float> all({L, H, T, N});
  std::vector<model::Outputs<float>::Attention> requests;
  for (int64_t l = 0; l < L; ++l) {
    const View<float> to = all.view()[l];  // [H, T, N]
    const auto visit = [&heads, &plan, to, H, N](int64_t row, View<const float> weights) {
      for (int64_t h = 0; h < H; ++h) {
        const std::span<const int64_t> together =
            plan.fusion ? std::span<const int64_t>(heads)
                        : std::span<const int64_t>(heads).subspan(static_cast<size_t>(h), 1);
        for (int64_t r = 0; r < weights.dim(2); ++r) {
          inspect::FuseHeads(weights, together, plan.fusion.value_or(inspect::Fusion::kMean), r, 0, N,
                             to.at(h, row + r));
        }
      }
    };
    requests.push_back({plan.blocks[static_cast<size_t>(l)], {.row_begin = 0, .row_end = T, .visit = visit}});
  }
  const model::TextModel& model = model_.model();
  model::TextWorkspace workspace;
  const model::TextInputs inputs{.ids = OneText(ids.source)};
  if (pair_ && part_ == PartKind::kEncoder) {
    model.ReadSource(inputs, workspace, {}, requests);
  } else if (pair_) {
    model::TextInputs both = inputs;
    both.decoder_ids = OneText(ids.fed);
    both.cross = &request_.settings.cross;
    model.Forward(both, workspace,
                  part_ == PartKind::kCross ? model::TextOutputs{.cross_attention = requests}
                                            : model::TextOutputs{.attention = requests});
  } else {
    model.Forward(inputs, workspace, {.attention = requests});
  }
  return all;
}

}  // namespace qkv::app
