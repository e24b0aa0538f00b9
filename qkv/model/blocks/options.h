// How the layers of any model are built, and which outputs of a pass are requested.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/model/config/vit_config.h"
#include "qkv/nn/attention.h"
#include "qkv/simd/gemm/gemm.h"

namespace qkv::model {

/// Requested outputs of a forward pass. Empty views are not computed, nor are blocks that no output needs.
template <typename T>
struct Outputs {
  /// The output of a block.
  struct Hidden {
    int64_t index;  // 0: the embedded tokens; L: after block L, counted from 1, with positions added there
    View<T> out;    // [B, N, D]
  };
  /// The attention weights of a block.
  struct Attention {
    int64_t block;                  // from 0
    nn::WeightsRequest<T> request;  // rows, and the destination of their weights
  };
  View<T> logits = {};                    // [B, C]; without a classifier the pooled vectors [B, D]
  View<T> pooled = {};                    // [B, pooled_width], input of the classifier
  View<T> tokens = {};                    // [B, N, D] after the final norm
  View<T> detection_logits = {};          // [B, T, detection_classes + 1], the last: no object
  View<T> boxes = {};                     // [B, T, 4]: centre x and y, width, height, in shares of the image
  View<T> mask_classes = {};              // logits [B, Q, mask_classes + 1] of the query tokens, the last: no object
  View<T> masks = {};                     // logits [B, Q, height, width], of mask_side of the grid's
  std::vector<Hidden> hidden = {};        // outputs of blocks
  std::vector<Attention> attention = {};  // attention weights of blocks
  nn::Probe<T>* probe = nullptr;          // sees the activations of all blocks, "embed" and "norm"; or null
};

/// Calls visit(name, shape, view) for each output of an image model's heads: the name in the original library, the
/// shape for a batch with grids of patches of this size, and the member of `outputs`, an Outputs<T>, const or not.
template <typename AnyOutputs, typename Visitor>
void VisitHeadOutputs(const VitConfig& c, int64_t images, int64_t grid_height, int64_t grid_width, AnyOutputs& outputs,
                      Visitor visit) {
  switch (c.heads()) {
    case HeadKind::kBoxes:
      visit("logits", Shape({images, c.detection_tokens, c.detection_classes + 1}), outputs.detection_logits);
      return visit("pred_boxes", Shape({images, c.detection_tokens, 4}), outputs.boxes);
    case HeadKind::kMasks:
      visit("class_queries_logits", Shape({images, c.query_tokens, c.mask_classes + 1}), outputs.mask_classes);
      return visit("masks_queries_logits",
                   Shape({images, c.query_tokens, c.mask_side(grid_height), c.mask_side(grid_width)}), outputs.masks);
    case HeadKind::kClasses:
      return visit("logits", Shape({images, c.classes}), outputs.logits);
    case HeadKind::kVector:
      return visit("pooled", Shape({images, c.outputs()}), outputs.logits);
  }
}

/// How layers are built from a checkpoint. The savings are exact up to rounding; each can be switched off to measure
/// it.
struct BuildOptions {
  simd::Precision precision = simd::Precision::kFloat32;  // of the blocks' linear layers
  bool fold_norms = true;           // gamma and beta of a LayerNorm into the following linear layer
  bool fold_scales = true;          // LayerScale into the preceding linear layer
  bool fold_key_value_bias = true;  // key biases cancel in the softmax, value biases are added to the projection's
  bool read_rows = true;            // the last block computes only the tokens that are read
  bool merge = true;                // float only: M instead of W_Q and W_K, if attention::CheapestPlan finds it cheaper
  bool absorb = true;               // attention for few rows in the order of attention::CheapestPlan

  bool operator==(const BuildOptions&) const = default;
};

/// How a block's attention is built: the kind, which may be merged although the checkpoint's is not, whether the
/// absorbed order is available, and whether queries are mostly fewer than keys, so that one product does not make both.
struct AttentionBuild {
  nn::AttentionKind kind = nn::AttentionKind::kSeparate;  // as built, may be merged
  bool absorbs = false;                                   // the absorbed order, for few rows, is available
  bool fewer_queries = false;                             // mostly fewer queries than keys
  bool rotary = false;                                    // queries and keys are rotated
  int64_t block = 0;                                      // of the model, from 0
};

}  // namespace qkv::model
