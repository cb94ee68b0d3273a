#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds what house.py counts against small sources that were counted by hand."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import journeys  # noqa: E402
import wiring  # noqa: E402
from cpp_text import count_class  # noqa: E402

CLASSES = """
enum class Kind { kOne, kTwo };
template <class T>
class Outer final : public Base<T> {
 public:
  explicit Outer(int size) : size_(size) {}
  Outer(const Outer&) = delete;
  int size() const { return size_; }  // struct Commented { int x; };
  std::function<void(int)> call;
  struct Inner {
    std::string text = "class Quoted { int y; }";
    std::vector<int> values{1, 2};
    int first = 0;
  };

 private:
  int size_;
};
struct Empty {};
"""

TREE = {
    "host/cli/main.cpp": """#include "host/train/loop.hpp"
int main() {
  helper();
  Loop loop(1);
  loop.go();
}
""",
    "host/train/loop.hpp": "struct Loop;",
    "host/train/loop.cpp": """#include "host/train/loop.hpp"
#include "host/train/end.hpp"
#include "host/error/error.hpp"
void Loop::go() {
  fail();
  reach();
}
""",
    "host/train/end.hpp": "void reach();",
    "host/train/end.cpp": """#include "host/train/end.hpp"
#include "host/train/beside.hpp"
void reach() {
  beside();
}
""",
    "host/train/beside.hpp": "#include \"host/train/far.hpp\"",
    "host/train/beside.cpp": """#include "host/train/beside.hpp"
void beside() {
  far_away();
}
""",
    "host/train/far.hpp": "void far_away();",
    "host/train/far.cpp": """void far_away() {
  return;
}
""",
    "host/error/error.hpp": "void fail();",
    "host/error/error.cpp": """void fail() {
  throw 1;
}
""",
}


class Counters(unittest.TestCase):
    def test_classes_count_what_they_declare_themselves(self):
        sizes = {name: count_class(body) for name, body in wiring.classes_in(CLASSES)}
        self.assertEqual(sizes, {"Outer": (2, 2), "Outer::Inner": (0, 3), "Empty": (0, 0)})

    def test_a_class_over_the_limits_is_a_problem_unless_it_is_listed(self):
        sizes = {name: (0, 100) for name in wiring.LARGE_CLASSES}
        self.assertEqual(wiring.class_problems(sizes), [])
        self.assertEqual(len(wiring.class_problems({**sizes, "a.hpp Many": (41, 0), "a.hpp Few": (40, 20)})), 1)
        one = next(iter(sizes))
        self.assertEqual(wiring.class_problems({**sizes, one: (1, 1)}), [f"{one}: listed in LARGE_CLASSES, and is not large"])

    def test_copies_have_the_name_of_their_field(self):
        copied = "{.a = a, .b = parts.b, .c = c_, .d = *of->d(), .e = std::move(e)}"
        self.assertEqual(wiring.copied_fields(copied), 5)
        self.assertEqual(wiring.copied_fields("{.a = b, .c = parts.cd, .e = 1, .f = f + 1}"), 0)

    def test_a_journey_visits_its_functions_and_what_they_call(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in TREE.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            tree = journeys.Tree(root)
            way, files = tree.visited(tree.places(["main", "reach"]))
        self.assertEqual([name for _, name in way], ["main", "Loop::go", "reach"])
        # Not far.cpp, which a function beside the way calls, and not error.cpp, which is vocabulary.
        self.assertEqual(files, {"host/cli/main.cpp", "host/train/loop.hpp", "host/train/loop.cpp", "host/train/end.hpp",
                                 "host/train/end.cpp", "host/train/beside.hpp", "host/train/beside.cpp"})


if __name__ == "__main__":
    unittest.main()
