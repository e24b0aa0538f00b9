#include "qkv/model/config/text_tower.h"

#include "qkv/core/error.h"

namespace qkv::model {

std::string_view Name(Matching matching) { return matching == Matching::kSoftmax ? "softmax" : "sigmoid"; }

void Validate(const TextTower& tower, int64_t width) {
  Validate(tower.config);
  Require(tower.config.pool != TokenPool::kNone, "config: the text encoder reads no token of a text");
  Require(tower.config.outputs == width,
          "config: texts are embedded into {} features and images into {}; expected the same", tower.config.outputs,
          width);
}

}  // namespace qkv::model
