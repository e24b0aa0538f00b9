#include "qkv/image/codec.h"

namespace qkv::image {

Decoded DecodeGif(const Source& source) { Fail("{}: Gif is not read yet", source.where); }

}  // namespace qkv::image
