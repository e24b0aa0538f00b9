"""Runs all tests of a build: each suite of GoogleTest as one process a core, all others as ctest has them.

    python3 tools/run_tests.py BUILD [-j JOBS] [-R REGEX] [-E REGEX]

A process for each of thousands of tests takes longer to start than most tests run. So a suite's tests are dealt out to
JOBS processes. A failing test is named, with what it printed; if a process ends in a test, that test has failed, and
another process runs those behind it. A test that prints nothing for 15 minutes is ended. -R: only tests whose name,
"suite.Case.Test", matches; -E: without those. With -R, suites
that are not built are left out. The last lines are those of ctest.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

LIMIT_S = 900  # of one test
START = re.compile(r"\[ RUN      \] (\S+)$")
END = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] ([^\s,]+)")
SHOWN_LINES = 200  # of what a failing test printed


class Result:
    def __init__(self, name, outcome, seconds=0.0, output=""):
        self.name, self.outcome, self.seconds, self.output = name, outcome, seconds, output


def read_tests(build):
    """Of ctest: suites (name, command, environment), and names of all other tests."""
    listing = json.loads(subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True,
                                        capture_output=True, text=True).stdout)
    suites, others = [], []
    for test in listing["tests"]:
        properties = {p["name"]: p["value"] for p in test.get("properties", [])}
        if "suite" in properties.get("LABELS", []):
            environment = dict(pair.split("=", 1) for pair in properties.get("ENVIRONMENT", []))
            suites.append((test["name"], test["command"], environment))
        else:
            others.append(test["name"])
    return suites, others


def list_tests(command):
    tests, case = [], ""
    for line in subprocess.run([*command, "--gtest_list_tests"], check=True, capture_output=True, text=True).stdout.splitlines():  # fmt: skip
        name = line.partition("#")[0].rstrip()
        if name.startswith("  "):
            tests.append(case + name.strip())
        elif name.endswith("."):
            case = name
    return [t for t in tests if not any(part.startswith("DISABLED_") for part in re.split(r"[./]", t))]


class Shard:
    """Some tests of a suite, in one process, and in others if that ends early."""

    def __init__(self, suite, command, environment, tests):
        self.suite, self.command, self.environment, self.left = suite, command, environment, list(tests)
        self.results = []

    def run(self):
        begin = time.monotonic()
        while self.left:
            before = len(self.left)
            self.run_process()
            if len(self.left) == before:  # it did not even begin a test
                self.results += [Result(f"{self.suite}.{t}", "Failed", output="the process did not start it") for t in self.left]  # fmt: skip
                self.left = []
        return self.results, time.monotonic() - begin

    def run_process(self):
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as flags:
            flags.write("--gtest_filter=" + ":".join(self.left) + "\n")
            flags.flush()
            process = subprocess.Popen([*self.command, f"--gtest_flagfile={flags.name}"], text=True, errors="replace",
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env={**os.environ, **self.environment})
            running, printed, begin = None, [], time.monotonic()
            watch = threading.Timer(LIMIT_S, process.kill)
            watch.start()
            for line in process.stdout:
                started, ended = START.search(line), END.search(line)
                # A forked process may print again what its parent had not flushed.
                if started and started[1] in self.left:
                    watch.cancel()
                    watch = threading.Timer(LIMIT_S, process.kill)
                    watch.start()
                    running, printed, begin = started[1], [], time.monotonic()
                elif ended and ended[2] == running:
                    outcome = {"OK": "Passed", "FAILED": "Failed", "SKIPPED": "Skipped"}[ended[1].strip()]
                    self.end(running, outcome, begin, printed)
                    running = None
                elif running:
                    printed.append(line)
            process.stdout.close()
            code = process.wait()
            watch.cancel()
        if running:
            took = time.monotonic() - begin
            why = f"ended after {LIMIT_S} s\n" if took >= LIMIT_S else f"the process ended with {code}\n"
            self.end(running, "Failed", begin, printed + [why])
        elif code and not any(result.outcome == "Failed" for result in self.results):
            self.results.append(Result(f"{self.suite}.end", "Failed", output=f"behind its tests it ended with {code}\n" + "".join(printed)))  # fmt: skip

    def end(self, test, outcome, begin, printed):
        self.left.remove(test)
        self.results.append(Result(f"{self.suite}.{test}", outcome, time.monotonic() - begin, "".join(printed[-SHOWN_LINES:])))  # fmt: skip


class Other:
    """A test that is none of GoogleTest, as ctest runs it."""

    def __init__(self, build, name):
        self.build, self.suite = build, name

    def run(self):
        begin = time.monotonic()
        done = subprocess.run(["ctest", "--test-dir", self.build, "-R", f"^{re.escape(self.suite)}$", "--output-on-failure",
                               "--no-tests=error"], capture_output=True, text=True, errors="replace")
        outcome = "Failed" if done.returncode else "Skipped" if "***Skipped" in done.stdout else "Passed"
        seconds = time.monotonic() - begin
        return [Result(self.suite, outcome, seconds, done.stdout[-20000:])], seconds


def plan(build, jobs, included, excluded):
    """The longest first: what ctest runs by itself builds programs; then the suites with most tests."""
    def is_wanted(name):
        return included.search(name) and not (excluded and excluded.search(name))

    suites, others = read_tests(build)
    work = [Other(build, name) for name in others if is_wanted(name)]
    shards = []
    for suite, command, environment in suites:
        if not Path(command[-1]).exists():
            if included.pattern:
                continue
            sys.exit(f"run_tests: {command[-1]} is not built")
        tests = [t for t in list_tests(command) if is_wanted(f"{suite}.{t}")]
        shards += [Shard(suite, command, environment, tests[i::jobs]) for i in range(jobs) if tests[i::jobs]]
    return work + sorted(shards, key=lambda shard: -len(shard.left))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=Path)
    parser.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    parser.add_argument("-R", "--regex", type=re.compile, default=re.compile(""), help="only tests whose name matches")
    parser.add_argument("-E", "--exclude", type=re.compile, help="not those whose name matches")
    options = parser.parse_args()
    begin, results = time.monotonic(), []
    work = plan(options.build, options.jobs, options.regex, options.exclude)
    if not work:
        sys.exit("run_tests: no test matches, or none is built")
    with ThreadPoolExecutor(options.jobs) as pool:
        for number, future in enumerate(as_completed([pool.submit(one.run) for one in work]), 1):
            done, seconds = future.result()
            failed = [r for r in done if r.outcome == "Failed"]
            results += done
            name = done[0].name if len(done) == 1 else f"{len(done)} of {done[0].name.partition('.')[0]}"
            print(f"{number:3}/{len(work)} {'***Failed' if failed else 'Passed':9} {seconds:7.1f} s  {name}", flush=True)
            for result in failed:
                print(f"\n***Failed {result.name}\n{result.output}", flush=True)
    report(results, time.monotonic() - begin)


def report(results, seconds):
    failed = [r.name for r in results if r.outcome == "Failed"]
    skipped = [r.name for r in results if r.outcome == "Skipped"]
    share = 100 * (len(results) - len(failed)) // max(1, len(results))
    print(f"\n{share}% tests passed, {len(failed)} tests failed out of {len(results)}")
    print(f"\nTotal Test time (real) = {seconds:6.2f} sec")
    for title, names in (("The following tests did not run:", skipped), ("The following tests FAILED:", failed)):
        if names:
            print(f"\n{title}")
            print("\n".join(f"\t{name} ({'Skipped' if names is skipped else 'Failed'})" for name in sorted(names)))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
