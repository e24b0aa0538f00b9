// The tensors of each kind of model in the Open Inference Protocol, and their computation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "qkv/server/context.h"
#include "qkv/server/infer_message.h"

namespace qkv::server {

struct TensorSpec {
  std::string name, datatype;
  std::vector<int64_t> shape;  // -1: any number
};

/// A request gives one of the inputs, or for a model with two towers images and texts.
struct ModelTensors {
  std::vector<TensorSpec> inputs, outputs;
};

/// Described by the model's files alone.
ModelTensors DescribeTensors(const ModelFacts& facts);

/// The requested outputs, in the request's order. Throws HttpError 400 for tensors that the model does not have.
InferAnswer Infer(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                  const InferRequest& request);

}  // namespace qkv::server
