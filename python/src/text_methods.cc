// What a model does with texts.
#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <utility>

#include "python/src/interpreter_lock.h"
#include "python/src/model.h"
#include "python/src/objects.h"
#include "python/src/writing.h"
#include "qkv/app/capture/text_capture.h"
#include "qkv/app/texts/byte_text.h"
#include "qkv/app/texts/pieces.h"
#include "qkv/app/texts/stop_scanner.h"
#include "qkv/core/work.h"

namespace qkv::python {

model::GenerationChoices ChoicesOf(const nb::dict& choices, int64_t begin) {
  model::GenerationChoices c;
  const std::map<std::string, std::optional<int64_t>*> whole = {{"max_tokens", &c.max_tokens},
                                                                {"min_tokens", &c.min_tokens},
                                                                {"beams", &c.beams},
                                                                {"no_repeat_ngram", &c.no_repeat_ngram},
                                                                {"top_k", &c.top_k}};
  const std::map<std::string, std::optional<double>*> numbers = {{"temperature", &c.temperature},
                                                                 {"top_p", &c.top_p},
                                                                 {"min_p", &c.min_p},
                                                                 {"length_penalty", &c.length_penalty},
                                                                 {"repetition_penalty", &c.repetition_penalty}};
  for (const auto& [key, value] : choices) {
    const std::string name = nb::cast<std::string>(key);
    if (name == "max_length") {
      const auto length = ValueOf<int64_t>(value, "max_length", "a whole number");
      Require(length > begin,
              "max_length: {} leaves no token to write after {}; max_new_tokens counts the new ones alone", length,
              begin);
      c.max_tokens = length - begin;
    } else if (const auto found = whole.find(name); found != whole.end()) {
      *found->second = ValueOf<int64_t>(value, name.c_str(), "a whole number");
    } else if (const auto number = numbers.find(name); number != numbers.end()) {
      *number->second = ValueOf<double>(value, name.c_str(), "a number");
    } else if (name == "seed") {
      c.seed = ValueOf<uint64_t>(value, "seed", "a whole number of at least 0");
    } else {
      throw nb::type_error(FormatShown("{}: no setting of generation", name).c_str());
    }
  }
  return c;
}

namespace {

io::Json ToJson(const app::Written& written) {
  return {{"text", written.text},
          {"score", written.score},
          {"source_tokens", written.source_tokens},
          {"tokens", written.tokens},
          {"ended", written.ended}};
}

// Cut texts have other vectors than their own.
app::Note Warnings(Call& call) {
  return [note = call.note()](const std::string& text) { note("warning: " + text); };
}

nb::object EmbedTexts(const Model& model, const std::vector<std::string>& texts,
                      const std::optional<std::string>& prompt) {
  if (model.facts().has_text_tower()) {
    const app::TextEncoder& encoder = model.TowerTexts("encode");
    std::vector<std::string> prompted = texts;
    if (prompt) {
      for (std::string& text : prompted) text = *prompt + text;
    }
    Call call(model.threads());
    return ToArray(call.Run([&] { return encoder.Embed(prompted, Warnings(call)); }));
  }
  const app::LanguageModel& language = model.Language("encode", app::kEmbedTexts);
  Call call(model.threads());
  return ToArray(call.Run([&] { return language.Embed(texts, Warnings(call), prompt); }));
}

// Tokens as the model reads them: a list of ids for each text.
std::vector<std::vector<int32_t>> Tokenize(const Model& model, const std::vector<std::string>& texts) {
  Call call(model.threads());
  if (model.facts().has_text_tower()) {
    const app::TextEncoder& encoder = model.TowerTexts("tokenize");
    return call.Run([&] {
      std::vector<std::vector<int32_t>> ids;
      for (app::TextIds& text : encoder.Read(texts)) ids.push_back(std::move(text.ids));
      return ids;
    });
  }
  const app::LanguageModel& language = model.Language("tokenize", app::kAttendText);
  return call.Run([&] { return language.Encode(texts); });
}

// Passes new text to `show`, which returns False to stop.
std::function<bool(std::string_view)> ShowBy(nb::handle show, std::optional<nb::python_error>* error) {
  return [show, error](std::string_view text) {
    CheckCancelled();  // the loops of one token are too short to ask
    if (show.is_none()) return true;
    const WithLock lock;
    try {
      return nb::cast<bool>(show(nb::bytes(text.data(), text.size())));
    } catch (nb::python_error& raised) {
      error->emplace(std::move(raised));
      return false;
    }
  };
}

// special: whether the tokenizer adds its special tokens. The text ends where one of `stops` begins.
nb::object Continue(const Model& model, const std::string& work, const std::string& prompt, bool special,
                    const nb::dict& choices, const std::vector<std::string>& stops, const nb::object& show) {
  const app::LanguageModel* const language =
      model.bytes() ? nullptr : &model.Language(work.c_str(), app::kContinueText);
  std::optional<nb::python_error> error;
  Call call(model.threads());
  std::vector<int32_t> ids;
  if (language) ids = call.Run([&] { return language->ReadPrompt(prompt, special); });
  const model::GenerationChoices chosen = ChoicesOf(choices, language ? std::ssize(ids) : std::ssize(prompt));
  const app::Written written = call.Run([&] {
    const model::GenerationSettings settings =
        chosen.Over(language ? language->Settings(std::ssize(ids)) : app::ByteSettings());
    settings.Validate();
    const std::function<bool(std::string_view)> show_text = ShowBy(show, &error);
    app::StopScanner scanner(stops);
    std::string shown;
    const auto take = [&](std::string_view piece) {
      const std::string next = scanner.Add(piece);
      shown += next;
      return show_text(next) && !scanner.stopped();
    };
    app::Written all = language ? language->Continue(std::move(ids), settings, take, call.note())
                                : app::ContinueBytes(*model.bytes(), model.entry().path, prompt, settings, take);
    if (const std::string rest = scanner.Rest(); !rest.empty()) {
      shown += rest;
      show_text(rest);
    }
    all.text = shown, all.ended = all.ended || scanner.stopped();
    return all;
  });
  if (error) throw nb::python_error(std::move(*error));
  return ToPython(ToJson(written));
}

// The text of ids, as the model writes it.
nb::object Decode(const Model& model, const std::vector<int32_t>& ids, bool special) {
  const text::Tokenizer tokenizer = model.facts().has_text_tower()
                                        ? model.TowerTexts("decode").tokenizer()
                                        : model.Language("decode", app::kAttendText).target_tokenizer();
  Call call(model.threads());
  return ToPython(call.Run([&] { return tokenizer.Decode(ids, special); }));
}

// Texts to texts by an encoder-decoder; longer ones than it reads in pieces.
nb::list Rewrite(const Model& model, const std::vector<std::string>& texts, const std::string& task,
                 const std::optional<std::string>& prefix, const nb::dict& choices, int64_t batch, bool cut,
                 const nb::object& progress) {
  const app::Ability& named = task == "summarize" ? app::kSummarize : app::kTranslate;
  const app::LanguageModel& language = model.Language(task.c_str(), prefix ? app::kRewriteText : named);
  const model::GenerationChoices chosen = ChoicesOf(choices);
  Call call(model.threads());
  const std::function<void(int64_t)> advance = call.Progress(progress);
  const std::vector<app::Written> all = call.Run([&] {
    const app::WritingOptions options{.prefix = prefix.value_or(language.Prefix(task)),
                                      .together = batch,
                                      .settings = chosen.Over(language.Settings()),
                                      .stop = [] {
                                        CheckCancelled();
                                        return false;
                                      }};
    options.settings.Validate();
    const app::Pieces pieces = app::CutTexts(texts, language, options.prefix, cut, task);
    size_t before = 0;
    const std::vector<app::Written> written = language.Write(pieces.texts, options, [&](size_t done) {
      if (advance) advance(static_cast<int64_t>(done - std::exchange(before, done)));
    });
    return app::JoinPieces(pieces, written);
  });
  nb::list results;
  for (const app::Written& one : all) results.append(ToPython(ToJson(one)));
  return results;
}

using Ids = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using PixelArray = nb::ndarray<const float, nb::ndim<4>, nb::c_contig, nb::device::cpu>;

// Outputs of a text model, or of one that writes about images, by the names of `qkv run`.
nb::dict ForwardTexts(const Model& model, const std::map<std::string, Ids>& ids, const std::vector<int64_t>& attention,
                      const std::optional<PixelArray>& pixels, const AskedActivations& asked) {
  io::SafeTensors inputs;
  if (pixels) {
    const Shape shape({static_cast<int64_t>(pixels->shape(0)), static_cast<int64_t>(pixels->shape(1)),
                       static_cast<int64_t>(pixels->shape(2)), static_cast<int64_t>(pixels->shape(3))});
    inputs.Add(io::Stored<float>("pixels", View<const float>(pixels->data(), shape)));
  }
  for (const auto& [name, array] : ids) {
    Require(app::IsTokenInput(name), "forward: no text model reads {}", name);
    const Shape shape({static_cast<int64_t>(array.shape(0)), static_cast<int64_t>(array.shape(1))});
    inputs.Add(io::Stored<int64_t>(name, View<const int64_t>(array.data(), shape)));
  }
  inputs.Finish("forward");
  Call call(model.threads());
  const app::ActivationRequest activations = asked.For(model, call);
  if (pixels) {
    const model::CaptionModel& passes = model.CaptionPasses("forward");
    return ToArrays(call.Run([&] { return app::CaptureCaptions(passes, inputs, "forward", attention, activations); }));
  }
  if (const model::SequenceModel<float>* const passes = model.sequences()) {
    return ToArrays(
        call.Run([&] { return app::CaptureSequences(*passes, inputs, "forward", attention, activations); }));
  }
  const model::TextModel& passes = model.TextPasses("forward");
  return ToArrays(call.Run([&] { return app::CaptureText(passes, inputs, "forward", attention, activations); }));
}

}  // namespace

void BindTexts(ModelClass& model) {
  using namespace nb::literals;
  model.def("embed_texts", &EmbedTexts, "texts"_a, "prompt"_a.none(), "[texts, width]");
  model.def("tokenize", &Tokenize, "texts"_a, "Ids of each text as the model reads them.");
  model.def("decode", &Decode, "ids"_a, "special_tokens"_a, "The text of ids.");
  model.def("continue_text", &Continue, "work"_a, "prompt"_a, "add_special_tokens"_a, "choices"_a, "stops"_a,
            "show"_a.none());
  model.def("rewrite", &Rewrite, "texts"_a, "task"_a, "prefix"_a.none(), "choices"_a, "batch"_a, "cut"_a,
            "progress"_a.none());
  model.def(
      "forward_texts",
      [](const Model& self, const std::map<std::string, Ids>& ids, const std::vector<int64_t>& attention,
         const std::optional<PixelArray>& pixels, std::vector<std::string> kept, std::vector<std::string> changed,
         nb::object change) {
        return ForwardTexts(self, ids, attention, pixels, {std::move(kept), std::move(changed), std::move(change)});
      },
      "ids"_a, "attention"_a, "pixels"_a = nb::none(), "kept"_a = nb::list(), "changed"_a = nb::list(),
      "change"_a = nb::none(), "As `forward`, of texts, or of the images and texts of a model that writes about them.");
}

}  // namespace qkv::python
