// qkv generate: continues a text, token by token, as it comes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/writing.h"
#include "qkv/app/texts/language.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/sampling.h"
#include "qkv/model/sequence/sequence_model.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct GenerateOptions {
  ModelOptions model;
  std::string prompt;
  DecodingOptions decoding;
  bool json = false;
};

constexpr int64_t kTokens = 500;  // unless the user or the model's files say otherwise
// Limit of a prompt on standard input: the model reads only its own length of it, but all of it is printed.
constexpr size_t kMaxPromptBytes = size_t{64} << 20;

// Flushes at once: the reader sees each character without waiting for a full buffer.
void PrintBytes(std::string_view bytes) {
  PrintRaw(bytes);
  FlushOutput();
}

std::string ReadPrompt(const GenerateOptions& options) {
  if (options.prompt != "-") return options.prompt;
  return ReadStandardInput(kMaxPromptBytes, "generate: the prompt", "give its end alone (tail -c)");
}

// For a model that qkv trained on the bytes of a text. When its length is used up, the older half is dropped.
int GenerateBytes(const GenerateOptions& options, const app::AnyModel& opened) {
  const model::SequenceModel<float> model = opened.BuildSequences();
  const model::SequenceConfig& config = model.config();
  Require(config.meaning == model::TokenMeaning::kByte && config.causal,
          "generate: {} is no text model; qkv train book.txt -o RUN makes one", options.model.path);
  Require(!options.json, "generate: --json needs a model with a tokenizer; {} writes bytes", options.model.path);
  const model::GenerationSettings settings =
      options.decoding.Over({.max_tokens = kTokens, .sampling = {.temperature = 1}});
  Require(settings.beams == 1 && settings.no_repeat_ngram == 0 && settings.repetition_penalty == 1,
          "generate: {} writes bytes, drawn one by one; --beams, --no-repeat-ngram and --repetition-penalty need "
          "a model with a tokenizer",
          options.model.path);
  std::string prompt = ReadPrompt(options);
  PrintBytes(prompt);
  // The first byte needs a token before it: a line end.
  if (prompt.empty()) prompt = "\n";
  model::Decoder<float> decoder(model);
  model::TokenSampler sampler(settings.sampling);
  std::vector<int32_t> tokens;
  const std::string_view end =
      std::string_view(prompt).substr(prompt.size() - std::min(prompt.size(), static_cast<size_t>(config.length)));
  for (const char byte : end) tokens.push_back(static_cast<uint8_t>(byte));
  std::span<const float> logits = decoder.Prefill(tokens);
  for (int64_t i = 0; i < settings.max_tokens; ++i) {
    if (i > 0) logits = decoder.Next(tokens.back());
    if (!model::AllFinite(logits.data(), std::ssize(logits))) {
      Fail(
          "generate: the answer to {} tokens holds NaN or infinity, expected finite logits; they begin in {}: weights "
          "there are too large for the precision, or broken",
          decoder.tokens().size(), model.WhereNotFinite(decoder.tokens()));
    }
    tokens.assign(1, sampler.Draw(logits));
    const char byte = static_cast<char>(tokens.back());
    PrintBytes({&byte, 1});
  }
  return 0;
}

// For a decoder with a tokenizer.
int GenerateText(const GenerateOptions& options, const app::AnyModel& opened) {
  opened.Require("generate", app::kContinueText);
  const app::LanguageModel model = opened.BuildLanguage();
  const std::string prompt = ReadPrompt(options);
  const model::GenerationDefaults& defaults = model.model().description().generation;
  model::GenerationSettings settings = model.Settings(prompt.empty() ? 1 : model.CountTokens(prompt));
  if (defaults.max_length == 0 && defaults.max_new_tokens == 0) settings.max_tokens = kTokens;
  settings = options.decoding.Over(settings);
  settings.Validate();
  if (!options.json) PrintBytes(prompt);
  const app::Written written = model.Continue(
      prompt, settings,
      [&](std::string_view text) {
        if (!options.json) PrintBytes(text);
        return true;
      },
      PrintNote);
  if (options.json) {
    PrintJsonLine({{"prompt", prompt},
                   {"text", written.text},
                   {"prompt_tokens", written.source_tokens},
                   {"tokens", written.tokens},
                   {"ended", written.ended}});
  } else if (written.text.empty() || written.text.back() != '\n') {
    PrintBytes("\n");
  }
  return 0;
}

int Generate(const GenerateOptions& options) {
  const app::AnyModel model = OpenModel(options.model);
  const bool trained_here = model.kind() == model::ModelKind::kSequences;
  return trained_here ? GenerateBytes(options, model) : GenerateText(options, model);
}

}  // namespace

void RegisterGenerate(Command app, int* exit_code) {
  const auto options = std::make_shared<GenerateOptions>();
  const Command command = app.AddCommand("generate", "Continue a text");
  command
      .AddOption(
          "-m,--model", [options](const std::string& text) { options->model.path = app::FindModel(text).string(); },
          "Folder of a decoder (GPT-2, Llama, SmolLM, Qwen), its name in the Hugging Face hub's cache, or a run of qkv "
          "train on a text")
      .Required()
      .TypeName("MODEL");
  command
      .AddOption("--prompt", &options->prompt, "What stands at the beginning, and is printed first; -: standard input")
      .TypeName("TEXT");
  options->decoding.AddSearch(command, "Tokens to go on with (default: as the model's files say, else 500)");
  options->decoding.AddSampling(command);
  command.AddFlag("--json", &options->json, "One JSON object on stdout, at the end");
  options->model.AddCompute(command);
  options->model.AddStrict(command);
  AddMaxMemory(command);
  command.Footer(
      "Examples:\n"
      "  qkv generate -m openai-community/gpt2 --prompt \"Once upon a time\" --temperature 0.7\n"
      "  qkv train book.txt -o run && qkv generate -m run --prompt \"Once upon a time\"\n"
      "  qkv generate -m run --prompt - --temperature 0.7 --top-k 40 <beginning.txt");
  command.Callback([options, exit_code] { *exit_code = Generate(*options); });
}

}  // namespace qkv::cli
