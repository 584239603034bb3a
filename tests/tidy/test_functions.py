# SPDX-License-Identifier: Apache-2.0
import unittest

from functions import bash_functions, cpp_functions, python_functions
from source_text import without_literals


def names(text):
    return [function.name for function in cpp_functions(text)]


def lengths(text):
    return {function.name: function.lines for function in cpp_functions(text)}


class CppFunctions(unittest.TestCase):
    def test_counts_from_signature_to_closing_brace(self):
        text = "namespace a {\n\n// Words.\nint f(int x,\n      int y) {\n  return x;\n}\n}  // namespace a\n"
        self.assertEqual([("f", 4, 4)], [(f.name, f.first_line, f.lines) for f in cpp_functions(text)])

    def test_braces_in_literals_and_comments_count_for_nothing(self):
        text = '''void f() {
  char c = '{'; const char* s = "} \\" {"; // {
  auto r = R"x({{{ ")" )x"; /* { */
  long n = 1'000'000; char d = '\\'';
}
void g() {
}
'''
        self.assertEqual({"f": 5, "g": 2}, lengths(text))

    def test_constructors_with_braced_initializers(self):
        text = "A::A(int x)\n    : a_{x}, b_(x),\n      c_{{1, 2}} {\n  go();\n}\nvoid next() {}\n"
        self.assertEqual({"A::A": 5, "next": 1}, lengths(text))

    def test_default_arguments_in_braces(self):
        self.assertEqual({"f": 3}, lengths("void f(Options o = {}, std::vector<int> v = {1, 2})\n{\n}\n"))

    def test_members_are_found_inside_types(self):
        text = ("template <typename T>\nclass [[nodiscard]] A final : public B<decltype(T())> {\n public:\n"
                "  explicit A(int x) : x_(x) {}\n  int get() const noexcept override {\n    return x_;\n  }\n"
                " private:\n  int x_{0};\n  Foo foo_ = {};\n};\nstruct alignas(64) C {\n  void h() {\n  }\n};\n")
        self.assertEqual({"A": 1, "get": 3, "h": 2}, lengths(text))

    def test_types_and_tables_are_no_functions(self):
        text = ("enum class E : uint8_t {\n  a, b\n};\nstruct S {\n  int a;\n};\nconst int table[] = {\n 1,\n 2\n};\n"
                "constexpr std::array<int, size(3)> other{\n1, 2\n};\nextern \"C\" {\nint f();\n}\n"
                "const struct ops x = { .cb = (callback)y,\n};\n")
        self.assertEqual([], names(text))

    def test_trailing_return_types_requires_and_lambdas(self):
        text = ("auto f() -> Result<int> {\n}\ntemplate <class T> requires(sizeof(T) > 4)\nint g(T t) {\n  return 1;\n}\n"
                "auto l = [](int x) {\n  return x;\n};\nbool operator()(int a) const {\n}\n"
                "int h(int x) requires std::integral<int> {\n  return x;\n}\n")
        self.assertEqual([2, 4, 3, 2, 3], [f.lines for f in cpp_functions(text)])

    def test_tests_are_functions(self):
        self.assertEqual({"TEST": 4}, lengths("TEST(Suite, Says) {\n  if (x) {\n  }\n}\n"))

    def test_c_functions_that_return_structs(self):
        self.assertEqual({"find": 3}, lengths("static struct page *find(void)\n{\n}\n"))

    def test_branches_of_the_preprocessor_with_unequal_braces(self):
        text = "#if A\nvoid f(int x) {\n#else\nvoid f(long x) {\n#endif\n  go();\n}\nvoid g() {\n}\n#define X \\\n  {\n"
        self.assertEqual({"f": 6, "g": 2}, lengths(text))

    def test_a_long_one_is_seen_in_full(self):
        text = "void f() {\n" + "  { g(); }\n" * 98 + "}\n"
        self.assertEqual({"f": 100}, lengths(text))


class OtherFunctions(unittest.TestCase):
    def test_python(self):
        text = "class A:\n    def f(self):\n        def g():\n            return '}'\n        return g\n"
        self.assertEqual({("f", 4), ("g", 2)}, {(f.name, f.lines) for f in python_functions(text)})

    def test_bash(self):
        text = "f() {\n  if true; then\n    { echo; }\n  fi\n}\nfunction g () {\n  echo\n}\necho done\n"
        self.assertEqual([("f", 1, 5), ("g", 6, 3)], [(f.name, f.first_line, f.lines) for f in bash_functions(text)])


class Literals(unittest.TestCase):
    def test_lines_stay_where_they_are(self):
        text = 'a /* x\ny */ b\n"c" R"(\n\n)" d // e\nf'
        self.assertEqual(text.count("\n"), without_literals(text).count("\n"))
        self.assertEqual("f", without_literals(text).split("\n")[-1])

    def test_names_of_includes_stay(self):
        self.assertIn('"a/b.hpp"', without_literals('int x;\n#include "a/b.hpp"\nconst char* y = "z";\n'))
        self.assertNotIn("z", without_literals('#include "a/b.hpp"\nconst char* y = "z";\n'))


if __name__ == "__main__":
    unittest.main()
