// All of qkv for a C++ program: Vision Transformers (classes, vectors, attention maps), sequence models, and attention
// itself. docs/cpp.md is a guide with complete programs.
//
//   #include <qkv/qkv.h>
//
//   const auto model = qkv::model::Model::Load("vit-base");             // a checkpoint's folder
//   const auto best = model.Classify("photo.jpg", 5);                   // index, label and score of 5 classes
//   const auto vector = model.Embed("photo.jpg");                       // [D]
//   const auto photo = qkv::image::DecodeFile("photo.jpg");             // pixels [height, width, channels]
//   const auto maps = model.Attention(photo, {.block = -1});            // [heads, grid height, grid width]
//   const auto rollout = qkv::inspect::AttentionRollout(model, photo);  // [grid height, grid width]
//
// All errors are qkv::Error, whose what() says what was expected and what to do. The library never prints. Training is
// the program's (`qkv train`); its result is a folder that Model::Load or SequenceModel::Load takes.
#pragma once

#include "qkv/attention/attention.h"
#include "qkv/builtin/digits_model.h"
#include "qkv/core/arena.h"
#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/tensor.h"
#include "qkv/image/draw.h"
#include "qkv/image/encode.h"
#include "qkv/image/find.h"
#include "qkv/image/image.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/resize.h"
#include "qkv/inspect/maps.h"
#include "qkv/inspect/rollout.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/sampling.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/model/sequence/text_model.h"
#include "qkv/model/two_tower.h"
#include "qkv/model/vision/vit.h"
#include "qkv/model/vision/vit_cache.h"
