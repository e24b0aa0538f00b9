#include "cli/attend_texts.h"

#include <fmt/format.h>

#include <filesystem>

#include "cli/image_outputs.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/text_inputs.h"
#include "qkv/app/attention/text_attention.h"
#include "qkv/app/attention/text_attention_files.h"
#include "qkv/app/models/model_title.h"
#include "qkv/app/texts/language.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownBytes = 60;  // of a text, in a message

// A file for each text: the named one; FOLDER/1.png, FOLDER/2.png, …; or the pattern with {} replaced by its number.
std::vector<fs::path> TextOutputs(const AttendOptions& options, const CollectedTexts& inputs) {
  if (options.output.empty()) return {};
  const bool folder = IsFolderOutput(options.output);
  const std::string pattern = folder ? (fs::path(options.output) / "{}.png").string() : options.output;
  const app::MapFormat format = app::ParseOutputFormat(pattern);
  const size_t hole = pattern.rfind("{}");
  Require(hole != std::string::npos || inputs.texts.size() == 1,
          "attend: -o {} is one file, for {} texts; name a folder, as in maps/, or put {{}} for a text's number, as in "
          "map-{{}}.png",
          options.output, inputs.texts.size());
  app::InputFiles files = InputsOf(options.model);
  files.Add(inputs.files);
  if (folder) fs::create_directories(options.output);
  std::vector<fs::path> outputs;
  for (size_t i = 0; i < inputs.texts.size(); ++i) {
    std::string path = pattern;
    if (hole != std::string::npos) path.replace(hole, 2, std::to_string(i + 1));
    files.RequireOutput(path);
    if (format == app::MapFormat::kNpy) files.RequireOutput(app::TokensFileOf(path).string());
    outputs.emplace_back(path);
  }
  return outputs;
}

// "cross-attention, 8 tokens written from 7: La casa è verde."
void PrintTextSummary(const app::TextAttention& attention, const fs::path& output) {
  const std::string what = app::Describe(attention.part);
  if (attention.target.empty()) {
    PrintMessage("{}: {}, {} tokens\n", output.string(), what, attention.rows.size());
  } else {
    PrintMessage("{}: {}, {} tokens written from {}: {}\n", output.string(), what, attention.rows.size(),
                 attention.columns.size(), Printable(attention.target, kShownBytes));
  }
}

app::TextAttendRequest MakeTextRequest(const AttendOptions& options, const AttendTextOptions& texts,
                                       const app::LanguageModel& model, app::MapFormat format) {
  const bool writes = model.model().has_encoder() && model.model().has_decoder();
  Require(writes || (!texts.prefix && !texts.decoding.beams && !texts.decoding.tokens),
          "attend: --prefix, --beams and --tokens are for a model that reads one text and writes another, and {} shows "
          "the attention of the text that is given",
          options.model.path);
  app::TextAttendRequest request{.layers = options.layers,
                                 .head = options.head,
                                 .target = texts.target,
                                 .prefix = texts.prefix.value_or(""),
                                 .settings = texts.decoding.Over(model.Settings()),
                                 .format = format,
                                 .model = app::ModelTitle(options.model.path),
                                 .note = PrintNote};
  if (texts.cross) request.part = inspect::PartKind::kCross;
  if (!texts.part.empty()) request.part = app::ParsePart(texts.part, "--part");
  return request;
}

}  // namespace

void AttendTextOptions::AddTo(Command command) {
  const Option is_cross = command.AddFlag("--cross", &cross,
                                          "Texts: which tokens of the text each token that is written looks at, by a "
                                          "model with an encoder and a decoder (Marian, T5): --part cross");
  command
      .AddOption(
          "--part", &part,
          "Texts: whose attention is shown: of the encoder, of the decoder, or cross (default: cross where there "
          "are both)")
      .OneOf({"encoder", "decoder", "cross"})
      .Excludes(is_cross);
  command
      .AddOption(
          "--target", [this](const std::string& text) { target = text; },
          "Texts: what a decoder with an encoder is made to write (default: what qkv translate gives)")
      .TypeName("TEXT");
  command
      .AddOption(
          "--prefix", [this](const std::string& text) { prefix = text; },
          "Texts: what is put before each, such as \"translate English to German: \"")
      .TypeName("TEXT");
  command.AddOption("--beams", &decoding.beams, "Texts: search with so many at a time for what is written")
      .Range(1.0, 4096.0)
      .TypeName("N");
  command.AddOption("--tokens", &decoding.tokens, "Texts: greatest number of tokens that are written")
      .Range(1.0, 1e12)
      .TypeName("N");
}

std::string AttendTextOptions::Given() const {
  return cross             ? "--cross"
         : !part.empty()   ? "--part"
         : target          ? "--target"
         : prefix          ? "--prefix"
         : decoding.beams  ? "--beams"
         : decoding.tokens ? "--tokens"
                           : "";
}

int AttendTexts(const AttendOptions& options, const AttendTextOptions& texts, const app::AnyModel& opened) {
  Require(!texts.target || (!texts.decoding.beams && !texts.decoding.tokens),
          "attend: --beams and --tokens apply to what the model writes by itself, and --target replaces that");
  const CollectedTexts inputs = CollectTexts(options.inputs, /*lines=*/true);
  Require(!texts.target || inputs.texts.size() == 1, "attend: --target needs one text, and there are {}",
          inputs.texts.size());
  const std::vector<fs::path> outputs = TextOutputs(options, inputs);
  const app::MapFormat format = outputs.empty() ? app::MapFormat::kNpy : app::ParseOutputFormat(outputs.front());
  const app::LanguageModel model = opened.BuildLanguage();
  const app::TextAttender attender(model, MakeTextRequest(options, texts, model, format));
  Progress progress(std::ssize(inputs.texts), "texts", options.quiet);
  size_t failed = 0;
  for (size_t i = 0; i < inputs.texts.size(); ++i) {
    try {
      progress.Clear();
      const app::TextAttention attention = attender.Compute(inputs.texts[i]);
      if (outputs.empty()) {
        PrintJsonLine(ToJson(attention));
      } else {
        app::WriteTextAttention(attention, format, outputs[i]);
        PrintTextSummary(attention, outputs[i]);
      }
    } catch (const Error& error) {
      if (inputs.texts.size() == 1) throw;
      PrintMessage("qkv: text {}: {}\n", i + 1, error.what());
      ++failed;
    }
    progress.Advance(1);
  }
  progress.Clear();
  if (failed > 0) PrintMessage("qkv: {} of {} texts failed\n", failed, inputs.texts.size());
  return failed > 0 ? 1 : 0;
}

}  // namespace qkv::cli
