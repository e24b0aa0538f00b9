// The page of `qkv attend -o out.html`: a photo on which each patch shows where it looks (web/explorer).
#pragma once

#include <string>

#include "qkv/app/attend.h"

namespace qkv::app {

/// One self-contained HTML file. maps: of every query, [layers, heads, N, N]. A weight is stored as a byte: the square
/// root of its share of the row's greatest.
std::string ExplorerPage(const AttentionMaps& maps);

/// The colour map of the pages' scripts: 256 colours of six hexadecimal digits.
std::string PageColours();

}  // namespace qkv::app
