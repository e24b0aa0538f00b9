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

### Rooms

| room | what lives there | may use |
|---|---|---|
| `model/config/` | structs | - |
| `model/blocks/` | layers | `model/config/` |
| `model/` | models | `model/blocks/` |
"""


class CheckIncludes(unittest.TestCase):
    def errors(self, path, text, table=TABLE):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name in ("docs", "cli", "qkv/core"):
                (root / name).mkdir(parents=True)
            (root / "docs/architecture.md").write_text(table)
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
            return check(root)[0]

    def test_accepts_what_the_table_allows(self):
        for path, text in [
            ("qkv/io/a.cc", '#include "qkv/core/error.h"\n#include "qkv/io/a.h"\n#include <vector>\n'),
            ("qkv/model/a.h", '#include "qkv/core/error.h"\n'),  # through simd and io
            ("qkv/model/a.cc", '#include "qkv/model/config/a.h"\n#include "qkv/io/a.h"\n'),  # through blocks
            ("qkv/model/config/a.cc", '#include "qkv/model/config/a.h"\n'),
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

    def test_refuses_a_folder_or_room_without_a_row(self):
        self.assertIn("no row", self.errors("qkv/new/a.h", "")[0])
        self.assertIn("qkv/io/zip/: docs/architecture.md has no row", self.errors("qkv/io/zip/a.h", "")[0])

    def test_refuses_includes_that_a_room_may_not(self):
        self.assertIn("model/config/ may not use model/blocks/",
                      self.errors("qkv/model/config/a.h", '#include "qkv/model/blocks/a.h"\n')[0])
        self.assertIn("model/blocks/ may not use model/",
                      self.errors("qkv/model/blocks/a.h", '#include "qkv/model/a.h"\n')[0])

    def test_refuses_circles(self):
        rooms = TABLE.replace("| structs | -", "| structs | `model/`")
        self.assertIn("model/ and model/blocks/ may use each other", "\n".join(self.errors("cli/a.cc", "", rooms)))
        folders = TABLE.replace("| files | core |", "| files | model |")
        self.assertIn("io and model may use each other", "\n".join(self.errors("cli/a.cc", "", folders)))


if __name__ == "__main__":
    unittest.main()
