#include "qkv/lab/merge.h"

#include <algorithm>

#include "qkv/attention/plan.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/pairs.h"
#include "qkv/report/text.h"

namespace qkv::lab {
namespace {

// Whether merging made the model larger or slower. c: at the size that is computed.
void NoteCosts(const model::VitConfig& c, Written* written) {
  const Size &before = written->before, &after = written->after;
  // M replaces two matrices D x E if queries and keys have weights of their own, otherwise one.
  const nn::AttentionConfig& attention = c.block.attention;
  const bool two = attention.kind == nn::AttentionKind::kSeparate || attention.kind == nn::AttentionKind::kLowRank;
  const int64_t D = c.block.width, E = attention.query_width();
  const bool larger = after.parameters > before.parameters;
  if (larger) {
    written->notes.push_back(fmt::format(
        "merging does not pay here: a head now stores D x D = {} numbers in place of {}D x E = {}. It saves memory "
        "only where heads are wider than {}; here E = {}, D = {}",
        report::WithCommas(D * D), two ? "2 x " : "", report::WithCommas((two ? 2 : 1) * D * E),
        two ? "half the model (E > D/2)" : "the model (E > D)", E, D));
  }
  if (after.multiply_adds > before.multiply_adds) {
    const auto N = static_cast<double>(c.tokens()), width = static_cast<double>(D);
    written->notes.push_back(fmt::format(
        "{}: an image of {} tokens now takes {:.4g} G multiply-adds in place of {:.4g} G. Merging saves some only "
        "above E = {:.0f}{}",
        larger ? "it is slower too" : "merging makes it slower here", c.tokens(), after.multiply_adds / 1e9,
        before.multiply_adds / 1e9, two ? width * attention::MergingPaysAbove(N, width) : width,
        two ? " (E/D > (D + N)/(2D + N))" : " (E > D)"));
  }
}

void NoteRounding(Written* written) {
  if (written->dtype != DType::kF16 && written->dtype != DType::kBF16) return;
  written->notes.push_back(
      fmt::format("M is exact in double precision and was rounded to {}, which changes logits by some {} of their "
                  "size; stored in fp32 it keeps them",
                  written->dtype == DType::kF16 ? "fp16" : "bf16", written->dtype == DType::kF16 ? "0.05 %" : "0.4 %"));
}

}  // namespace

Written Merge(const model::Checkpoint& checkpoint, const std::filesystem::path& folder, const WriteOptions& options) {
  RequireLinearScores(checkpoint, "merge");
  model::VitConfig target = checkpoint.description.config;
  Require(target.block.attention.kind != nn::AttentionKind::kMerged, "merge: {} is merged already", checkpoint.source);
  target.block.attention.kind = nn::AttentionKind::kMerged;
  target.block.attention.qk_width = 0;
  const int64_t H = target.block.attention.heads, D = target.block.width;
  const auto make = [&](int64_t block) {
    const auto layer = inspect::ReadAttention(checkpoint, block);
    auto matrices = Tensor<double>::Uninitialised({H, D, D});
    Tensor<double> key_terms({H, D});
    ParallelFor(H, 1, [&](int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head) {
        const algebra::QueryKeyView pair{algebra::Head(layer.query, head, H), algebra::Head(layer.key, head, H)};
        const algebra::Merged merged = algebra::Merge(pair, algebra::Terms::kSoftmax);
        std::ranges::copy(merged.matrix.span(), matrices.data() + head * D * D);
        if (!merged.key_term.empty()) std::ranges::copy(merged.key_term.span(), key_terms.data() + head * D);
      }
    });
    AttentionTensors tensors;
    tensors.emplace("qk.merged", std::move(matrices));
    tensors.emplace("qk.key_term", std::move(key_terms));
    AddValues(layer, &tensors);
    return tensors;
  };
  Written written = WriteRewritten(checkpoint, target, make, folder, options);
  NoteCosts(model::InputConfig(checkpoint.description), &written);
  NoteRounding(&written);
  return written;
}

}  // namespace qkv::lab
