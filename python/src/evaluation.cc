// How often a model is right on labelled data.
#include "qkv/app/evaluation/evaluation.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "python/src/model.h"
#include "python/src/objects.h"
#include "qkv/app/evaluation/pair_evaluation.h"
#include "qkv/train/sequences/pairs.h"

namespace qkv::python {
namespace {

// Mistakes on a page, as of `qkv evaluate`.
constexpr int64_t kWorstMistakes = 30;

// Numbers; of images also the confusion matrix and a page.
struct Answer {
  io::Json numbers;
  std::string confusion, page;
};

Answer OnImages(const Model& model, const std::string& data, const std::string& split, const app::Note& note) {
  const model::Model& classifier = model.Images("evaluate", app::kClassify);
  const app::LabelledImages images(data, split);
  app::EvaluateOptions options{.model = model.entry().path, .worst = kWorstMistakes};
  options.pipeline.note = note;
  const app::ImageEvaluation evaluation = app::Evaluate(classifier, images, options);
  Require(evaluation.evaluation.images() > 0, "evaluate: no image of {} could be read", data);
  Answer answer{ToJson(evaluation), app::ConfusionSvg(evaluation), app::EvaluationPage(evaluation)};
  answer.numbers["data"] = evaluation.data, answer.numbers["names"] = evaluation.names;
  return answer;
}

nb::tuple Evaluate(const Model& model, const nb::str& data, const std::string& split, int64_t beams) {
  const std::string path = PathOf(data);
  Call call(model.threads());
  const Answer answer = call.Run([&]() -> Answer {
    if (model.facts().is_image()) return OnImages(model, path, split, call.note());
    const app::AnyModel files(model.entry(), {});
    if (!model.facts().is_text()) return {ToJson(app::EvaluateSequences(files, path, split)), "", ""};
    files.Require("evaluate", app::kRewriteText);
    return {ToJson(app::EvaluatePairs(files, path, {.split = split, .beams = beams})), "", ""};
  });
  return nb::make_tuple(ToPython(answer.numbers), answer.confusion, answer.page);
}

}  // namespace

void BindEvaluation(ModelClass& model) {
  using namespace nb::literals;
  model.def("evaluate", &Evaluate, "data"_a, "split"_a, "beams"_a,
            "(numbers, confusion matrix as SVG or empty, page or empty)");
}

}  // namespace qkv::python
