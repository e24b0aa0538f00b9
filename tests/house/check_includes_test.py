"""tools/check_includes.py finds what it should, in small trees made for it."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from check_includes import check  # noqa: E402

TABLE = """
| folder | what lives there | may use |
|---|---|---|
| `qkv/core/` | shapes | std |
| `qkv/simd/` | loops | core |
| `qkv/io/` | files | core |
| `qkv/model/` | models | simd, io |
| `cli/` | the program | all |
"""


class CheckIncludes(unittest.TestCase):
    def errors(self, path, text):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("docs", "cli", "qkv/core"):
                (root / name).mkdir(parents=True)
            (root / "docs/architecture.md").write_text(TABLE)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            return check(root)[0]

    def test_accepts_what_the_table_allows(self):
        for path, text in [
            ("qkv/io/a.cc", '#include "qkv/core/error.h"\n#include "qkv/io/a.h"\n#include <vector>\n'),
            ("qkv/model/a.h", '#include "qkv/core/error.h"\n'),  # through simd and io
            ("cli/a.cc", '#include "qkv/model/a.h"\n#include "qkv/io/a.h"\n#include "cli/b.h"\n'),
            ("qkv/simd/a.cc", '#include "hwy/foreach_target.h"\n#include HWY_TARGET_INCLUDE\n'),
        ]:
            self.assertEqual(self.errors(path, text), [], path)

    def test_refuses_upward_and_sibling_includes(self):
        self.assertIn("core may not use io", self.errors("qkv/core/a.h", '#pragma once\n#include "qkv/io/a.h"\n')[0])
        self.assertIn("a.h:2", self.errors("qkv/core/a.h", '#pragma once\n#include "qkv/io/a.h"\n')[0])
        self.assertIn("io may not use simd", self.errors("qkv/io/a.cc", '  #  include "qkv/simd/a.h"\n')[0])
        self.assertIn("io may not use cli", self.errors("qkv/io/a.cc", '#include "cli/a.h"\n')[0])
        self.assertIn("io may not use tests", self.errors("qkv/io/a.cc", '#include "tests/a.h"\n')[0])

    def test_refuses_other_spellings(self):
        self.assertIn("may not use", self.errors("qkv/core/a.h", "#include <qkv/io/a.h>\n")[0])
        self.assertIn("write", self.errors("qkv/io/a.cc", "#include <qkv/core/a.h>\n")[0])
        self.assertIn("full name", self.errors("qkv/io/a.cc", '#include "a.h"\n')[0])

    def test_refuses_a_folder_without_a_row(self):
        self.assertIn("no row", self.errors("qkv/new/a.h", "")[0])


if __name__ == "__main__":
    unittest.main()
