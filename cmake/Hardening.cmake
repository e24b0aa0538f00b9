# What makes a fault in the program end it instead of being of use to an attacker. `house.hardening` looks for all of it
# in the built program.
include(CheckPIESupported)
check_pie_supported()
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

# All functions are bound when the program starts, and their table is read-only from then on; no stack is executable.
add_link_options(-Wl,-z,relro,-z,now,-z,noexecstack)
add_compile_options(-fstack-protector-strong -fstack-clash-protection)

# An index out of bounds of a vector or span ends the program. In qkv/simd too, whose loops run on raw pointers.
add_compile_definitions(_GLIBCXX_ASSERTIONS)

# The C library's checked functions; they need optimisation, and sanitizers check the same calls themselves.
if(NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  add_compile_options("$<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=3>")
endif()
