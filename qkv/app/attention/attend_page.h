// The page of `qkv attend -o out.html`: a photo on which each patch shows where it looks (web/app/src/attend).
#pragma once

#include <string>

#include "qkv/app/attention/attend.h"

namespace qkv::app {

/// Whether this program has the page: it is built by Node.js.
bool HasAttendPage();

/// Throws Error, which says what to do, without the page.
void RequireAttendPage();

/// One self-contained HTML file. maps: of every query, [layers, heads, N, N], or of one, [layers, heads, 1, N], which
/// comes with a larger photo to zoom into. A weight is stored as a byte: the square root of its share of the row's
/// greatest. Throws as RequireAttendPage.
std::string AttendPage(const AttentionMaps& maps);

}  // namespace qkv::app
