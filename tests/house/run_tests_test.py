"""tools/run_tests.py names tests that fail and tests that end their process, and runs those behind them."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from run_tests import Shard, list_tests  # noqa: E402

# Speaks as GoogleTest does.
PROGRAM = """
import os, sys
TESTS = {"A.Passes": 0, "A.Fails": 1, "A.Crashes": 2, "B/0.IsSkipped": 3, "B/0.Last": 0}
if "--gtest_list_tests" in sys.argv:
    print("Running main()\\nA.\\n  Passes\\n  Fails\\n  Crashes\\n  DISABLED_Never\\nB/0.  # TypeParam = int\\n  IsSkipped\\n  Last")
    sys.exit()
flags = open(sys.argv[1].removeprefix("--gtest_flagfile=")).read()
for name in flags.strip().removeprefix("--gtest_filter=").split(":"):
    # Without an end of its line; and what a forked process prints again.
    print(f"[ RUN      ] {name}\\nsays {name}\\n[ RUN      ] A.Passes\\nsays {name}", end="", flush=True)
    if TESTS[name] == 2:
        os.abort()
    print(["[       OK ]", "[  FAILED  ]", "", "[  SKIPPED ]"][TESTS[name]], name + (", where x = 1" if TESTS[name] == 1 else ""), "(0 ms)", flush=True)
print("[  PASSED  ] some tests.")
"""


class RunTests(unittest.TestCase):
    def test_every_test_has_an_outcome(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "suite.py"
            program.write_text(PROGRAM)
            command = [sys.executable, str(program)]
            tests = list_tests(command)
            self.assertEqual(tests, ["A.Passes", "A.Fails", "A.Crashes", "B/0.IsSkipped", "B/0.Last"])
            results, _ = Shard("suite", command, {}, tests).run()
        self.assertEqual({r.name: r.outcome for r in results},
                         {"suite.A.Passes": "Passed", "suite.A.Fails": "Failed", "suite.A.Crashes": "Failed",
                          "suite.B/0.IsSkipped": "Skipped", "suite.B/0.Last": "Passed"})
        crashed = next(r for r in results if r.name == "suite.A.Crashes")
        self.assertIn("says A.Crashes", crashed.output)
        self.assertIn("the process ended with -6", crashed.output)

    def test_a_program_that_does_not_start_fails_all_its_tests(self):
        results, _ = Shard("suite", [sys.executable, "-c", "pass"], {}, ["A.B", "A.C"]).run()
        self.assertEqual([r.outcome for r in results], ["Failed", "Failed"])

    def test_a_program_that_fails_behind_its_tests_has_failed(self):
        says = "print('[ RUN      ] A.B\\n[       OK ] A.B (0 ms)'); exit(3)"
        results, _ = Shard("suite", [sys.executable, "-c", says], {}, ["A.B"]).run()
        self.assertEqual([(r.name, r.outcome) for r in results], [("suite.A.B", "Passed"), ("suite.end", "Failed")])


if __name__ == "__main__":
    unittest.main()
