// Any bytes are a table of labels, a head's tensors, a model's configuration, or an Error; what is valid divides into
// folds, and answers for a bag.
#include <cstdlib>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/io/weights.h"
#include "qkv/mil/cohort.h"
#include "qkv/mil/config.h"
#include "qkv/mil/gated_files.h"

namespace {

using namespace qkv;

void Check(bool ok) {
  if (!ok) std::abort();
}

void ReadTable(std::string_view text) {
  const std::vector<mil::LabelledSlide> rows = mil::ParseLabels(text, "fuzz");
  const mil::Cohort cohort = mil::MakeCohort(rows, {});
  Check(cohort.slides.size() == rows.size());
  for (const mil::Fold& fold : mil::MakeFolds(cohort, 3, 1)) {
    Check(!fold.train.empty() && !fold.validation.empty() && !fold.test.empty());
  }
}

void ReadHead(std::span<const std::byte> bytes) {
  io::TensorSet set = io::ReadWeights(bytes, "fuzz");
  const mil::GatedHead head(mil::ReadGatedWeights(&set, "fuzz"));
  if (head.width() > 4096) return;
  const mil::Answer answer = head.Forward(Tensor<float>({3, head.width()}), {}, 0);
  Check(answer.weights.dim(1) == 3 && answer.weights.shape() == answer.scores.shape());
  Check(answer.logits.size() == static_cast<int64_t>(head.classes().size()) || answer.logits.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  SetMemoryLimit(int64_t{256} << 20);
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    if (text[0] == 'l') {
      ReadTable(text.substr(1));
    } else if (text[0] == 'c') {
      const mil::MilConfig config = mil::MilConfigFromJson(io::ParseJson(text.substr(1), "fuzz"), "fuzz");
      Check(mil::ToJson(config) == mil::ToJson(mil::MilConfigFromJson(mil::ToJson(config), "again")));
    } else {
      ReadHead(std::as_bytes(std::span(data + 1, size - 1)));
    }
  } catch (const Error&) {
  }
  return 0;
}
