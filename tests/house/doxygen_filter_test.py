"""tools/doxygen_filter.py gives comments to what they belong to, and keeps the numbers of lines."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import doxygen_filter  # noqa: E402

HEADER = """// A box.
//
//   Box box;
#pragma once

template <>
struct fmt::formatter<Box> {
  int x;
};

namespace qkv {

/// It has sides.
struct Box {
  int64_t height = 0, width = 0;  // in pixels
  std::vector<int> sides;         // of all
  // Longer text.
  bool open = false;
  bool Empty() const {  // without area
    return height * width == 0;  // one is zero
  }
};

enum class Colour {
  kRed,  // first
};

}  // namespace qkv
"""


class DoxygenFilter(unittest.TestCase):
    def setUp(self):
        self.lines = doxygen_filter.convert_header(HEADER).split("\n")

    def line(self, text):
        return self.lines[HEADER.split("\n").index(text)]

    def test_lines_stay(self):
        self.assertEqual(len(self.lines), len(HEADER.split("\n")))

    def test_first_lines_are_the_files(self):
        self.assertEqual(self.lines[0], "/** @file */ /// A box.")
        self.assertEqual(self.lines[2], "///     Box box;")

    def test_formatters_are_left_out(self):
        self.assertEqual(self.lines[5:9], [""] * 4)

    def test_members(self):
        self.assertEqual(self.line("  std::vector<int> sides;         // of all"),
                         "  std::vector<int> sides;         ///< of all")
        self.assertEqual(self.line("  int64_t height = 0, width = 0;  // in pixels"),
                         "  int64_t height = 0; /**< in pixels */ int64_t width = 0; /**< in pixels */")
        self.assertEqual(self.line("  // Longer text."), "  /// Longer text.")
        self.assertEqual(self.line("  kRed,  // first"), "  kRed,  ///< first")

    def test_functions(self):
        self.assertEqual(self.line("  bool Empty() const {  // without area"),
                         "  /** without area */ bool Empty() const {")

    def test_ends_of_namespaces_stay(self):
        self.assertEqual(self.line("}  // namespace qkv"), "}  // namespace qkv")

    def test_links_to_files_become_text(self):
        self.assertEqual(doxygen_filter.LINK.sub(r"\1", "[a](b.md) [c](https://d)"), "a [c](https://d)")


if __name__ == "__main__":
    unittest.main()
