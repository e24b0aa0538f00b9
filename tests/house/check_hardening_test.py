"""tools/check_hardening.py finds each thing that is missing, in what readelf prints."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from check_hardening import check  # noqa: E402

HEADERS = "  Type:                              DYN (Position-Independent Executable file)\n"
SEGMENTS = """
  LOAD           0x01c000 0x000000000001c000 0x000000000001c000 0x875055 0x875055 R E 0x1000
  LOAD           0xb7c980 0x0000000000b7d980 0x0000000000b7d980 0x00d488 0x027e40 RW  0x1000
  GNU_STACK      0x000000 0x0000000000000000 0x0000000000000000 0x000000 0x000000 RW  0x10
  GNU_RELRO      0xb7c980 0x0000000000b7d980 0x0000000000b7d980 0x00a680 0x00a680 R   0x1
"""
DYNAMIC = """
 0x000000000000001d (RUNPATH)            Library runpath: [/opt/lib:/usr/lib]
 0x000000000000001e (FLAGS)              BIND_NOW
 0x000000006ffffffb (FLAGS_1)            Flags: NOW PIE
"""
SYMBOLS = """
     9: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __stack_chk_fail@GLIBC_2.4 (5)
    10: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND __read_chk@GLIBC_2.4 (5)
"""


class CheckHardening(unittest.TestCase):
    def errors(self, old="", new="", program=True):
        return check(*(part.replace(old, new) for part in (HEADERS, SEGMENTS, DYNAMIC, SYMBOLS)), program)

    def test_accepts_what_has_all(self):
        self.assertEqual(self.errors(), [])
        self.assertEqual(self.errors(" PIE\n", "\n", program=False), [])

    def test_finds_what_is_missing(self):
        for old, new, part in [
            ("DYN", "EXEC", "position-independent code"),
            (" PIE\n", "\n", "-pie"),
            ("NOW", "", "BIND_NOW"),
            ("GNU_RELRO", "NOTE", "GNU_RELRO"),
            ("RW  0x10\n", "RWE 0x10\n", "noexecstack"),
            ("RW  0x1000", "RWE 0x1000", "both writable and executable"),
            ("(FLAGS)", "(TEXTREL)\n (FLAGS)", "TEXTREL"),
            ("/usr/lib", "", "RUNPATH /opt/lib:"),
            ("/opt/lib", "lib", "RUNPATH lib:"),
            ("__stack_chk_fail", "abort", "stack protector"),
            ("__read_chk", "read", "_FORTIFY_SOURCE"),
        ]:
            errors = self.errors(old, new)
            self.assertEqual(len(errors), 1, (old, errors))
            self.assertIn(part, errors[0])


if __name__ == "__main__":
    unittest.main()
