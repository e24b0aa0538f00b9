#include "qkv/image/codec.h"

namespace qkv::image {

Decoded DecodeWebp(const Source& source) { Fail("{}: Webp is not read yet", source.where); }

}  // namespace qkv::image
