// qkv generate: continues a text byte by byte.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/core/parallel.h"
#include "qkv/model/decoder.h"
#include "qkv/model/finite.h"
#include "qkv/model/sampling.h"
#include "qkv/model/sequence_model.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  ModelOptions model;
  std::string prompt;
  int64_t tokens = 500;
  model::SamplingSettings sampling;
};

// Limit of a prompt on standard input: the model reads only its own length of it, but all of it is printed.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// Flushes at once: a reader sees each byte without waiting for a full buffer.
void Print(std::string_view bytes) {
  PrintRaw(bytes);
  FlushOutput();
}

int Generate(const Options& options) {
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const std::string& path = options.model.path;
  if (fs::is_directory(path) && FileExists(fs::path(path) / "config.json") && !model::IsSequenceModel(path)) {
    Fail(
        "generate: {} is a model of images, expected one of text, which qkv train book.txt -o RUN makes; qkv classify "
        "-m {} photo.jpg says what an image shows",
        path, path);
  }
  const auto model =
      model::SequenceModel<float>::Load(options.model.path, {.precision = ParsePrecision(options.model.dtype)});
  const model::SequenceConfig& config = model.config();
  Require(config.meaning == model::TokenMeaning::kByte && config.causal,
          "generate: {} is no model of text; qkv train book.txt -o RUN makes one", options.model.path);
  std::string prompt = options.prompt;
  if (prompt == "-")
    prompt = ReadStandardInput(kMaxPromptBytes, "generate: the prompt", "give its end alone (tail -c)");
  Print(prompt);
  // The first byte needs a token before it: a line end.
  if (prompt.empty()) prompt = "\n";

  model::Decoder<float> decoder(model);
  model::TokenSampler sampler(options.sampling);
  std::vector<int32_t> tokens;
  const std::string_view end =
      std::string_view(prompt).substr(prompt.size() - std::min(prompt.size(), static_cast<size_t>(config.length)));
  for (const char byte : end) tokens.push_back(static_cast<uint8_t>(byte));
  std::span<const float> logits = decoder.Prefill(tokens);
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (i > 0) logits = decoder.Next(tokens.back());
    if (!model::AllFinite(logits.data(), std::ssize(logits))) {
      Fail(
          "generate: the answer to {} tokens holds NaN or infinity, expected finite logits; they begin in {}: weights "
          "there are too large for the precision, or broken",
          decoder.tokens().size(), model.WhereNotFinite(decoder.tokens()));
    }
    tokens.assign(1, sampler.Draw(logits));
    const char byte = static_cast<char>(tokens.back());
    Print({&byte, 1});
  }
  return 0;
}

}  // namespace

void RegisterGenerate(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command = app.AddCommand("generate", "Continue a text with a model that qkv trained on text");
  command.AddOption("-m,--model", &options->model.path, "Folder of a run of qkv train on a text")
      .Required()
      .TypeName("RUN");
  command
      .AddOption("--prompt", &options->prompt, "What stands at the beginning, and is printed first; -: standard input")
      .TypeName("TEXT");
  command.AddOption("--tokens", &options->tokens, "Bytes to go on with")
      .Range(int64_t{0}, int64_t{1} << 40)
      .TypeName("N")
      .ShowDefault();
  command
      .AddOption("--temperature", &options->sampling.temperature,
                 "Logits are divided by it: below 1 safer, above bolder; 0: always the most probable byte")
      .Range(0.0, 1e6)
      .TypeName("X")
      .ShowDefault();
  command.AddOption("--top-k", &options->sampling.top_k, "Only the N most probable bytes; 0: all")
      .Range(0, 1 << 20)
      .TypeName("N")
      .ShowDefault();
  command
      .AddOption("--top-p", &options->sampling.top_p,
                 "Of these the fewest that are together at least so probable (nucleus sampling)")
      .Range(1e-6, 1.0)
      .TypeName("X")
      .ShowDefault();
  command.AddOption("--seed", &options->sampling.seed, "Of what is drawn: the same seed, the same text")
      .TypeName("N")
      .ShowDefault();
  options->model.AddPrecision(command);
  AddMaxMemory(command);
  command.Footer(
      "Examples:\n"
      "  qkv train book.txt -o run && qkv generate -m run --prompt \"Once upon a time\"\n"
      "  qkv generate -m run --prompt - --temperature 0.7 --top-k 40 <beginning.txt");
  command.Callback([options, exit_code] { *exit_code = Generate(*options); });
}

}  // namespace qkv::cli
