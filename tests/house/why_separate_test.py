"""bench/why_separate.py finds numbers that no longer come out, in sentences and in tables, and forgives a last digit."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
import why_separate

PAGE = "The median fell\nfrom +0.68 to +0.18, and 20,000 images (82.36 %)\nkept their class.\n"


class Check(unittest.TestCase):
    def test_a_sentence_may_run_over_lines(self):
        self.assertTrue(why_separate.says(PAGE, "The median fell from +0.68 to +0.18"))

    def test_the_last_digit_may_differ_by_one(self):
        self.assertTrue(why_separate.says(PAGE, "20,000 images (82.37 %)"))
        self.assertFalse(why_separate.says(PAGE, "20,000 images (82.38 %)"))
        self.assertFalse(why_separate.says(PAGE, "from +0.68 to +0.2"))

    def test_words_and_signs_must_be_equal(self):
        self.assertFalse(why_separate.says(PAGE, "from −0.68 to +0.18"))
        self.assertFalse(why_separate.says(PAGE, "20,000 images (82.36 %) lost"))

    def test_tables(self):
        self.assertTrue(why_separate.same("| a | 0.41 | 1,000 |", "| a | 0.42 | 1,000 |"))
        self.assertFalse(why_separate.same("| a | 0.41 | 1,000 |", "| a | 0.43 | 1,000 |"))
        self.assertFalse(why_separate.same("| a | 0.41 |", "| b | 0.41 |"))
        self.assertFalse(why_separate.same("| a | 0.41 |", "| a | 0.41 | 1 |"))

    def test_a_part_is_replaced_between_its_lines(self):
        page = f"before\n{why_separate.BEGIN.format('rank')}\n\nold\n\n{why_separate.END}\nafter\n"
        new = why_separate.replace_part(page, "rank", "new")
        self.assertEqual(why_separate.part_of(new, "rank"), "new")
        self.assertTrue(new.startswith("before\n") and new.endswith("\nafter\n"))
        self.assertRaises(SystemExit, why_separate.replace_part, page, "ring", "new")


if __name__ == "__main__":
    unittest.main()
