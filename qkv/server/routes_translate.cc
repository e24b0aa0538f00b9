// /v1/translate and /v1/summarize: texts to texts, by an encoder-decoder.

#include "qkv/app/open/json_line.h"
#include "qkv/app/open/shipped.h"
#include "qkv/app/texts/cross_rule.h"
#include "qkv/app/texts/pieces.h"
#include "qkv/server/event_stream.h"
#include "qkv/server/generation_request.h"
#include "qkv/server/routes.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

constexpr size_t kMaxSources = 2048;

std::vector<Field> RewritingFields() {
  return WithDecoding(
      {{.name = "model",
        .meaning = "Without it, the model that comes with qkv for this, or the first with an encoder and a decoder"},
       {.name = "text", .type = Field::Type::kOther, .schema = R"({"anyOf": [{"type": "string"},
                                {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2048}]})"},
       kPrefixField,
       {.name = "cut",
        .type = Field::Type::kFlag,
        .meaning = "Longer texts than the model's are cut at the ends of sentences, and the answers joined"},
       {.name = "cross_weights",
        .meaning = "What replaces cross-attention's softmax, as qkv translate --cross-weights"},
       kStreamField});
}

struct Rewriting {
  std::shared_ptr<const LoadedModel> model;
  std::vector<std::string> texts;
  app::WritingOptions options;
  bool cut = false;
};

Rewriting ParseRewriting(Context& context, Call& call, const RequestInput& input, std::string_view task) {
  Rewriting r;
  r.texts = input.Texts("text");
  if (r.texts.empty() || r.texts.size() > kMaxSources) {
    BadRequest("text: expected a text, or a list of 1 to 2,048 texts");
  }
  // A prefix in the request says what to do, whatever the model's usual task.
  const bool translates = task == "translate";
  const Ability& ability = input.Has("prefix") ? kRewriteText : translates ? kTranslate : kSummarize;
  r.model = context.ModelFor(call, input.Text("model"), ability, translates ? app::kTranslator : app::kSummarizer);
  const app::LanguageModel& language = *r.model->language();
  r.options.settings = SettingsOf(input, language.Settings());
  r.options.prefix = input.Has("prefix") ? input.Text("prefix") : language.Prefix(task);
  if (input.Has("cross_weights")) {
    r.options.settings.cross = app::ParseCrossWeights(input.Text("cross_weights"), "cross_weights");
  }
  r.cut = input.Flag("cut");
  return r;
}

io::Json TextJson(size_t index, const app::Written& written) {
  return {{"index", index},           {"text", written.text},
          {"score", written.score},   {"source_tokens", written.source_tokens},
          {"tokens", written.tokens}, {"finish_reason", written.ended ? "stop" : "length"}};
}

// Answers to all texts.
std::vector<app::Written> WriteAll(Context& context, const Call& call, const Rewriting& r, const std::string& task) {
  const app::LanguageModel& language = *r.model->language();
  app::Pieces pieces;
  std::vector<app::TextIds> sources;
  context.Prepare(call, [&] {
    pieces = app::CutTexts(r.texts, language, r.options.prefix, r.cut, task);
    sources = language.ReadSources(pieces.texts, r.options.prefix);
  });
  return app::JoinPieces(pieces, WriteTexts(context, call, r.model, sources, r.options));
}

HttpResponse RewriteAtOnce(Context& context, const Call& call, const Rewriting& r, const std::string& task) {
  const std::vector<app::Written> written = WriteAll(context, call, r, task);
  io::Json data = io::Json::array();
  int64_t read = 0, wrote = 0;
  for (const app::Written& one : written) {
    data.push_back(TextJson(data.size(), one));
    read += one.source_tokens, wrote += one.tokens;
  }
  context.metrics().CountTokens(r.model->id(), read, wrote);
  return {.body = app::JsonLine(
              {{"object", "list"},
               {"model", r.model->id()},
               {"data", data},
               {"usage", {{"prompt_tokens", read}, {"completion_tokens", wrote}, {"total_tokens", read + wrote}}}})};
}

// Sends each text's pieces as they come, and then the fields of RewriteAtOnce.
void RewriteInPieces(Context& context, Call& call, const Rewriting& r, EventStream& stream) {
  std::vector<app::TextIds> sources;
  context.Prepare(call, [&] { sources = r.model->language()->ReadSources(r.texts, r.options.prefix); });
  for (size_t i = 0; i < r.texts.size(); ++i) {
    app::WritingOptions options = r.options;
    options.settings.sampling.seed += i;
    options.stop = context.Steps();
    app::Written written;
    bool taken = true;
    context.Compute(
        {r.model->id(), "writing"}, call,
        [&] {
          written = r.model->language()->WriteOne(sources[i], options, [&](std::string_view piece) {
            taken = stream.Send({{"index", i}, {"text", piece}});
            call.renew();
            return taken;
          });
        },
        WritingClass(*r.model, options.settings));
    if (!taken) throw Cancelled();
    context.metrics().CountTokens(r.model->id(), written.source_tokens, written.tokens);
    io::Json end = TextJson(i, written);
    end["object"] = "text";
    end["model"] = r.model->id();
    if (!stream.Send(end)) throw Cancelled();
  }
}

std::optional<HttpResponse> Rewrite(Context& context, Call& call, const std::string& task) {
  const RequestInput input(call.request(), NamesOf(RewritingFields()));
  const bool streams = input.Flag("stream");
  const Rewriting r = ParseRewriting(context, call, input, task);
  if (!streams) return RewriteAtOnce(context, call, r, task);
  if (r.cut) BadRequest("cut: a stream does not cut texts");
  EventStream stream(call);
  try {
    RewriteInPieces(context, call, r, stream);
    stream.End();
  } catch (const Cancelled&) {
    if (!stream.begun()) throw;
    stream.Fail(503, "timeout_error", "the next token took longer than a request may");
  } catch (const Error& error) {
    if (!stream.begun()) throw;
    stream.Fail(error);
  }
  return std::nullopt;
}

}  // namespace

void AddTranslationRoutes(Router& router, Context& context) {
  for (const std::string task : {"translate", "summarize"}) {
    router.Add({.method = "POST",
                .pattern = "/v1/" + task,
                .handler = [&context, task](Call& call) { return Rewrite(context, call, task); },
                .fields = RewritingFields()});
  }
}

}  // namespace qkv::server
