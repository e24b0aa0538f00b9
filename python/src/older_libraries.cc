// For a wheel (cmake/Wheel.cmake) on systems with glibc 2.34 and libstdc++ 11: what the compiler's own are asked for
// under a newer version than that is asked for under the older one, by the linker's --wrap.
#include <cstdio>
#include <cstdlib>

extern "C" {

// std::condition_variable::wait, of which 3.4.30 only adds that it does not throw.
__asm__(".symver qkv_older_wait,_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE@GLIBCXX_3.4.11");
void qkv_older_wait(void* condition, void* lock);
void __wrap__ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE(void* condition, void* lock) {
  qkv_older_wait(condition, lock);
}

// The newer one does not set errno where the result is too large.
__asm__(".symver qkv_older_hypot,hypot@GLIBC_2.2.5");
double qkv_older_hypot(double x, double y);
double __wrap_hypot(double x, double y) { return qkv_older_hypot(x, y); }

// std::__glibcxx_assert_fail, which older ones lack.
[[noreturn]] void __wrap__ZSt21__glibcxx_assert_failPKciS0_S0_(const char* file, int line, const char* function,
                                                               const char* condition) {
  std::fprintf(stderr, "%s:%d: %s: assertion '%s' failed\n", file, line, function, condition);
  std::abort();
}

}  // extern "C"
