// /v1/generate and OpenAI's /v1/completions: a decoder continues a text, at once or token by token.
#include <utility>

#include "qkv/app/open/json_line.h"
#include "qkv/app/texts/stop_scanner.h"
#include "qkv/server/event_stream.h"
#include "qkv/server/generation_request.h"
#include "qkv/server/routes.h"
#include "qkv/server/tasks.h"

namespace qkv::server {
namespace {

// How the two protocols format a text.
enum class Form { kOwn, kOpenAi };

struct Continuation {
  std::string text;              // shown so far
  const char* finish = nullptr;  // "stop" or "length", at the end
  int64_t prompt_tokens = 0, tokens = 0;
};

io::Json UsageOf(const Continuation& c) {
  return {{"prompt_tokens", c.prompt_tokens},
          {"completion_tokens", c.tokens},
          {"total_tokens", c.prompt_tokens + c.tokens}};
}

// text: the whole, or a piece of a stream.
io::Json AnswerOf(Form form, const std::string& request, const std::string& model, std::string_view text,
                  const Continuation* whole) {
  const io::Json finish = whole != nullptr ? io::Json(whole->finish) : io::Json();
  io::Json json = {{"model", model}};
  if (form == Form::kOpenAi) {
    json["id"] = "cmpl-" + request;
    json["object"] = "text_completion";
    json["created"] = 0;
    json["choices"] = {{{"index", 0}, {"text", text}, {"logprobs", nullptr}, {"finish_reason", finish}}};
  } else {
    json["object"] = "generation";
    json["text"] = text;
    if (whole != nullptr) json["finish_reason"] = finish;
  }
  if (whole != nullptr) json["usage"] = UsageOf(*whole);
  return json;
}

// The prompt: a text; OpenAI's clients may put it in a list of one.
std::string PromptOf(const RequestInput& input) {
  const std::vector<std::string> prompts = input.Texts("prompt");
  if (prompts.size() == 1) return prompts[0];
  BadRequest("prompt: expected one text");
}

constexpr Field Other(std::string_view name, std::string_view schema, std::string_view meaning = "") {
  return {.name = name, .type = Field::Type::kOther, .meaning = meaning, .schema = schema};
}

std::vector<Field> FieldsOf(Form form) {
  std::vector<Field> fields = WithDecoding({Other("prompt", R"({"anyOf": [{"type": "string"},
                                     {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1}]})"),
                                            kStreamField,
                                            Other("stop",
                                                  R"({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 1000},
                           {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 1000},
                            "maxItems": 16}, {"type": "null"}]})",
                                                  "Texts before which the answer ends; each up to 1,000 bytes")});
  if (form == Form::kOwn) return fields;
  // Taken at the only value that this server has.
  constexpr std::string_view kOne = R"({"type": ["integer", "null"], "minimum": 1, "maximum": 1})",
                             kNull = R"({"type": "null"})", kZero = R"({"enum": [0, null]})";
  fields.insert(fields.end(),
                {Other("n", kOne), Other("best_of", kOne), Other("logprobs", kNull),
                 Other("echo", R"({"enum": [false, null]})"), Other("suffix", kNull), Other("presence_penalty", kZero),
                 Other("frequency_penalty", kZero), Other("user", "{}", "Taken, and not used"),
                 Other("stream_options", "{}", "Taken, and not used: a stream always ends with its usage")});
  return fields;
}

void RequirePlain(const RequestInput& input) {
  const bool plain = input.Integer("n", 1, 1, INT32_MAX) == 1 && input.Integer("best_of", 1, 1, INT32_MAX) == 1 &&
                     !input.Has("logprobs") && !input.Flag("echo") && !input.Has("suffix") &&
                     input.Number("presence_penalty", 0, -2, 2) == 0 &&
                     input.Number("frequency_penalty", 0, -2, 2) == 0;
  if (!plain) {
    BadRequest("n, best_of, logprobs, echo, suffix and penalties: this server gives one text, without them");
  }
}

std::optional<HttpResponse> Generate(Context& context, Call& call, Form form) {
  const RequestInput input(call.request(), NamesOf(FieldsOf(form)));
  if (form == Form::kOpenAi) RequirePlain(input);
  const std::string prompt = PromptOf(input);
  const bool streams = input.Flag("stream");
  const std::vector<std::string> stops = StopsOf(input);
  const auto model = context.ModelFor(call, input.Text("model"), kContinueText);
  const app::LanguageModel& language = *model->language();
  Continuation c;
  EventStream stream(call);
  std::vector<int32_t> ids;
  context.Prepare(call, [&] { ids = language.ReadPrompt(prompt); });
  const model::GenerationSettings settings = SettingsOf(input, language.Settings(std::ssize(ids)));
  const auto continue_text = [&] {
    app::StopScanner scanner(stops);
    const auto show = [&](std::string text) {
      c.text += text;
      return !streams || text.empty() || stream.Send(AnswerOf(form, call.request().id, model->id(), text, nullptr));
    };
    bool taken = true;
    const auto take = [&](std::string_view piece) {
      taken = show(scanner.Add(piece));
      if (streams) call.renew();
      return taken && !scanner.stopped();
    };
    const app::Written written = language.Continue(ids, settings, take, {}, context.Steps());
    if (!taken) throw Cancelled();
    if (!scanner.stopped()) show(scanner.Rest());
    c.finish = written.ended || scanner.stopped() ? "stop" : "length";
    c.prompt_tokens = written.source_tokens, c.tokens = written.tokens;
  };
  try {
    context.Compute({model->id(), "generation"}, call, continue_text, WritingClass(*model, settings));
  } catch (const Cancelled&) {
    if (!stream.begun()) throw;
    stream.Fail(503, "timeout_error", "the next token took longer than a request may");
    return std::nullopt;
  } catch (const Error& error) {
    if (!stream.begun()) throw;
    stream.Fail(error);
    return std::nullopt;
  }
  context.metrics().CountTokens(model->id(), c.prompt_tokens, c.tokens);
  if (!streams) {
    return HttpResponse{.body = app::JsonLine(AnswerOf(form, call.request().id, model->id(), c.text, &c))};
  }
  stream.Send(AnswerOf(form, call.request().id, model->id(), "", &c));
  stream.End();
  return std::nullopt;
}

}  // namespace

void AddGenerationRoutes(Router& router, Context& context) {
  router.Add({.method = "POST",
              .pattern = "/v1/generate",
              .handler = [&context](Call& call) { return Generate(context, call, Form::kOwn); },
              .fields = FieldsOf(Form::kOwn)});
  router.Add({.method = "POST",
              .pattern = "/v1/completions",
              .handler = [&context](Call& call) { return Generate(context, call, Form::kOpenAi); },
              .fields = FieldsOf(Form::kOpenAi)});
}

}  // namespace qkv::server
