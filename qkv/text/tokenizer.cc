#include "qkv/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <unordered_map>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/core/text.h"
#include "qkv/text/byte_level.h"
#include "qkv/text/normalizers.h"
#include "qkv/text/steps.h"
#include "qkv/text/tokenizer_class.h"
#include "qkv/text/tokenizer_parts.h"
#include "qkv/text/unicode.h"
#include "qkv/text/word_start.h"

namespace qkv::text {
namespace {

// Tokens of a batch, padding included: 5 bytes each.
constexpr int64_t kMaxBatchTokens = int64_t{1} << 26;
// Limit of padding a text to the maximal length that its file says.
constexpr int64_t kMaxFilePadding = int64_t{1} << 20;
constexpr size_t kMaxIdleWorkspaces = 64;
constexpr int64_t kMaxSpecial = 1'000;
// Steps of a piece, besides those for its bytes.
constexpr int64_t kPieceSteps = 8;

int64_t SpecialCount(const std::vector<std::vector<TemplateItem>>& templates) {
  int64_t count = 0;
  for (const auto& items : templates) {
    for (const TemplateItem& item : items) count += static_cast<int64_t>(item.ids.size());
  }
  return count;
}

void ApplyTemplates(const std::vector<std::vector<TemplateItem>>& templates, std::vector<int32_t>* ids) {
  for (const auto& items : templates) {
    Spend(static_cast<int64_t>(ids->size() + 8 * items.size()));
    std::vector<int32_t> to;
    to.reserve(ids->size() + 4);
    for (const TemplateItem& item : items) {
      const std::vector<int32_t>& from = item.text ? *ids : item.ids;
      if (item.once && std::ranges::equal(std::span(to).last(std::min(to.size(), from.size())), from)) continue;
      to.insert(to.end(), from.begin(), from.end());
    }
    *ids = std::move(to);
  }
}

}  // namespace

struct Tokenizer::State {
  // Scratch memory of one call.
  struct Workspace {
    ModelWorkspace model;
    std::vector<AddedTokens::Part> raw, normalized;
    Segment segment;
    Pieces pieces;
    size_t left = 0;  // bytes that the steps may still add to the text, which all its segments share
  };

  TokenizerParts parts;
  AddedTokens added;
  int64_t special_count = 0;                        // tokens that the templates add
  std::unordered_map<int32_t, size_t> added_by_id;  // of parts.added
  bool byte_level = false;                          // tokens are written in the alphabet of byte-level BPE
  // Without a lock, which a forked child would find as another thread of its parent held it.
  mutable std::array<std::atomic<Workspace*>, kMaxIdleWorkspaces> idle{};

  ~State() {
    for (const auto& place : idle) delete place.load();
  }

  std::unique_ptr<Workspace> Take() const {
    for (auto& place : idle) {
      if (place.load(std::memory_order_relaxed) == nullptr) continue;
      if (Workspace* const workspace = place.exchange(nullptr)) return std::unique_ptr<Workspace>(workspace);
    }
    return std::make_unique<Workspace>();
  }
  void GiveBack(std::unique_ptr<Workspace> workspace) const {
    workspace->model.Shrink();
    for (auto& place : idle) {
      Workspace* empty = nullptr;
      if (!place.compare_exchange_strong(empty, workspace.get())) continue;
      static_cast<void>(workspace.release());
      return;
    }
  }

  void AppendSegment(std::string_view text, bool at_start, Workspace& workspace, std::vector<int32_t>* ids) const;
  std::vector<int32_t> EncodeText(std::string_view text, Workspace& workspace) const;
  // The truncation that the caller or the file requests.
  std::optional<TruncationSettings> Truncation(const EncodeOptions& options) const;
  std::optional<PaddingSettings> PaddingOf(const EncodeOptions& options) const;
  std::vector<int32_t> Encode(std::string_view text, const EncodeOptions& options, Workspace& workspace) const;
  const AddedToken* AddedOf(int32_t id) const {
    const auto found = added_by_id.find(id);
    return found == added_by_id.end() ? nullptr : &parts.added[found->second];
  }
};

void Tokenizer::State::AppendSegment(std::string_view text, bool at_start, Workspace& workspace,
                                     std::vector<int32_t>* ids) const {
  Segment& segment = workspace.segment;
  segment.text.assign(text);
  segment.at_start = at_start;
  segment.limit = workspace.left;
  RunNormalizers(parts.normalizers, segment);
  const std::string_view whole = segment.text;
  workspace.left -= whole.size();
  if (whole.empty()) return;
  workspace.normalized.clear();
  if (added.empty(/*normalized=*/true)) {
    workspace.normalized.push_back({0, whole.size(), nullptr});
  } else {
    added.Find(whole, /*normalized=*/true, &workspace.normalized);
  }
  Pieces& pieces = workspace.pieces;
  for (const AddedTokens::Part& part : workspace.normalized) {
    if (part.token != nullptr) {
      ids->push_back(part.token->id);
      continue;
    }
    pieces.text.assign(whole.substr(part.begin, part.end - part.begin));
    pieces.ranges.assign(1, {0, pieces.text.size()});
    pieces.at_start = segment.at_start && part.begin == 0;
    const size_t before = pieces.text.size();
    pieces.limit = before + workspace.left;
    RunPreTokenizers(parts.pre_tokenizers, pieces);
    workspace.left -= std::max(pieces.text.size(), before) - before;
    for (const Pieces::Range& range : pieces.ranges) {
      Spend(kPieceSteps + static_cast<int64_t>(range.end - range.begin));
      parts.model->Encode(pieces[range], workspace.model, ids);
    }
  }
}

std::vector<int32_t> Tokenizer::State::EncodeText(std::string_view text, Workspace& workspace) const {
  std::string replaced;
  if (!IsValidUtf8(text) && !(parts.bytes_input && added.tokens().empty())) {
    replaced = ReplaceInvalidUtf8(text);
    text = replaced;
  }
  workspace.left = MaxGrown(text.size());
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 8);
  if (added.empty(/*normalized=*/false)) {
    if (!text.empty() || parts.encode_empty) AppendSegment(text, /*at_start=*/true, workspace, &ids);
    return ids;
  }
  workspace.raw.clear();
  if (text.empty() && parts.encode_empty) AppendSegment(text, /*at_start=*/true, workspace, &ids);
  added.Find(text, /*normalized=*/false, &workspace.raw);
  for (const AddedTokens::Part& part : workspace.raw) {
    if (part.token != nullptr) {
      ids.push_back(part.token->id);
    } else {
      AppendSegment(text.substr(part.begin, part.end - part.begin), part.begin == 0, workspace, &ids);
    }
  }
  return ids;
}

std::optional<TruncationSettings> Tokenizer::State::Truncation(const EncodeOptions& options) const {
  const bool left = parts.truncates_left;
  if (options.max_length) return TruncationSettings{*options.max_length, left};
  if (options.padding == Padding::kMaxLength && parts.model_max_length) {
    return TruncationSettings{*parts.model_max_length, left};
  }
  return parts.truncation ? std::optional(TruncationSettings{parts.truncation->max_length, left}) : std::nullopt;
}

std::optional<PaddingSettings> Tokenizer::State::PaddingOf(const EncodeOptions& options) const {
  if (options.padding == Padding::kNone) return std::nullopt;
  if (options.padding == Padding::kAsInFile) return parts.padding;
  PaddingSettings settings = parts.padding_on_request;
  if (options.padding == Padding::kMaxLength) {
    settings.fixed = options.max_length ? options.max_length : parts.model_max_length;
    Require(options.max_length || settings.fixed.value_or(0) <= kMaxFilePadding,
            "encode: padding to the file's maximal length of {} would take more than {} tokens a text; give max_length",
            settings.fixed.value_or(0), kMaxFilePadding);
    Require(settings.fixed.has_value(),
            "encode: padding to the maximal length needs one, and the tokenizer's files have none; give max_length");
  }
  return settings;
}

std::vector<int32_t> Tokenizer::State::Encode(std::string_view text, const EncodeOptions& options,
                                              Workspace& workspace) const {
  const WorkBudget budget(MaxSteps(text.size()), "encode a text");
  std::vector<int32_t> ids = EncodeText(text, workspace);
  if (const std::optional<TruncationSettings> truncation = Truncation(options)) {
    const int64_t special = options.add_special_tokens ? special_count : 0;
    Require(truncation->max_length >= special,
            "encode: expected a max_length of at least {} (the special tokens), got {}", special,
            truncation->max_length);
    const auto kept = static_cast<size_t>(truncation->max_length - special);
    if (ids.size() > kept) {
      if (truncation->left) {
        ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(kept));
      } else {
        ids.resize(kept);
      }
    }
  }
  if (options.add_special_tokens) ApplyTemplates(parts.templates, &ids);
  return ids;
}

Tokenizer::Tokenizer(TokenizerParts parts) {
  auto state = std::make_shared<State>();
  state->parts = std::move(parts);
  state->special_count = SpecialCount(state->parts.templates);
  Require(state->special_count <= kMaxSpecial, "tokenizer: expected at most {} special tokens around a text",
          kMaxSpecial);
  state->added = AddedTokens(state->parts.added, state->parts.normalizers);
  for (size_t i = 0; i < state->parts.added.size(); ++i) state->added_by_id[state->parts.added[i].id] = i;
  // Its decoder makes a space of the alphabet's "Ġ".
  std::vector<std::string> probe = {"a\u0120b"};
  RunDecoders(state->parts.decoders, MaxGrown(probe[0].size()), probe);
  state->byte_level = probe.size() == 1 && probe[0] == "a b";
  state_ = std::move(state);
}

namespace {

// The bytes that a token of byte-level BPE stands for; the token itself if it has other characters.
std::string BytesOfToken(std::string_view token) {
  std::string bytes;
  for (size_t at = 0; at < token.size();) {
    const Character character = CharacterAt(token, at);
    const std::optional<char> byte = ByteOfCharacter(character.code);
    if (!byte) return std::string(token);
    bytes += *byte;
    at = character.end;
  }
  return bytes;
}

// The length that `length` is filled up to.
int64_t PaddedLength(int64_t length, const PaddingSettings& padding, int64_t longest) {
  int64_t to = padding.fixed.value_or(longest);
  if (padding.multiple > 0 && to % padding.multiple != 0) to += padding.multiple - to % padding.multiple;
  Require(to <= kMaxBatchTokens, "encode: expected a padded length of at most {}, got {}", kMaxBatchTokens, to);
  return std::max(to, length);
}

}  // namespace

std::vector<int32_t> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  auto workspace = state_->Take();
  std::vector<int32_t> ids = state_->Encode(text, options, *workspace);
  state_->GiveBack(std::move(workspace));
  if (const std::optional<PaddingSettings> padding = state_->PaddingOf(options)) {
    const auto length = static_cast<int64_t>(ids.size());
    const auto missing = static_cast<size_t>(PaddedLength(length, *padding, length) - length);
    ids.insert(padding->left ? ids.begin() : ids.end(), missing, padding->id);
  }
  return ids;
}

TokenBatch Tokenizer::EncodeBatch(std::span<const std::string> texts, const EncodeOptions& options) const {
  std::vector<std::vector<int32_t>> rows(texts.size());
  std::atomic<int64_t> tokens = 0;
  constexpr int64_t kGrain = 16;
  ParallelFor(static_cast<int64_t>(texts.size()), kGrain, [&](int64_t begin, int64_t end) {
    auto workspace = state_->Take();
    for (int64_t i = begin; i < end; ++i) {
      std::vector<int32_t>& row = rows[static_cast<size_t>(i)];
      row = state_->Encode(texts[static_cast<size_t>(i)], options, *workspace);
      Require((tokens += std::ssize(row)) <= kMaxBatchTokens,
              "encode: expected a batch of at most {} tokens; encode fewer texts at a time", kMaxBatchTokens);
    }
    state_->GiveBack(std::move(workspace));
  });
  TokenBatch batch;
  batch.rows = static_cast<int64_t>(rows.size());
  for (const auto& row : rows) {
    batch.lengths.push_back(static_cast<int64_t>(row.size()));
    batch.columns = std::max(batch.columns, batch.lengths.back());
  }
  const std::optional<PaddingSettings> padding = state_->PaddingOf(options);
  if (padding) batch.columns = PaddedLength(batch.columns, *padding, batch.columns);
  for (size_t i = 0; i < rows.size() && !padding; ++i) {
    Require(batch.lengths[i] == batch.columns, "encode: texts of a batch have {} and {} tokens; give a padding",
            batch.lengths[i], batch.columns);
  }
  Require(batch.columns == 0 || batch.rows <= kMaxBatchTokens / batch.columns,
          "encode: expected a batch of at most {} tokens, got {} texts padded to {}; encode fewer texts at a time",
          kMaxBatchTokens, batch.rows, batch.columns);
  batch.ids.assign(static_cast<size_t>(batch.rows * batch.columns), padding ? padding->id : 0);
  batch.mask.assign(batch.ids.size(), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t at =
        static_cast<int64_t>(i) * batch.columns + (padding && padding->left ? batch.columns - batch.lengths[i] : 0);
    std::copy(rows[i].begin(), rows[i].end(), batch.ids.begin() + at);
    std::fill_n(batch.mask.begin() + at, batch.lengths[i], uint8_t{1});
  }
  return batch;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool special_tokens) const {
  const size_t most = MaxTokenBytes(ids.size());
  std::vector<std::string> tokens;
  size_t bytes = 0;
  for (const int32_t id : ids) {
    if (!special_tokens && IsHidden(id)) continue;
    const auto added = state_->added_by_id.find(id);
    const std::optional<std::string> token =
        added == state_->added_by_id.end() ? TokenOf(id) : state_->added.TextOf(added->second);
    Require(token.has_value(), "decode: expected ids of the vocabulary of {} tokens, up to {}, got {}", size(),
            max_id(), id);
    bytes += token->size() + 1;
    Require(bytes <= most, "decode: the tokens of {} ids have more than {} bytes", ids.size(), most);
    Spend(kPieceSteps + static_cast<int64_t>(token->size()));
    tokens.push_back(*token);
  }
  const WorkBudget budget(MaxSteps(bytes), "decode tokens");
  RunDecoders(state_->parts.decoders, MaxGrown(bytes), tokens);
  std::string text;
  const bool spaces = state_->parts.decoders.empty();
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (spaces && i > 0) text += ' ';
    text += tokens[i];
  }
  if (state_->parts.trim_decoded) {
    Segment segment{std::move(text), false};
    Strip(true, true)(segment);
    text = std::move(segment.text);
  }
  return state_->parts.clean_decoded ? CleanUpSpaces(text) : text;
}

bool Tokenizer::IsHidden(int32_t id) const {
  const AddedToken* added = state_->AddedOf(id);
  return (added != nullptr && added->special) || state_->parts.hidden.contains(id);
}

std::optional<int32_t> Tokenizer::IdOf(std::string_view token) const { return FindToken(state_->parts, token); }

std::optional<std::string> Tokenizer::TokenOf(int32_t id) const {
  if (const AddedToken* added = state_->AddedOf(id)) return added->content;
  const std::optional<std::string_view> token = state_->parts.model->vocabulary().TokenOf(id);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}

std::string Tokenizer::ReadableToken(int32_t id) const {
  const std::optional<std::string> token = TokenOf(id);
  if (!token) return "<" + std::to_string(id) + ">";
  const bool encoded = state_->byte_level && state_->AddedOf(id) == nullptr;
  std::string readable;
  for (const char c : encoded ? BytesOfToken(*token) : *token) {
    switch (c) {
      case ' ':
        readable += kWordStart;
        break;
      case '\n':
        readable += "\\n";
        break;
      case '\t':
        readable += "\\t";
        break;
      default:
        readable += c;
    }
  }
  return Printable(readable);
}

int64_t Tokenizer::size() const {
  const Vocabulary& vocabulary = state_->parts.model->vocabulary();
  auto size = static_cast<int64_t>(vocabulary.size());
  for (const AddedToken& token : state_->parts.added) size += vocabulary.Find(token.content) ? 0 : 1;
  return size;
}

int32_t Tokenizer::max_id() const {
  return std::max(state_->parts.model->vocabulary().max_id(), state_->parts.max_added_id);
}

int32_t Tokenizer::max_stated_id() const {
  int32_t id = state_->parts.model->vocabulary().max_id();
  for (const AddedToken& token : state_->parts.added) {
    if (!state_->parts.class_ids.contains(token.id)) id = std::max(id, token.id);
  }
  return id;
}

const SpecialIds& Tokenizer::special() const { return state_->parts.special; }

std::optional<int64_t> Tokenizer::model_max_length() const { return state_->parts.model_max_length; }

bool Tokenizer::truncates_left() const { return state_->parts.truncates_left; }

const std::vector<io::Setting>& Tokenizer::settings() const { return state_->parts.settings; }

const std::string& Tokenizer::description() const { return state_->parts.description; }

bool Tokenizer::MayChange(std::string_view text) const {
  if (text.ends_with(kReplacementCharacter)) return true;  // a character whose bytes are not all there
  if (!state_->parts.clean_decoded) return false;
  // Beginnings of texts that CleanUpSpaces replaces. In text that is clean so far, " ' " and " n't" may have lost a
  // space.
  static constexpr std::string_view kOpen[] = {" ", " n", " n'", " n '", " '", " 'v", " 'r", "n'", "'", "'v", "'r"};
  return std::ranges::any_of(kOpen, [text](std::string_view end) { return text.ends_with(end); });
}

namespace {

// Ids that are usual for a character whose bytes are tokens, and its neighbours.
constexpr size_t kLong = 32;

// The part of `text` behind `before`. Bytes that turn out not to be UTF-8 change the text before them: no character is
// split then either.
std::string TextBehind(const std::string& text, size_t before) {
  while (before < text.size() && (static_cast<unsigned char>(text[before]) & 0xC0) == 0x80) ++before;
  return before < text.size() ? text.substr(before) : std::string();
}

}  // namespace

std::string StreamingDecoder::Add(int32_t id) {
  if (tokenizer_.IsHidden(id)) return {};
  ids_.push_back(id);
  if (ids_.size() < next_) return {};
  // The text of the ids before, and with the new one: their difference is certain unless a character is incomplete.
  const std::string before = tokenizer_.Decode(std::span(ids_).first(shown_));
  const std::string text = tokenizer_.Decode(ids_);
  if (text.size() <= before.size() || tokenizer_.MayChange(text)) {
    // Long stretches that stay uncertain are decoded a few times only, not with each token.
    next_ = ids_.size() + 1 + (ids_.size() > kLong ? ids_.size() / 8 : 0);
    return {};
  }
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(shown_));
  shown_ = ids_.size();
  next_ = 0;
  return TextBehind(text, before.size());
}

std::string StreamingDecoder::Finish() {
  const std::string before = tokenizer_.Decode(std::span(ids_).first(shown_));
  const std::string text = tokenizer_.Decode(ids_);
  ids_.clear();
  shown_ = next_ = 0;
  return TextBehind(text, before.size());
}

Tokenizer Tokenizer::FromJson(std::string_view json, std::string_view where) {
  const io::Json parsed = io::ParseJson(json, where);
  return Tokenizer(MakeTokenizer(io::Fields(parsed, std::string(where)), TokenizerKind::kBackend, {}, /*has_json=*/true,
                                 /*pieces=*/{}));
}

Tokenizer Tokenizer::FromSentencePiece(std::string_view bytes, std::string_view where) {
  return Tokenizer(ReadSentencePiece(bytes, where));
}

}  // namespace qkv::text
