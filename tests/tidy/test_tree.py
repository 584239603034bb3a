# SPDX-License-Identifier: Apache-2.0
"""Writes small trees that break one rule each, and one that breaks none."""

import tempfile
import unittest
from pathlib import Path

from check import check_tree

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"
SCRIPT_LICENCE = "# SPDX-License-Identifier: Apache-2.0\n"


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("dataplane/base/result.hpp", LICENCE + "#include <tl/expected.hpp>\n")
        self.write("dataplane/base/DESIGN.md", "base\n")

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")
        module = "/".join(path.split("/")[:2])
        if path.startswith(("dataplane/", "service/")) and path.count("/") > 1:
            (self.root / module / "DESIGN.md").write_text("words\n", encoding="utf-8")

    def problems(self):
        return [str(problem) for problem in check_tree(self.root)[1]]

    def assert_clean(self):
        self.assertEqual([], self.problems())

    def assert_caught(self, *parts):
        problems = self.problems()
        self.assertEqual(1, len(problems), problems)
        for part in parts:
            self.assertIn(part, problems[0])

    def cpp(self, path, code):
        self.write(path, LICENCE + code)


class Includes(Tree):
    def test_what_the_table_allows_is_clean(self):
        self.cpp("dataplane/core/a.hpp", '#include <vector>\n#include "dataplane/base/result.hpp"\n')
        self.cpp("dataplane/io/b.cpp", '#include <liburing.h>\n#include "dataplane/core/a.hpp"\n')
        self.cpp("service/main.cpp", '#include <systemd/sd-daemon.h>\n#include "dataplane/io/b.cpp"\n')
        self.assert_clean()

    def test_a_layer_that_looks_up_is_caught(self):
        self.cpp("dataplane/io/b.hpp", "\n")
        self.cpp("dataplane/core/a.hpp", '\n#include "dataplane/io/b.hpp"\n')
        self.assert_caught("dataplane/core/a.hpp:3", "dataplane/core may not include", "dataplane/io/b.hpp")

    def test_nobody_includes_exporters(self):
        self.write("exporters/DESIGN.md", "words\n")
        self.cpp("exporters/catalog.hpp", "\n")
        self.cpp("service/control/a.hpp", '#include "exporters/catalog.hpp"\n')
        self.assert_caught("service/control may not include")

    def test_exporters_see_only_the_counters_of_others(self):
        self.write("exporters/DESIGN.md", "words\n")
        self.cpp("dataplane/pager/stats.hpp", "\n")
        self.cpp("dataplane/pager/pager.hpp", "\n")
        self.cpp("exporters/a.cpp", '#include "dataplane/pager/stats.hpp"\n#include "dataplane/pager/pager.hpp"\n')
        self.assert_caught("exporters/a.cpp:3")

    def test_foreign_headers_stay_in_their_folder(self):
        for number, header in enumerate(("liburing.h", "tl/expected.hpp", "sys/mman.h", "simdjson.h",
                                         "toml++/toml.h", "boost/asio/io_context.hpp", "CLI/CLI.hpp",
                                         "prometheus/counter.h", "bpf/libbpf.h", "systemd/sd-daemon.h", "dlfcn.h",
                                         "gtest/gtest.h", "iostream", "format")):
            with self.subTest(header):
                self.cpp("service/protocol/a.hpp", f"#include <{header}>\n")
                self.assert_caught("service/protocol/a.hpp:2", header)

    def test_pure_code_has_no_threads_and_no_system_calls(self):
        for header in ("thread", "mutex", "unistd.h", "sys/stat.h"):
            with self.subTest(header):
                self.cpp("dataplane/core/a.hpp", f"#include <{header}>\n")
                self.assert_caught("pure")

    def test_an_include_that_does_not_start_at_the_root_is_caught(self):
        self.cpp("dataplane/core/b.hpp", "\n")
        self.cpp("dataplane/core/a.hpp", '#include "b.hpp"\n')
        self.assert_caught('"b.hpp" is no file of the tree')

    def test_tests_may_include_what_they_test(self):
        self.cpp("dataplane/io/b.hpp", "\n")
        self.cpp("tests/unit/core/a.cpp", '#include <gtest/gtest.h>\n#include <sys/mman.h>\n#include "dataplane/io/b.hpp"\n')
        self.assert_clean()


class Sizes(Tree):
    def test_a_file_of_400_lines_passes_and_one_more_is_caught(self):
        self.cpp("dataplane/base/a.hpp", "int x;\n" * 399)
        self.assert_clean()
        self.cpp("dataplane/base/a.hpp", "int x;\n" * 400)
        self.assert_caught("401 lines")

    def test_a_function_of_70_lines_passes_and_one_more_is_caught(self):
        self.cpp("dataplane/base/a.hpp", "void f() {\n" + "  g();\n" * 68 + "}\n")
        self.assert_clean()
        self.cpp("dataplane/base/a.hpp", "void f() {\n" + "  g();\n" * 69 + "}\n")
        self.assert_caught("a.hpp:2", "f has 71 lines")

    def test_long_functions_of_scripts_are_caught(self):
        self.write("packaging/a.py", SCRIPT_LICENCE + "def f():\n" + "    g()\n" * 70)
        self.assert_caught("f has 71 lines")
        self.write("packaging/a.py", SCRIPT_LICENCE)
        self.write("packaging/run", "#!/usr/bin/env bash\n" + SCRIPT_LICENCE + "f() {\n" + "  g\n" * 70 + "}\n")
        self.assert_caught("packaging/run:3", "f has 72 lines")


class Names(Tree):
    def test_type_names_that_say_nothing(self):
        for code in ("class PageManager {};", "struct FileHelper;", "enum class UtilKind { a };", "class Reader_Impl;",
                     "using StreamBase = int;", "template <class T> concept ManagerLike = true;"):
            with self.subTest(code):
                self.cpp("dataplane/base/a.hpp", code + "\n")
                self.assert_caught("says nothing")

    def test_words_that_only_contain_them_pass(self):
        self.cpp("dataplane/base/a.hpp", "class Database {};\nstruct Implicit {};\nstruct Utilization {};\n"
                 "// A Manager in a comment.\nconst char* text = \"class FooManager\";\n")
        self.assert_clean()

    def test_file_names_that_say_nothing(self):
        self.cpp("dataplane/base/string_utils.hpp", "\n")
        self.assert_caught("'utils' in a file's name")

    def test_words_of_unfinished_work(self):
        for word in ("TODO", "FIXME", "XXX", "DISABLED_Foo", "TEST(Foo, DISABLED_Bar)"):
            with self.subTest(word):
                self.cpp("dataplane/base/a.hpp", f"// {word}\n")
                self.assert_caught("a.hpp:2", "leave it out")
        self.cpp("dataplane/base/a.hpp", 'const char* pattern = "/tmp/penstock-XXXXXX";\n')
        self.assert_clean()

    def test_calls_that_have_no_place(self):
        for code in ("throw 1;", "auto s = std::format(\"x\");", "for (int i : std::views::iota(0, 1)) {}",
                     "std::expected<int, int> x;"):
            with self.subTest(code):
                self.cpp("dataplane/base/a.cpp", "void f() {\n" + code + "\n}\n")
                self.assert_caught("a.cpp:3")
        self.cpp("dataplane/base/a.cpp", "// Never throw here; std::format is absent.\nint nothrow = 0;\n")
        self.assert_clean()

    def test_sleeps_in_tests(self):
        self.cpp("tests/unit/a.cpp", "void f() { std::this_thread::sleep_for(x); }\n")
        self.assert_caught("hides a race")
        self.cpp("tests/unit/a.cpp", "\n")
        self.cpp("dataplane/base/a.cpp", "void f() { std::this_thread::sleep_for(x); }\n")
        self.assert_clean()

    def test_clocks_in_pure_code(self):
        self.cpp("service/policy/a.cpp", "auto x = std::chrono::steady_clock::now();\n")
        self.assert_caught("time is an argument")


class Documents(Tree):
    def test_the_licence_line(self):
        self.write("dataplane/base/a.hpp", "#pragma once\n")
        self.assert_caught("a.hpp:1", "SPDX")
        self.write("dataplane/base/a.hpp", LICENCE)
        self.write("packaging/run", "#!/usr/bin/env bash\necho\n")
        self.assert_caught("packaging/run:1", "SPDX")
        self.write("packaging/run", "#!/usr/bin/env bash\n" + SCRIPT_LICENCE)
        self.assert_clean()

    def test_a_module_without_a_design(self):
        self.write("bpf/a.cpp", LICENCE)
        self.assert_caught("bpf/DESIGN.md", "is missing")

    def test_what_git_ignores_is_not_read(self):
        self.write("build/x/a.cpp", "throw;\n")
        self.assert_clean()


if __name__ == "__main__":
    unittest.main()
