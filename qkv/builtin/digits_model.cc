#include "qkv/builtin/digits_model.h"

#include "qkv/builtin/digits.h"

namespace qkv::builtin {

model::Model DigitsModel(const model::BuildOptions& options) {
  return model::Model(model::Checkpoint::FromBytes(DigitsConfig(), DigitsWeights(), "built-in digits"), options);
}

}  // namespace qkv::builtin
