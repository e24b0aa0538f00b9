#include "qkv/image/codec.h"

namespace qkv::image {

Decoded DecodePnm(const Source& source) { Fail("{}: Pnm is not read yet", source.where); }

}  // namespace qkv::image
