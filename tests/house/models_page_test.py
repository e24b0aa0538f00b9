"""tools/models_page.py finds families and architectures that the page does not name, and orders by downloads."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import models_page  # noqa: E402

FAMILIES = [["vit-pytorch", "", "images", "all"], ["ViT", "vit, deit", "images", "most"], ["BERT", "bert", "texts", "it"],
            ["EoMT", "eomt", "images", "masks"]]
DOWNLOADS = [["bert", "5000000", "a/b"], ["vit", "90000", "c/d"], ["opt", "7", "e/f"]]
REGISTRY = '#ifdef QKV_TIMM_KNOWN\n{"vit_a", R"j({})j"},\n{"vit_b", R"j({})j"},\n#endif\n{"vit_old", "vit_a"},\n'


def page(text):
    return f"before\n{models_page.BEGIN.format(models_page.TIMM)}\n{text}\n{models_page.END.format(models_page.TIMM)}\n"


class ModelsPage(unittest.TestCase):
    def test_types(self):
        types = {"vit", "deit", "bert", "eomt"}
        twice = [*FAMILIES, ["x", "vit", "", ""]]
        self.assertEqual(models_page.check_types(FAMILIES, types), [])
        self.assertIn("no row has the model_type clip", models_page.check_types(FAMILIES, types | {"clip"})[0])
        self.assertIn("reads no model_type deit", models_page.check_types(FAMILIES, types - {"deit"})[0])
        self.assertIn("vit is in several", models_page.check_types(twice, types)[0])

    def test_architectures(self):
        self.assertEqual(models_page.check_architectures(page("`vit_a`, `vit_b`\n### Refused\n`vit_c`"), REGISTRY), [])
        self.assertIn("no vit_b;", models_page.check_architectures(page("`vit_a`\n### Refused\n`vit_b`"), REGISTRY)[0])
        self.assertIn("no names", models_page.check_architectures(page("`vit_a`"), "")[0])

    def test_order(self):
        written = models_page.tables(FAMILIES, DOWNLOADS)
        places = [written.index(name) for name in ("vit-pytorch", "| BERT", "| ViT", "| EoMT", "`opt`")]
        self.assertEqual(places, sorted(places))
        self.assertIn("| 5.0 M | a/b |", written)
        self.assertIn("| 90 k | c/d |", written)

    def test_parts(self):
        replaced = models_page.replace_part(page("old"), models_page.TIMM, "new")
        self.assertEqual(models_page.part_of(replaced, models_page.TIMM), "new")
        self.assertTrue(replaced.startswith("before\n"))
        self.assertRaises(SystemExit, models_page.part_of, "no marks", models_page.TIMM)


if __name__ == "__main__":
    unittest.main()
