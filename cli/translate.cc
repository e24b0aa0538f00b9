// qkv translate and qkv summarize: texts to texts, by an encoder-decoder.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/text_inputs.h"
#include "cli/writing.h"
#include "qkv/app/open/json_line.h"
#include "qkv/app/open/shipped.h"
#include "qkv/app/texts/cross_rule.h"
#include "qkv/app/texts/language.h"
#include "qkv/app/texts/pieces.h"
#include "qkv/core/file.h"

namespace qkv::cli {
namespace {

struct TranslateOptions {
  ModelOptions model;
  std::vector<std::string> texts;  // words, or names of files; "-": standard input
  DecodingOptions decoding;
  std::optional<std::string> prefix;
  nn::CrossWeights cross;
  std::string output;
  int64_t batch = 32;
  bool json = false, quiet = false;
  bool lines = true;  // each line of a file is a text of its own
  bool cut = false;   // a text that is too long is cut in pieces
};

void Show(const TranslateOptions& options, const std::string& source, const app::Written& written, std::string* out) {
  const std::string line = options.json ? app::JsonLine({{"source", source},
                                                         {"text", written.text},
                                                         {"score", written.score},
                                                         {"source_tokens", written.source_tokens},
                                                         {"tokens", written.tokens},
                                                         {"ended", written.ended}})
                                        : written.text;
  *out += line + '\n';
}

int Rewrite(TranslateOptions options, std::string_view name) {
  if (options.model.path.empty()) {
    const std::string_view shipped = name == "translate" ? app::kTranslator : app::kSummarizer;
    options.model.path = app::FindShippedModel(shipped).string();
    PrintNote(fmt::format("no -m MODEL given: {} answers ({})", shipped,
                          name == "translate" ? "descriptions of software, English to Italian"
                                              : "the synopsis of a piece of software from its English description"));
  }
  const app::AnyModel opened = OpenModel(options.model);
  opened.Require(name, app::kRewriteText);
  const CollectedTexts given = CollectTexts(options.texts, options.lines);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(given.files);
  inputs.RequireOutput(options.output);
  const app::LanguageModel model = opened.BuildLanguage();
  app::WritingOptions writing{.prefix = options.prefix.value_or(model.Prefix(name)),
                              .together = options.batch,
                              .settings = options.decoding.Over(model.Settings())};
  writing.settings.cross = options.cross;
  // A text in pieces is written piece by piece, then joined.
  const app::Pieces pieces = app::CutTexts(given.texts, model, writing.prefix, options.cut, std::string(name));
  if (pieces.cut > 0) {
    PrintNote(FormatShown("{} of {} texts have more than {} tokens and are cut in pieces, {} in all", pieces.cut,
                          given.texts.size(), model.usual_length(), pieces.texts.size()));
  }
  Progress progress(std::ssize(pieces.texts), "texts", options.quiet);
  int64_t shown = 0;
  const std::vector<app::Written> written = model.Write(pieces.texts, writing, [&](size_t done) {
    progress.Advance(static_cast<int64_t>(done) - std::exchange(shown, static_cast<int64_t>(done)));
  });
  progress.Clear();
  std::string out;
  UnfinishedTexts unfinished;
  const std::vector<app::Written> joined = app::JoinPieces(pieces, written);
  for (size_t i = 0; i < joined.size(); ++i) {
    Show(options, given.texts[i], joined[i], &out);
    unfinished.Add(joined[i].ended, joined[i].tokens);
  }
  unfinished.Print();
  if (options.output.empty()) {
    PrintRaw(out);
    FlushOutput();
  } else {
    WriteFile(options.output, out);
  }
  return 0;
}

void AddRewriting(Command app, int* exit_code, const std::string& name, std::string_view what,
                  std::string_view examples) {
  const auto options = std::make_shared<TranslateOptions>();
  const Command command = app.AddCommand(name, what);
  options->lines = name == "translate";
  command
      .AddOption("TEXT", &options->texts,
                 options->lines ? "Words, or files of texts, one a line; without any, or with -, standard input"
                                : "Files, each with one text, or words; without any, or with -, standard input")
      .TypeName("TEXT");
  command
      .AddOption(
          "-m,--model", [options](const std::string& text) { options->model.path = app::FindModel(text).string(); },
          "Folder of an encoder-decoder (Marian, T5), its name in the Hugging Face hub's cache, or "
          "a run of qkv train on pairs; without it the model that comes with qkv, of descriptions of software")
      .TypeName("MODEL");
  command
      .AddOption(
          "--prefix", [options](const std::string& text) { options->prefix = text; },
          "What is put before every text, such as \"translate English to German: \" (default: as the model's files "
          "say)")
      .TypeName("TEXT");
  if (!options->lines) command.AddFlag("--lines", &options->lines, "Each line of a file is a text of its own");
  command.AddFlag("--cut", &options->cut,
                  "Cut texts that are longer than the model's in pieces at the ends of sentences, and join the answers "
                  "(default: they are refused)");
  command
      .AddOption(
          "--cross-weights",
          [options](const std::string& text) { options->cross = app::ParseCrossWeights(text, "--cross-weights"); },
          "What takes the place of cross-attention's softmax, to see what the model needs of it: softmax=T (of "
          "temperature T), hard, uniform or gaussian=H[,SLOPE] (along the diagonal, H source tokens wide, SLOPE source "
          "tokens per target token, 1 unless given); :BLOCK.HEAD,… behind it: of these heads alone")
      .TypeName("RULE|hard|uniform");
  options->decoding.AddSearch(command,
                              "Greatest number of tokens of an answer (default: as the model's files say, else 256)");
  options->decoding.AddSampling(command);
  command.AddOption("--batch", &options->batch, "Texts in one batch").Range(1, 4096).TypeName("N").ShowDefault();
  command.AddOption("-o,--output", &options->output, "File to write (default: standard output)").TypeName("FILE");
  command.AddFlag("--json", &options->json, "JSON Lines, with scores and numbers of tokens");
  AddQuiet(command, &options->quiet);
  options->model.AddCompute(command);
  options->model.AddStrict(command);
  AddMaxMemory(command);
  command.Footer(examples);
  command.Callback([options, exit_code, name] { *exit_code = Rewrite(*options, name); });
}

}  // namespace

void RegisterTranslate(Command app, int* exit_code) {
  AddRewriting(app, exit_code, "translate", "Translate texts",
               "Examples:\n"
               "  qkv translate \"This package contains the documentation.\"\n"
               "  qkv translate -m Helsinki-NLP/opus-mt-en-it \"The house is green.\"\n"
               "  qkv translate -m opus-mt-en-it letters.txt -o lettere.txt --beams 4");
}

void RegisterSummarize(Command app, int* exit_code) {
  AddRewriting(app, exit_code, "summarize", "Summarize texts",
               "Examples:\n"
               "  qkv summarize -m google/flan-t5-small --prefix \"summarize: \" article.txt\n"
               "  qkv summarize -m run --lines descriptions.txt -o titles.txt");
}

}  // namespace qkv::cli
