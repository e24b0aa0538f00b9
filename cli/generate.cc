// qkv generate: continues a text, token by token, as it comes.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/writing.h"
#include "qkv/app/texts/byte_text.h"
#include "qkv/app/texts/language.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
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

// For a model that qkv trained on the bytes of a text.
int GenerateBytes(const GenerateOptions& options, const app::AnyModel& opened) {
  const model::SequenceModel<float> model = opened.BuildSequences();
  const std::string& name = options.model.path;
  Require(!options.json || !app::WritesBytes(model.config()),
          "generate: --json needs a model with a tokenizer; {} writes bytes", name);
  bool begun = false;
  const std::string prompt = ReadPrompt(options);
  // The prompt is printed once the model has taken it.
  const auto show = [&](std::string_view byte) {
    if (!std::exchange(begun, true)) PrintBytes(prompt);
    PrintBytes(byte);
    return true;
  };
  app::ContinueBytes(model, name, prompt, options.decoding.Over(app::ByteSettings()), show);
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
