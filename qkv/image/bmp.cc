#include "qkv/image/codec.h"

namespace qkv::image {

Decoded DecodeBmp(const Source& source) { Fail("{}: Bmp is not read yet", source.where); }

}  // namespace qkv::image
