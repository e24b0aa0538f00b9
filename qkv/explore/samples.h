// The pictures of examples/digits inside the library.
#pragma once

#include <string_view>

namespace qkv::explore {

std::string_view Digit0();
std::string_view Digit1();
std::string_view Digit2();
std::string_view Digit3();
std::string_view Digit4();
std::string_view Digit5();
std::string_view Digit6();
std::string_view Digit7();
std::string_view Digit8();
std::string_view Digit9();

}  // namespace qkv::explore
