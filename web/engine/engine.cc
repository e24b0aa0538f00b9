// What qkv.wasm exports: a call's name and packet in, a packet out (docs/web.md). One thread calls at a time.
#include <emscripten.h>

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "web/engine/answer.h"

namespace {

std::string answer;  // NOLINT: it belongs to the module until the next call

}  // namespace

extern "C" {

/// The length of the answer, which qkv_answer gives. `name` ends with a zero.
EMSCRIPTEN_KEEPALIVE int32_t qkv_call(const char* name, const uint8_t* request, int32_t bytes) {
  answer.clear();
  answer.shrink_to_fit();
  try {
    answer = qkv::web::Answer(name, {reinterpret_cast<const std::byte*>(request), static_cast<size_t>(bytes)});
  } catch (const std::bad_alloc&) {
    answer = qkv::web::ErrorAnswer("the browser gives no more memory; use a smaller model or picture");
  } catch (const std::exception& error) {
    answer = qkv::web::ErrorAnswer(error.what());
  }
  return static_cast<int32_t>(answer.size());
}

EMSCRIPTEN_KEEPALIVE const uint8_t* qkv_answer() { return reinterpret_cast<const uint8_t*>(answer.data()); }
}
