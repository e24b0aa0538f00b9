// qkv tokenize: the ids of texts, by the tokenizer of a model's folder.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/lines.h"
#include "qkv/core/parallel.h"
#include "qkv/text/steps.h"
#include "qkv/text/tokenizer.h"

namespace qkv::cli {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;
// Texts, and about as many tokens, encoded before their ids are printed.
constexpr size_t kTextsAtATime = 4096;
constexpr int64_t kTokensAtATime = int64_t{1} << 22;

struct TokenizeOptions {
  std::string model, file;
  int threads = 0;
  int64_t max_length = -1;
  bool json = false, null = false, pad = false, plain = false, target = false, time = false;
};

// The texts of a file: lines, or the parts between zero bytes. Nothing behind the last end is no text.
std::vector<std::string> Split(std::string_view all, bool null) {
  std::vector<std::string> texts;
  if (!null) {
    for (const std::string_view line : SplitLines(all)) texts.emplace_back(line);
    return texts;
  }
  while (!all.empty()) {
    const size_t end = std::min(all.find('\0'), all.size());
    texts.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(all.size(), end + 1));
  }
  return texts;
}

void PrintIds(const text::Tokenizer& tokenizer, std::span<const int32_t> ids, bool json) {
  if (json) {
    io::Json tokens = io::Json::array();
    size_t bytes = 0;
    for (const int32_t id : ids) {
      std::string token = tokenizer.TokenOf(id).value_or("");
      bytes += token.size();
      Require(bytes <= text::MaxTokenBytes(ids.size()), "tokenize: the {} tokens of a text have more than {} bytes",
              ids.size(), text::MaxTokenBytes(ids.size()));
      tokens.push_back(std::move(token));
    }
    PrintJsonLine({{"ids", ids}, {"tokens", std::move(tokens)}});
    return;
  }
  std::string line;
  for (const int32_t id : ids) {
    if (!line.empty()) line += ' ';
    fmt::format_to(std::back_inserter(line), "{}", id);
  }
  PrintRaw(line + "\n");
}

// The ids of all texts, or of the first ones, at least one, if all have more than kTokensAtATime.
std::vector<std::vector<int32_t>> EncodeFirst(const text::Tokenizer& tokenizer, std::span<const std::string> texts,
                                              const text::EncodeOptions& options) {
  std::vector<std::vector<int32_t>> ids(texts.size());
  std::atomic<int64_t> tokens = 0;
  std::atomic<size_t> end = texts.size();
  constexpr int64_t kGrain = 16;
  ParallelFor(std::ssize(texts), kGrain, [&](int64_t begin, int64_t stop) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(stop); ++i) {
      if (i > 0 && tokens >= kTokensAtATime) {
        for (size_t known = end; i < known && !end.compare_exchange_weak(known, i);) continue;
        return;
      }
      ids[i] = tokenizer.Encode(texts[i], options);
      tokens += std::ssize(ids[i]);
    }
  });
  ids.resize(end);
  return ids;
}

int Tokenize(const TokenizeOptions& options) {
  if (options.threads > 0) SetNumThreads(options.threads);
  const text::Tokenizer tokenizer =
      options.target ? text::Tokenizer::OpenTarget(options.model) : text::Tokenizer::Open(options.model);
  app::NotifySettings(tokenizer, options.model, PrintNote);
  text::EncodeOptions encode;
  encode.add_special_tokens = !options.plain;
  if (options.max_length >= 0) encode.max_length = options.max_length;
  if (options.pad) encode.padding = text::Padding::kMaxLength;
  const std::string all =
      ReadFileOrInput(options.file.empty() ? "-" : options.file, kMaxTextBytes, "tokenize: the text");
  const std::vector<std::string> texts = Split(all, options.null);
  std::chrono::duration<double> seconds{};
  int64_t count = 0;
  for (size_t first = 0; first < texts.size();) {
    const auto some = std::span(texts).subspan(first, std::min(kTextsAtATime, texts.size() - first));
    const auto start = std::chrono::steady_clock::now();
    const std::vector<std::vector<int32_t>> ids = EncodeFirst(tokenizer, some, encode);
    seconds += std::chrono::steady_clock::now() - start;
    first += ids.size();
    for (const auto& row : ids) {
      count += std::ssize(row);
      if (!options.time) PrintIds(tokenizer, row, options.json);
    }
  }
  if (options.time) PrintMessage("{} texts, {} tokens in {:.6f} s\n", texts.size(), count, seconds.count());
  return 0;
}

}  // namespace

void RegisterTokenize(Command app, int* exit_code) {
  const auto options = std::make_shared<TokenizeOptions>();
  const Command command = app.AddCommand("tokenize", "Show the ids that texts become");
  command
      .AddOption(
          "-m,--model", [options](const std::string& name) { options->model = app::FindModel(name).string(); },
          "Folder with tokenizer.json, vocab.json and merges.txt, vocab.txt, source.spm and vocab.json, or "
          "spiece.model; "
          "one of these files; or name of a model in the Hugging Face hub's cache")
      .Required()
      .TypeName("FOLDER");
  command.AddOption("FILE", &options->file, "Text, one a line; standard input unless given").TypeName("FILE");
  command.AddFlag("--json", &options->json, "One JSON object a text on stdout, with ids and tokens");
  command.AddFlag("--null", &options->null, "Texts end with zero bytes, not with lines");
  command.AddOption("--max-length", &options->max_length, "Cut texts to this number of tokens, special ones included")
      .NonNegative();
  command.AddFlag("--pad", &options->pad, "Fill texts up to --max-length, or to the model's length");
  command.AddFlag("--plain", &options->plain, "Leave out the special tokens at the ends");
  command.AddFlag("--target", &options->target, "Text of the language that a Marian model translates into");
  command.AddFlag("--time", &options->time, "Print how long it takes in place of the ids");
  command.AddOption("--threads", &options->threads, "Threads; all cores unless given").Range(1, 4096);
  command.Callback([options, exit_code] { *exit_code = Tokenize(*options); });
}

}  // namespace qkv::cli
