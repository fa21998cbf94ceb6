#!/usr/bin/env python3
"""Plants one violation of every rule of layers.py in a small tree and looks for the finding.

Every case has a twin that keeps the rule and must stay silent.
"""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import layers  # noqa: E402
import source  # noqa: E402


def found(files):
    """(path, line, rule) of the findings in a tree of these files, warnings as "warning RULE"."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return [(f.path, f.line, ("warning " if f.is_warning else "") + f.rule) for f in layers.findings(root)]


class Case(unittest.TestCase):
    def refuse(self, path, text, rule, line=1, others=None):
        with self.subTest(path=path, text=text[:60]):
            self.assertEqual(found({path: text, **(others or {})}), [(path, line, rule)])

    def accept(self, path, text, others=None):
        with self.subTest(path=path, text=text[:60]):
            self.assertEqual(found({path: text, **(others or {})}), [])


class Edges(Case):
    def test_every_edge_that_the_table_lacks_is_found(self):
        for path, name in (
                ("shared/base/a.h", "shared/wire/b.h"), ("shared/wire/a.cc", "shared/config/b.h"),
                ("shared/config/a.h", "shared/model/b.h"), ("shared/model/a.h", "shared/data/b.h"),
                ("shared/data/a.h", "shared/privacy/b.h"), ("shared/model/a.h", "crypto/b.h"),
                ("shared/net/a.h", "shared/config/b.h"), ("crypto/a.h", "shared/model/b.h"),
                ("kernels/a.h", "shared/wire/b.h"), ("kernels/cpu/a.h", "shared/data/b.h"),
                ("kernels/nn/a.h", "kernels/cpu/b.h"), ("kernels/nn/a.cc", "kernels/cuda/b.h"),
                ("client/a.h", "aggregator/engine/b.h"), ("aggregator/engine/a.h", "client/b.h"),
                ("client/a.h", "shared/net/b.h"), ("aggregator/store/a.h", "shared/net/b.h"),
                ("client/a.h", "client/agent/b.h"), ("client/a.h", "client/embed/b.h"),
                ("client/agent/a.h", "client/embed/b.h"), ("aggregator/engine/a.h", "aggregator/server/b.h"),
                ("aggregator/server/a.h", "client/b.h"), ("simulator/a.h", "client/agent/b.h"),
                ("simulator/a.h", "aggregator/server/b.h"), ("simulator/a.h", "shared/net/b.h"),
                ("client/a.h", "kernels/cpu/b.h"), ("client/a.h", "simulator/b.h"), ("client/a.h", "tests/support/b.h")):
            self.refuse(path, f'#include "{name}"\n', "layer")

    def test_the_edges_of_the_table_are_accepted(self):
        for path, name in (
                ("shared/data/a.h", "shared/model/b.h"), ("shared/net/a.h", "crypto/pki/b.h"),
                ("crypto/pki/a.h", "shared/wire/b.h"), ("kernels/nn/a.h", "shared/data/b.h"),
                ("kernels/nn/a.h", "kernels/backend.h"), ("kernels/backends.cc", "kernels/cpu/b.h"),
                ("client/a.h", "kernels/nn/b.h"), ("client/agent/a.h", "shared/net/b.h"),
                ("client/embed/a.h", "client/agent/b.h"), ("aggregator/engine/a.h", "aggregator/store/b.h"),
                ("aggregator/server/a.h", "aggregator/engine/b.h"), ("simulator/a.h", "client/b.h"),
                ("simulator/a.h", "aggregator/engine/b.h"), ("tests/client/a.cc", "aggregator/server/b.h")):
            self.accept(path, f'#include "{name}"\n')

    def test_a_path_that_is_not_from_the_root_is_found(self):
        self.refuse("shared/base/a.cc", '#include "a.h"\n', "layer")

    def test_a_folder_outside_the_table_is_found(self):
        self.refuse("shared/other/a.cc", "int x;\n", "layer")

    def test_an_include_in_a_comment_is_none(self):
        self.accept("shared/base/a.cc", '// #include "client/a.h"\n/*\n#include "client/a.h"\n*/\n')


class ThirdParty(Case):
    def test_a_library_outside_its_home_is_found(self):
        for path, name in (
                ("client/a.h", "boost/asio/ip/tcp.hpp"), ("simulator/a.cc", "boost/asio/post.hpp"),
                ("aggregator/engine/a.cc", "boost/asio/post.hpp"), ("client/agent/a.cc", "boost/beast/core.hpp"),
                ("shared/net/a.cc", "boost/asio.hpp"), ("aggregator/server/a.cc", "boost/beast.hpp"),
                ("tests/shared/a.cc", "boost/asio.hpp"), ("shared/net/b.cc", "boost/asio/impl/src.hpp"),
                ("aggregator/engine/a.cc", "sqlite3.h"), ("simulator/report.cc", "sqlite3.h"),
                ("shared/model/a.cc", "toml++/toml.h"), ("shared/config/a.h", "toml++/toml.h"),
                ("shared/model/a.h", "boost/json/value.hpp"), ("shared/config/a.cc", "boost/json/value.hpp"),
                ("shared/data/a.cc", "boost/json/src.hpp"), ("shared/wire/a.cc", "zlib.h"), ("shared/data/a.h", "zlib.h"),
                ("kernels/nn/a.cc", "Eigen/Core"), ("client/a.cc", "Eigen/Core"),
                ("shared/base/bytes.cc", "openssl/sha.h"), ("client/a.cc", "openssl/ssl.h"),
                ("aggregator/server/a.cc", "openssl/ssl.h"), ("simulator/run.cc", "CLI/CLI.hpp"),
                ("client/agent/agent.cc", "CLI/CLI.hpp"), ("shared/base/a.cc", "spdlog/spdlog.h"),
                ("shared/wire/a.h", "google/protobuf/message_lite.h"), ("client/a.cc", "shared/wire/messages.pb.h"),
                ("kernels/cuda/a.cu", "fmt/core.h"), ("kernels/cpu/a.cc", "cuda_runtime.h"),
                ("tests/client/a.cc", "catch2/catch.hpp"), ("client/a.cc", "sys/socket.h"),
                ("client/a.cc", "immintrin.h"), ("client/a.cc", "curl/curl.h"), ("client/a.cc", "png.h"),
                ("client/a.cc", "boost/optional.hpp"), ("client/agent/a.cc", "skep/skep.h")):
            self.refuse(path, f"#include <{name}>\n", "third party")

    def test_a_library_in_its_home_is_accepted(self):
        for path, name in (
                ("shared/net/a.h", "boost/asio/ip/tcp.hpp"), ("client/agent/a.cc", "boost/asio/post.hpp"),
                ("aggregator/server/a.cc", "boost/beast/http/parser.hpp"),
                ("shared/net/asio_impl.cc", "boost/asio/impl/src.hpp"), ("shared/net/asio_impl.cc", "boost/beast/src.hpp"),
                ("aggregator/store/sqlite_store.cc", "sqlite3.h"), ("simulator/run_db.cc", "sqlite3.h"),
                ("shared/config/a.cc", "toml++/toml.h"), ("shared/model/json_impl.cc", "boost/json/src.hpp"),
                ("shared/data/a.cc", "zlib.h"), ("kernels/cpu/a.cc", "Eigen/Core"),
                ("shared/base/sha256.cc", "openssl/sha.h"), ("crypto/a.h", "openssl/evp.h"),
                ("simulator/main.cc", "CLI/CLI.hpp"), ("shared/base/log_stderr.cc", "spdlog/spdlog.h"),
                ("shared/wire/a.cc", "shared/wire/messages.pb.h"), ("tests/support/catch.h", "catch2/catch.hpp"),
                ("tests/shared/a.cc", "Eigen/Core"), ("client/a.cc", "unistd.h"), ("client/a.cc", "vector"),
                ("kernels/cpu/a.cc", "immintrin.h"), ("client/embed/a.cc", "skep/skep.h"),
                ("examples/embed_cpp/main.cc", "skep/client.hpp")):
            self.accept(path, f"#include <{name}>\n")

    def test_an_example_includes_what_lies_beside_it(self):
        text = '#include "readings.h"\n'
        self.accept("examples/pump/main.cc", text, {"examples/pump/readings.h": "#include <vector>\n"})
        self.refuse("examples/pump/main.cc", text, "layer")
        self.refuse("client/main.cc", text, "layer", others={"client/readings.h": "#include <vector>\n"})

    def test_headers_that_a_compiler_lacks_are_found(self):
        for name in ("source_location", "format", "expected"):
            self.refuse("client/a.cc", f"#include <{name}>\n", "header")

    def test_the_ninth_file_with_asio_is_found_also_through_a_header(self):
        files = {"shared/net/a.h": "#include <boost/asio/post.hpp>\n"}
        files.update({f"client/agent/a{k}.cc": '#include "shared/net/a.h"\n' for k in range(8)})
        self.assertEqual(found(files), [])
        files["client/agent/a8.cc"] = '#include "shared/net/a.h"\n'
        self.assertEqual(found(files), [("client/agent/a8.cc", 1, "asio")])


class Calls(Case):
    def test_clocks_sleeps_and_random_sources_are_found(self):
        for rule, text in (
                ("clock", "auto t = std::chrono::steady_clock::now();"), ("clock", "auto t = system_clock::now();"),
                ("clock", "clock_gettime(CLOCK_REALTIME, &t);"), ("clock", "auto t = std::time(nullptr);"),
                ("clock", "auto t = time(NULL);"), ("clock", "auto t = ::time(nullptr);"),
                ("sleep", "std::this_thread::sleep_for(x);"), ("sleep", "usleep(10);"), ("sleep", "sleep(1);"),
                ("random", "int x = rand();"), ("random", "srand(1);"), ("random", "std::random_device d;"),
                ("random", "std::mt19937_64 g;"), ("random", "RAND_bytes(p, 8);"), ("random", "getrandom(p, 8, 0);"),
                ("random", "std::shuffle(a, b, g);"), ("random", 'auto f = Open("/dev/urandom");')):
            self.refuse("client/a.cc", "void F() {\n  " + text + "\n}\n", rule, line=2)
            self.refuse("tests/client/a.cc", "void F() {\n  " + text + "\n}\n", rule, line=2)

    def test_their_homes_and_names_that_only_look_alike_are_accepted(self):
        self.accept("shared/base/clock.cc", "auto T() { return std::chrono::steady_clock::now(); }\n")
        self.accept("crypto/csprng.cc", "void F() { RAND_bytes(p, 8); }\n")
        for text in ("operand(1);", "x.sleep(1);", "arrival_time(0);", "round.time(0);", "Brand();",
                     'Log("sleep(1) and rand()");', "// steady_clock::now()", "steady_clock::time_point now;"):
            self.accept("client/a.cc", "void F() {\n  " + text + "\n}\n")

    def test_detached_work_is_found(self):
        asio = "#include <boost/asio/co_spawn.hpp>\n"
        self.refuse("client/agent/a.cc", asio + "void F() { co_spawn(e, G(), detached); }\n", "detach", line=2)
        self.refuse("client/agent/a.cc", asio + "void F() { co_spawn(e, G(), asio::detached); }\n", "detach", line=2)
        self.refuse("client/a.cc", "void F() { thread.detach(); }\n", "detach")
        self.accept("aggregator/engine/a.cc", "void F() { Note(device, detached); }\n")

    def test_views_are_found(self):
        self.refuse("client/a.cc", "auto x = v | std::views::filter(f);\n", "views")
        self.refuse("client/a.cc", "auto x = v | views::transform(f);\n", "views")
        self.accept("client/a.cc", "auto x = reviews::Count();\n")

    def test_the_coroutine_forms_that_gcc_12_miscompiles_are_found(self):
        for text in (
                "auto s = b ? co_await f() : co_await g();", "auto s = b ? 1 :\n co_await g();",
                "Agg x{.a = co_await f(), .b = co_await g()};", "Agg x = {.a = co_await f()};",
                "std::vector<std::string> v{co_await f(), co_await g()};",
                "co_await send(Frame{.type = t, .body = s});", "co_await send(t, wire::Frame{1, 2});",
                "auto r = co_await send(std::vector<int>{1, 2});", "co_await send({.type = t});",
                "SKEP_CO_TRY(co_await send(Frame{.type = t}));",
                "if (co_await f(std::string(a))) co_return;", "if (!(co_await f(g(h(a))))) co_return Ok();"):
            self.refuse("client/agent/a.cc", "X F() {\n  " + text + "\n}\n", "coroutine", line=2)

    def test_the_forms_that_are_right_are_accepted(self):
        for text in (
                "if (b) s = co_await f(); else s = co_await g();", "if (b) { s = co_await f(); } else { s = co_await g(); }",
                "auto a = co_await f(); Agg x{.a = std::move(a)};", "Frame frame{1, 2}; co_await send(std::move(frame));",
                "co_await g(co_await f());", "SKEP_CO_ASSIGN(auto x, co_await f());", "co_await send(b ? 1 : 2);",
                "while (co_await next(a)) { Add(Frame{1}); }", "auto r = co_await (f() || timer.async_wait(token));",
                "if (co_await f(std::string(a))) { co_return; }", "if (is_done) co_return;",
                "co_await send(Frame{});", "co_spawn(e, [](X x) -> awaitable<void> { co_await f(x); }, handler);"):
            self.accept("client/agent/a.cc", "X F() {\n  " + text + "\n}\n")

    def test_unverified_peers_outside_enrolment_are_found(self):
        self.refuse("shared/net/a.cc", "void DeviceContext() {\n  SSL_CTX_set_verify(c, SSL_VERIFY_NONE, 0);\n}\n",
                    "verify", line=2)
        self.refuse("client/agent/a.cc", "void F() {\n  context.set_verify_mode(ssl::verify_none);\n}\n", "verify", line=2)
        self.accept("shared/net/a.cc", "void EnrolmentListener() {\n  SSL_CTX_set_verify(c, SSL_VERIFY_NONE, 0);\n}\n")


class Lengths(Case):
    def test_long_files_are_warned_of_and_then_refused(self):
        self.accept("client/a.cc", "int x;\n" * 500)
        self.assertEqual(found({"client/a.cc": "int x;\n" * 501}), [("client/a.cc", 501, "warning length")])
        self.refuse("client/a.cc", "int x;\n" * 551, "length", line=551)

    def test_long_functions_are_found_wherever_they_hide(self):
        body = "  Do();\n" * 74
        for head, tail in (("void F() {\n", "}\n"), ("TEST_CASE(\"a { b\") {\n", "}\n"),
                           ("A::A(int x)\n    : x_{x}, y_(1) {\n", "}\n"),
                           ("namespace n {\nclass C {\n public:\n  void F() {\n", "}\n};\n}\n"),
                           ("template <class T>\nvoid F(T x) {\n", "}\n")):
            with self.subTest(head=head):
                rules = [rule for _, _, rule in found({"client/a.cc": head + body + tail})]
                self.assertEqual(rules, ["length"])

    def test_long_classes_namespaces_and_tables_are_no_functions(self):
        for head, tail in (("namespace n {\n", "}\n"), ("class C : public B {\n", "};\n"),
                           ("template <class T>\nstruct C {\n", "};\n"), ("enum class E : int {\n", "};\n"),
                           ("constexpr Row kTable[] = {\n", "};\n"),
                           ("constexpr auto kTable = std::to_array<Row>({\n", "});\n"), ("extern \"C\" {\n", "}\n")):
            line = "  Do(1),\n" if "kTable" in head else "  int x;\n"
            self.accept("client/a.cc", head + line * 90 + tail)


class Reading(unittest.TestCase):
    def test_comments_and_literals_vanish_and_lines_stay(self):
        text = 'a("x // y {", \'"\', 1\'000, R"z(} " /*)z"); // tail\n/* one\ntwo */ b\n'
        code = source.bare_code(text)
        self.assertEqual(code.count("\n"), text.count("\n"))
        self.assertNotIn("{", code)
        self.assertNotIn("}", code)
        self.assertIn("1'000", code)
        self.assertIn(" b\n", code)
        self.assertNotIn("tail", code)


if __name__ == "__main__":
    unittest.main()
