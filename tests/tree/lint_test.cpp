// SPDX-License-Identifier: Apache-2.0
//
// Feeds .clang-tidy one bad line per rule. A typo in that file disables checks without a word; here
// it fails a test.
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/subprocess.hpp"

namespace {

struct BadLine {
  std::string check;  // that must find it
  std::string code;
};

// misc-definitions-in-headers needs a header and has a case of its own. A family that .clang-tidy
// switches on by a wildcard is represented by one or two of its checks.
const std::vector<BadLine>& bad_lines() {
  static const std::vector<BadLine> kLines = {
      {"bugprone-branch-clone",
       "bool f(int a) { if (a == 1) { return true; } else { return true; } }"},
      {"bugprone-integer-division", "double f(int a) { return a / 2; }"},
      {"bugprone-macro-parentheses", "#define TWICE(x) x * 2\nint f() { return TWICE(1); }"},
      {"performance-for-range-copy",
       "struct Big { Big(); Big(const Big&); ~Big(); int a[9]; };\n"
       "struct Bigs { const Big* begin() const; const Big* end() const; };\n"
       "int f(const Bigs& bigs) { int n = 0; for (const Big big : bigs) { n += big.a[0]; } return "
       "n; }"},
      {"performance-unnecessary-value-param",
       "struct Big { Big(const Big&); ~Big(); int a[9]; };\nint f(const Big big) { return "
       "big.a[0]; }"},
      {"google-explicit-constructor", "struct S { S(int a); };"},
      {"google-build-using-namespace", "namespace a {}\nusing namespace a;"},
      {"misc-throw-by-value-catch-by-reference",
       "struct E { E(); E(const E&); ~E(); };\nvoid g();\nvoid f() { try { g(); } catch (E e) { "
       "(void)e; } }"},
      {"misc-unused-using-decls", "namespace a { struct S; }\nusing a::S;"},
      {"modernize-use-nullptr", "int* f() { return 0; }"},
      {"modernize-use-override",
       "struct A { A() = default; A(const A&) = delete; A& operator=(const A&) = delete;\n"
       "  virtual ~A() = default; virtual void f(); };\nstruct B : A { void f(); };"},
      {"cppcoreguidelines-slicing",
       "struct A { int a; void f(); };\nstruct B : A { int b; };\nvoid g(A a);\n"
       "void h(const B& b) { g(b); }"},
      {"cppcoreguidelines-special-member-functions", "struct S { ~S(); };"},
      {"cppcoreguidelines-virtual-class-destructor", "struct A { virtual void f(); ~A(); };"},
      {"readability-braces-around-statements", "int f(int a) { if (a) return 1; return 2; }"},
  };
  return kLines;
}

// What .clang-tidy says of names, each with a name that breaks it.
const std::vector<BadLine>& bad_names() {
  static const std::vector<BadLine> kNames = {
      {"class 'bad_class'", "class bad_class {};"},
      {"function 'BadFunction'", "void BadFunction();"},
      {"variable 'badVariable'", "int f() { int badVariable = 1; return badVariable; }"},
      {"parameter 'badParameter'", "int f(int badParameter) { return badParameter; }"},
      {"private member 'member'", "class S { int f() { return member; }\n int member = 0; };"},
      {"constexpr variable 'limit'", "constexpr int limit = 3;"},
  };
  return kNames;
}

bool has_clang_tidy() {
  return tenon::run_subprocess({"clang-tidy", "--version"}).exit_code == 0;
}

tenon::SubprocessResult lint(const std::filesystem::path& file) {
  const std::string config = (tenon::source_dir() / ".clang-tidy").string();
  return tenon::run_subprocess(
      {"clang-tidy", "--quiet", "--config-file=" + config, file.string(), "--", "-std=c++20"});
}

}  // namespace

TEST_CASE("each rule of .clang-tidy finds its bad line, as an error", "[tree][slow]") {
  if (!has_clang_tidy()) {
    TENON_SKIP("clang-tidy is not installed");
  }
  const tenon::ScratchFolder folder;
  for (const BadLine& bad : bad_lines()) {
    const auto result = lint(folder.write("bad.cpp", bad.code + "\n"));
    INFO(bad.code << "\n" << result.out << result.err);
    CHECK(result.exit_code != 0);
    CHECK_THAT(result.out, tenon::contains_text("[" + bad.check + ",-warnings-as-errors]"));
  }
}

TEST_CASE("a definition in a header of the tree is found", "[tree][slow]") {
  if (!has_clang_tidy()) {
    TENON_SKIP("clang-tidy is not installed");
  }
  const tenon::ScratchFolder folder;
  folder.write("host/bad.hpp", "#pragma once\nint f() { return 1; }\n");
  const auto result = lint(folder.write("host/good.cpp", "#include \"bad.hpp\"\n"));
  INFO(result.out << result.err);
  CHECK_THAT(result.out, tenon::contains_text("[misc-definitions-in-headers,-warnings-as-errors]"));
}

TEST_CASE("each rule for names finds a name that breaks it", "[tree][slow]") {
  if (!has_clang_tidy()) {
    TENON_SKIP("clang-tidy is not installed");
  }
  const tenon::ScratchFolder folder;
  for (const BadLine& bad : bad_names()) {
    const auto result = lint(folder.write("bad.cpp", bad.code + "\n"));
    INFO(bad.code << "\n" << result.out << result.err);
    CHECK_THAT(result.out, tenon::contains_text("invalid case style for " + bad.check));
  }
}

TEST_CASE("code in the house style passes", "[tree][slow]") {
  if (!has_clang_tidy()) {
    TENON_SKIP("clang-tidy is not installed");
  }
  const tenon::ScratchFolder folder;
  const auto result = lint(folder.write("good.cpp",
                                        R"(namespace tenon {
constexpr int kLimit = 3;
struct tenon_handle {
  int value;
};
class Window {
 public:
  explicit Window(int size) : size_(size) {}
  int size() const { return size_; }

 private:
  int size_ = 0;
};
int sum_logits(int logits_BC) {
  const Window window(logits_BC);
  if (window.size() > kLimit) {
    return kLimit;
  }
  return window.size();
}
}  // namespace tenon
)"));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
}
