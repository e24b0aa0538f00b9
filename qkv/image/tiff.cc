#include "qkv/image/codec.h"

namespace qkv::image {

Decoded DecodeTiff(const Source& source) { Fail("{}: Tiff is not read yet", source.where); }

}  // namespace qkv::image
