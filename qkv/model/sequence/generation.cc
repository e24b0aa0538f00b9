#include "qkv/model/sequence/generation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/parallel.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/simd/rows/log_sum_exp.h"

namespace qkv::model {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// In order, each once. A file may repeat ids, and name some beyond the vocabulary, which no text has.
std::vector<int32_t> UniqueTokens(std::vector<int32_t> tokens, int64_t vocabulary) {
  std::erase_if(tokens, [&](int32_t token) { return token >= vocabulary; });
  std::ranges::sort(tokens);
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

// Restricts the next token: changes the scores of all tokens in place, by a text's prompt and tokens so far.
class Rules {
 public:
  Rules(const GenerationSettings& settings, int64_t vocabulary)
      : s_(settings),
        max_tokens_(settings.max_tokens),
        ends_(UniqueTokens(settings.ends, vocabulary)),
        suppressed_(UniqueTokens(settings.suppressed, vocabulary)) {}

  // prompt: number of tokens of `text` that were given. In the order of transformers.
  void Apply(std::span<const int32_t> text, int64_t prompt, std::span<float> scores) const {
    const int64_t written = std::ssize(text) - prompt;
    if (s_.repetition_penalty != 1) PenaliseRepetition(text, scores);
    if (s_.no_repeat_ngram > 0) ForbidRepeated(text, scores);
    if (written < s_.min_tokens) Forbid(ends_, scores);
    if (s_.forced_first && written == 0) Force(*s_.forced_first, scores);
    if (s_.forced_last && written == max_tokens_ - 1) Force(*s_.forced_last, scores);
    Forbid(suppressed_, scores);
  }
  /// False if Apply leaves the scores of a text with so many tokens as they are.
  bool Change(int64_t written) const {
    return s_.repetition_penalty != 1 || s_.no_repeat_ngram > 0 || (written < s_.min_tokens && !ends_.empty()) ||
           (s_.forced_first && written == 0) || (s_.forced_last && written == max_tokens_ - 1) || !suppressed_.empty();
  }
  /// True if the end token was forced because the text is full: it has not ended by itself.
  bool IsForced(int64_t written) const { return s_.forced_last && written == max_tokens_; }
  bool Ends(int32_t token) const { return std::ranges::binary_search(ends_, token); }

 private:
  void PenaliseRepetition(std::span<const int32_t> text, std::span<float> scores) const {
    std::vector<int32_t> seen(text.begin(), text.end());
    std::ranges::sort(seen);
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    const auto penalty = static_cast<float>(s_.repetition_penalty);
    for (const int32_t token : seen) {
      float& score = scores[static_cast<size_t>(token)];
      score = score < 0 ? score * penalty : score / penalty;
    }
  }
  // Forbids the tokens that followed the last n − 1 tokens before.
  void ForbidRepeated(std::span<const int32_t> text, std::span<float> scores) const {
    const auto n = static_cast<size_t>(s_.no_repeat_ngram);
    if (text.size() < n) return;
    const std::span<const int32_t> last = text.last(n - 1);
    for (size_t i = 0; i + n <= text.size(); ++i) {
      if (std::ranges::equal(text.subspan(i, n - 1), last)) scores[static_cast<size_t>(text[i + n - 1])] = kNever;
    }
  }
  static void Forbid(const std::vector<int32_t>& tokens, std::span<float> scores) {
    for (const int32_t token : tokens) scores[static_cast<size_t>(token)] = kNever;
  }
  static void Force(int32_t token, std::span<float> scores) {
    std::ranges::fill(scores, kNever);
    if (token < std::ssize(scores)) scores[static_cast<size_t>(token)] = 0;
  }

  const GenerationSettings& s_;
  int64_t max_tokens_;
  std::vector<int32_t> ends_, suppressed_;
};

void RequireFinite(View<const float> logits) {
  if (AllFinite(logits.data(), logits.size())) return;
  throw AnswerError(
      "generate: a decoder's logits hold NaN or infinity: its weights are broken, or too large for the precision");
}

// A copy of a row that rules may change.
std::span<float> CopyRow(View<const float> logits, int64_t row, std::vector<float>* to) {
  to->assign(logits.row(row), logits.row(row) + logits.dim(1));
  return *to;
}

// Tokens that each text may have, by its prompt and the decoder's room.
int64_t Room(const Decoder<float>& decoder, std::span<const std::vector<int32_t>> prompts, int64_t most) {
  size_t longest = 0;
  for (const std::vector<int32_t>& prompt : prompts) longest = std::max(longest, prompt.size());
  return std::min(most, decoder.length() - static_cast<int64_t>(longest));
}

// ---------------------------------------------------------------------------------------------------------------------
// One beam

std::vector<Generated> GenerateEach(Decoder<float>& decoder, std::span<const std::vector<int32_t>> prompts,
                                    Source<float>* source, const GenerationSettings& settings, const OnToken& on_token,
                                    const std::function<bool()>& stop) {
  const size_t texts = prompts.size();
  std::vector<Generated> results(texts);
  const int64_t most = Room(decoder, prompts, settings.max_tokens);
  if (most <= 0 || (stop && stop())) return results;
  const Rules rules(settings, decoder.config().outputs);
  std::vector<TokenSampler> samplers;
  for (size_t i = 0; i < texts; ++i) {
    SamplingSettings own = settings.sampling;
    own.seed = settings.seeds.empty() ? own.seed + i : settings.seeds[i];
    samplers.emplace_back(own);
  }
  std::vector<size_t> running(texts);  // the text of each row of the decoder
  std::iota(running.begin(), running.end(), size_t{0});
  std::vector<std::vector<int32_t>> text(prompts.begin(), prompts.end());
  std::vector<std::vector<float>> scratch(static_cast<size_t>(NumThreads()));
  std::vector<int32_t> drawn, next;
  std::vector<int64_t> kept;
  View<const float> logits = decoder.Start(prompts, source);
  for (int64_t written = 1;; ++written) {
    drawn.resize(running.size());
    ParallelTasks(std::ssize(running), [&](int64_t row, int thread) {
      const size_t i = running[static_cast<size_t>(row)];
      RequireFinite(logits.slice(0, row, row + 1));
      std::span<const float> scores(logits.row(row), static_cast<size_t>(logits.dim(1)));
      if (rules.Change(written - 1)) {
        const std::span<float> changed = CopyRow(logits, row, &scratch[static_cast<size_t>(thread)]);
        rules.Apply(text[i], std::ssize(prompts[i]), changed);
        scores = changed;
      }
      drawn[static_cast<size_t>(row)] = samplers[i].Draw<float>(scores);
    });
    next.clear(), kept.clear();
    for (size_t row = 0; row < running.size(); ++row) {
      const size_t i = running[row];
      const int32_t token = drawn[row];
      text[i].push_back(token), results[i].tokens.push_back(token);
      const bool ends = rules.Ends(token);
      results[i].ended = ends && !rules.IsForced(written);
      if (on_token && !on_token(i, token)) return results;
      if (ends || written == most) continue;
      next.push_back(token), kept.push_back(static_cast<int64_t>(row));
    }
    if (next.empty() || (stop && stop())) return results;
    if (kept.size() < running.size()) {
      decoder.Select(kept);
      if (source) source->Select(kept);
      std::vector<size_t> still;
      for (const int64_t row : kept) still.push_back(running[static_cast<size_t>(row)]);
      running = std::move(still);
    }
    logits = decoder.Next(next);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Beam search

void ToLogProbabilities(std::span<float> scores) {
  const float log_sum = simd::LogSumExp(scores.data(), std::ssize(scores));
  if (log_sum == kNever) return;
  for (float& score : scores) score -= log_sum;
}

struct Candidate {
  double score;  // Σ log p
  int64_t beam;  // it continues
  int32_t token;
};

// A better score first, then the earlier beam and token, as a stable sort would have them.
bool IsBetter(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
}

struct Beam {
  std::vector<int32_t> text;  // with the prompt
  double score = 0;
};

// The search for one text.
class Search {
 public:
  Search(const std::vector<int32_t>& prompt, const GenerationSettings& settings, int64_t most)
      : s_(settings), prompt_(std::ssize(prompt)), most_(most), beams_{{prompt, 0}} {}

  int64_t beams() const { return std::ssize(beams_); }
  bool done() const { return done_; }
  /// Token and origin of each beam after Step.
  int32_t last_token(int64_t beam) const { return beams_[static_cast<size_t>(beam)].text.back(); }
  int64_t origin(int64_t beam) const { return origins_[static_cast<size_t>(beam)]; }

  /// logits: of each beam, [beams(), V].
  void Step(View<const float> logits, const Rules& rules, std::vector<float>* scratch) {
    const auto [best, going] = BestCandidates(logits, rules, scratch);
    const int64_t written = std::ssize(beams_[0].text) - prompt_ + 1;
    const bool full = written == most_;
    for (const Candidate& c : best) {
      if (full || rules.Ends(c.token)) Finish(c, written, rules.Ends(c.token) && !rules.IsForced(written));
    }
    std::vector<Beam> next;
    std::vector<int64_t> origins;
    for (const Candidate& c : going) {
      if (full) break;
      Beam beam{beams_[static_cast<size_t>(c.beam)].text, c.score};
      beam.text.push_back(c.token);
      next.push_back(std::move(beam)), origins.push_back(c.beam);
    }
    beams_ = std::move(next), origins_ = std::move(origins);
    done_ = beams_.empty() || full || !CanImprove(written);
  }

  Generated Result() const { return finished_.empty() ? Generated{} : finished_.front(); }

 private:
  // As many as beams, the best first: of all candidates, which become texts if they end, and of those that continue.
  struct Candidates {
    std::vector<Candidate> best, going;
  };

  Candidates BestCandidates(View<const float> logits, const Rules& rules, std::vector<float>* scratch) {
    Candidates found;  // heaps, the worst on top
    for (int64_t b = 0; b < beams(); ++b) {
      const Beam& beam = beams_[static_cast<size_t>(b)];
      const std::span<float> of_beam = CopyRow(logits, b, scratch);
      ToLogProbabilities(of_beam);
      rules.Apply(beam.text, prompt_, of_beam);
      if (s_.renormalise) ToLogProbabilities(of_beam);
      AddCandidates(beam.score, b, of_beam, rules, &found);
    }
    std::ranges::sort_heap(found.best, IsBetter);
    std::ranges::sort_heap(found.going, IsBetter);
    return found;
  }

  // Skips blocks of tokens that hold none of the best.
  void AddCandidates(double score, int64_t beam, std::span<const float> tokens, const Rules& rules,
                     Candidates* found) const {
    constexpr size_t kBlock = 128;
    for (size_t begin = 0; begin < tokens.size(); begin += kBlock) {
      const size_t end = std::min(begin + kBlock, tokens.size());
      // Continuing candidates are no better than the best of all, and later tokens of equal scores are not better.
      if (std::ssize(found->going) == s_.beams &&
          !(score + simd::RowMax(&tokens[begin], static_cast<int64_t>(end - begin)) > found->going.front().score)) {
        continue;
      }
      for (size_t token = begin; token < end; ++token) {
        const Candidate c{score + tokens[token], beam, static_cast<int32_t>(token)};
        if (tokens[token] == kNever) continue;
        Keep(c, &found->best);
        if (MayEnter(c, found->going) && !rules.Ends(c.token)) Keep(c, &found->going);
      }
    }
  }

  bool MayEnter(const Candidate& c, const std::vector<Candidate>& heap) const {
    return std::ssize(heap) < s_.beams || IsBetter(c, heap.front());
  }

  void Keep(const Candidate& c, std::vector<Candidate>* heap) const {
    if (!MayEnter(c, *heap)) return;
    if (std::ssize(*heap) == s_.beams) std::ranges::pop_heap(*heap, IsBetter), heap->pop_back();
    heap->push_back(c), std::ranges::push_heap(*heap, IsBetter);
  }

  // Keeps the best texts, as many as beams.
  void Finish(const Candidate& c, int64_t written, bool ended) {
    if (s_.early_stopping && std::ssize(finished_) == s_.beams) return;
    const double score = c.score / std::pow(static_cast<double>(written), s_.length_penalty);
    const auto place = std::ranges::find_if(finished_, [&](const Generated& other) { return score > other.score; });
    if (place == finished_.end() && std::ssize(finished_) == s_.beams) return;
    const std::vector<int32_t>& text = beams_[static_cast<size_t>(c.beam)].text;
    Generated generated{{text.begin() + prompt_, text.end()}, score, ended};
    generated.tokens.push_back(c.token);
    finished_.insert(place, std::move(generated));
    if (std::ssize(finished_) > s_.beams) finished_.pop_back();
  }

  // True if a running beam might become better than the worst of the texts, judged by its present length.
  bool CanImprove(int64_t written) const {
    if (std::ssize(finished_) < s_.beams) return true;
    if (s_.early_stopping) return false;
    return beams_[0].score / std::pow(static_cast<double>(written), s_.length_penalty) > finished_.back().score;
  }

  const GenerationSettings& s_;
  int64_t prompt_, most_;
  std::vector<Beam> beams_;          // the best first
  std::vector<int64_t> origins_;     // of each, the beam that it continues
  std::vector<Generated> finished_;  // the best first
  bool done_ = false;
};

std::vector<Generated> SearchBeams(Decoder<float>& decoder, std::span<const std::vector<int32_t>> prompts,
                                   Source<float>* source, const GenerationSettings& settings,
                                   const std::function<bool()>& stop) {
  std::vector<Generated> results(prompts.size());
  const int64_t most = Room(decoder, prompts, settings.max_tokens);
  if (most <= 0 || (stop && stop())) return results;
  const Rules rules(settings, decoder.config().outputs);
  std::vector<Search> searches;
  std::vector<std::vector<float>> scratch(static_cast<size_t>(NumThreads()));
  for (const std::vector<int32_t>& prompt : prompts) searches.emplace_back(prompt, settings, most);
  std::vector<size_t> running(prompts.size());
  std::iota(running.begin(), running.end(), size_t{0});
  View<const float> logits = decoder.Start(prompts, source);
  for (int64_t share = 1;; share = settings.beams) {  // rows of the decoder for each text
    ParallelTasks(std::ssize(running), [&](int64_t task, int thread) {
      Search& search = searches[running[static_cast<size_t>(task)]];
      const View<const float> own = logits.slice(0, task * share, task * share + search.beams());
      RequireFinite(own);
      search.Step(own, rules, &scratch[static_cast<size_t>(thread)]);
    });
    std::vector<size_t> still;
    std::vector<int64_t> entries, rows;
    std::vector<int32_t> next;
    for (size_t at = 0; at < running.size(); ++at) {
      const size_t i = running[at];
      if (searches[i].done()) {
        results[i] = searches[i].Result();
        continue;
      }
      still.push_back(i), entries.push_back(static_cast<int64_t>(at));
      // All texts have equally many beams, so that they share their sources equally: a short one repeats its last.
      for (int64_t beam = 0; beam < settings.beams; ++beam) {
        const int64_t own = std::min(beam, searches[i].beams() - 1);
        rows.push_back(static_cast<int64_t>(at) * share + searches[i].origin(own)),
            next.push_back(searches[i].last_token(own));
      }
    }
    if (still.empty() || (stop && stop())) return results;
    decoder.Select(rows);
    if (source && still.size() < running.size()) source->Select(entries);
    running = std::move(still);
    logits = decoder.Next(next);
  }
}

}  // namespace

void GenerationSettings::Validate() const {
  sampling.Validate();
  Require(max_tokens >= 0 && min_tokens >= 0, "generate: expected numbers of tokens of 0 or more, got {} and {}",
          max_tokens, min_tokens);
  Require(beams >= 1 && beams <= 1 << 12, "generate: expected 1 to 4096 beams, got {}", beams);
  Require(beams == 1 || sampling.temperature == 0, "generate: a beam search does not draw tokens; choose one of both");
  Require(no_repeat_ngram >= 0, "generate: expected n-grams of 0 tokens or more, got {}", no_repeat_ngram);
  Require(repetition_penalty > 0 && std::isfinite(repetition_penalty) && std::isfinite(length_penalty),
          "generate: expected a positive repetition penalty and a finite length penalty, got {} and {}",
          repetition_penalty, length_penalty);
}

GenerationSettings SettingsOf(const GenerationDefaults& d, int64_t prompt) {
  GenerationSettings s;
  if (d.max_length > 0) s.max_tokens = std::max<int64_t>(1, d.max_length - prompt);
  s.min_tokens = std::max<int64_t>(0, d.min_length - prompt);
  if (d.max_new_tokens > 0) s.max_tokens = d.max_new_tokens;
  if (d.min_new_tokens > 0) s.min_tokens = d.min_new_tokens;
  s.renormalise = d.renormalise;
  s.ends = d.ends, s.suppressed = d.suppressed;
  if (prompt == 1) s.forced_first = d.forced_first;  // the library forces the second token of all
  s.forced_last = d.forced_last;
  s.no_repeat_ngram = d.no_repeat_ngram, s.repetition_penalty = d.repetition_penalty;
  if (d.sample && d.beams == 1) {
    s.sampling = {.temperature = d.temperature, .top_k = d.top_k, .top_p = d.top_p, .min_p = d.min_p};
  }
  s.beams = d.beams, s.length_penalty = d.length_penalty, s.early_stopping = d.early_stopping;
  return s;
}

std::vector<Generated> Generate(Decoder<float>& decoder, std::span<const std::vector<int32_t>> prompts,
                                Source<float>* source, const GenerationSettings& settings, const OnToken& on_token,
                                const std::function<bool()>& stop) {
  settings.Validate();
  if (prompts.empty()) return {};
  const SequenceConfig& config = decoder.config();
  Require(config.outputs >= config.vocabulary, "generate: a decoder of {} tokens has {} logits", config.vocabulary,
          config.outputs);
  Require(settings.seeds.empty() || settings.seeds.size() == prompts.size(), "generate: {} seeds for {} texts",
          settings.seeds.size(), prompts.size());
  for (const std::vector<int32_t>* tokens : {&settings.ends, &settings.suppressed}) {
    Require(std::ranges::all_of(*tokens, [](int32_t token) { return token >= 0; }),
            "generate: a token has no id below 0");
  }
  Require(settings.forced_first.value_or(0) >= 0 && settings.forced_last.value_or(0) >= 0,
          "generate: a token has no id below 0");
  if (settings.beams == 1) return GenerateEach(decoder, prompts, source, settings, on_token, stop);
  std::vector<Generated> results = SearchBeams(decoder, prompts, source, settings, stop);
  for (size_t i = 0; i < results.size() && on_token; ++i) {
    for (const int32_t token : results[i].tokens) {
      if (!on_token(i, token)) return results;
    }
  }
  return results;
}

}  // namespace qkv::model
