// Nothing is flushed to disk in this program: the tens of thousands of files that it writes are gone a moment later,
// and no test here is about power cuts (tests/train/run/run_folder_test.cc).
#include <unistd.h>

extern "C" int fsync(int) { return 0; }
