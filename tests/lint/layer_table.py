"""The table of layers (docs/architecture.md) as data: who may include what.

A module is a folder; the longest prefix of a path that is listed here names its module. tests/,
benchmarks/ and examples/ may include anything of the project and are not listed.
"""

import re

GROUND = ("shared/base", "shared/wire", "shared/config", "shared/model", "shared/data", "shared/privacy")
CORE_BELOW = GROUND + ("crypto", "kernels", "kernels/nn", "kernels/codec")
# Where clients train: they see a device as a DeviceApi and train in its lanes.
TRAINING = CORE_BELOW + ("kernels/cuda",)

# module: the modules that it may include beside itself
EDGES = {
    "shared/base": (),
    "shared/wire": GROUND[:1],
    "shared/config": GROUND[:2],
    "shared/model": GROUND[:3],
    "shared/data": GROUND[:4],
    "shared/privacy": GROUND[:5],
    "shared/net": ("shared/base", "shared/wire", "crypto"),
    "crypto": ("shared/base", "shared/wire"),
    # nn sees the two implementations only through the backend interface, which lies in kernels itself.
    "kernels": ("shared/base", "shared/model", "kernels/nn", "kernels/cpu", "kernels/cuda", "kernels/body",
                "kernels/codec"),
    "kernels/nn": ("shared/base", "shared/model", "shared/data", "kernels"),
    "kernels/cpu": ("shared/base", "shared/model", "kernels", "kernels/body"),
    "kernels/cuda": ("shared/base", "shared/model", "kernels", "kernels/nn", "kernels/body"),
    "kernels/body": ("shared/base", "kernels"),
    "kernels/codec": ("shared/base", "shared/model", "kernels"),
    "client": TRAINING,
    "client/agent": TRAINING + ("client", "shared/net"),
    # Linked into tests of anything: as little as possible, and its own sockets instead of Asio.
    "client/faultproxy": ("shared/base", "shared/config"),
    "client/embed": TRAINING + ("client", "client/agent", "shared/net"),
    # Judges programs from outside: nothing of the library it checks.
    "client/conform": GROUND + ("crypto", "shared/net", "client/faultproxy"),
    # The library's own program sees it as every application does.
    "client/cli": GROUND + ("crypto", "client/conform"),
    "aggregator": CORE_BELOW,
    "aggregator/server": CORE_BELOW + ("aggregator", "aggregator/dashboard", "shared/net"),
    "aggregator/dashboard": ("shared/base",),
    "simulator": TRAINING + ("client", "aggregator"),
}

FREE = ("tests", "benchmarks", "examples")
DRIVERS = r"client/agent/|client/embed/|aggregator/server/"
NOBODY = r"(?!)"
MAINS = r"(?:client/cli|client/faultproxy|aggregator/server|simulator)/main\.cc$"

# (what, pattern of the include, pattern of the files that may have it); the first row that fits decides
THIRD_PARTY = (
    ("all of Asio or Beast at once", r"boost/(?:asio|beast)\.hpp$", NOBODY),
    ("the body of Asio or Beast", r"boost/(?:asio/(?:ssl/)?impl|beast)/src\.hpp$", r"shared/net/asio_impl\.cc$"),
    ("the body of Boost.JSON", r"boost/json/src\.hpp$", r"shared/model/[^/]*\.cc$"),
    ("Beast", r"boost/beast\b", r"aggregator/server/"),
    ("Asio", r"boost/asio\b", r"shared/net/|" + DRIVERS),
    ("Boost.JSON", r"boost/json\b", r"shared/(?:model|data)/.*\.cc$|client/(?:cli|conform)/|" + DRIVERS),
    ("other parts of Boost", r"boost/", r"shared/net/|" + DRIVERS),
    ("protobuf", r"google/protobuf/|.*\.pb\.h$", r"shared/wire/.*\.cc$"),
    ("toml++", r"toml\+\+/|toml\.hpp$", r"shared/config/.*\.cc$"),
    ("zlib", r"zlib\.h$", r"shared/(?:model|data)/.*\.cc$"),
    ("Eigen", r"Eigen/|unsupported/Eigen/", r"kernels/cpu/"),
    ("CUDA", r"cuda|cublas|cudnn|nccl", r"kernels/cuda/"),
    ("OpenSSL", r"openssl/", r"crypto/|shared/net/|shared/base/sha256\.cc$|client/conform/scripted\.cc$"),
    ("SQLite", r"sqlite3(?:ext)?\.h$", r"aggregator/store/|simulator/run_db(?:_sql|_reader)?\.(?:cc|h)$"),
    ("CLI11", r"CLI/", MAINS),
    ("spdlog", r"spdlog/", r"shared/base/log_stderr\.cc$"),
    ("the interface for applications", r"skep/", r"client/(?:embed|cli)/"),
    ("fmt", r"fmt/", r"(?!kernels/cuda/|kernels/body/)"),
    ("Catch2", r"catch2/", r"tests/support/"),
    ("sockets", r"(?:sys/(?:socket|un|epoll)|netinet/.*|netdb|net/.*)\.h$", r"shared/net/|client/faultproxy/|client/conform/scripted\.cc$|" + DRIVERS),
    ("stacks of fibres, and what sanitizers know of them", r"ucontext\.h$|sanitizer/", r"tests/emulator/"),
    ("processor intrinsics", r"(?:[a-z]*mmintrin|cpuid|x86intrin|arm_neon)\.h$", r"kernels/|shared/base/"),
)

# Headers that clang 14 or GCC 12 lack, whoever includes them.
BANNED_HEADERS = ("source_location", "format", "expected", "print", "generator", "mdspan")

_C_HEADERS = """assert byteswap complex ctype cxxabi dirent dlfcn elf endian errno execinfo fcntl fenv float fnmatch
    ftw getopt glob grp inttypes langinfo libgen limits link locale malloc math poll pthread pwd regex sched semaphore
    setjmp signal spawn stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib string strings syslog termios time uchar
    unistd utime wchar wctype""".split()
# Headers of C, POSIX and C++.
SYSTEM = re.compile(r"(?:[a-z0-9_]+|(?:sys|linux|arpa)/[a-z0-9_]+\.h|(?:" + "|".join(_C_HEADERS) + r")\.h)$")


def module_of(path):
    """The module that a source file belongs to, "free" for tests and the like, None if unknown."""
    if path.split("/")[0] in FREE:
        return "free"
    best = None
    for module in EDGES:
        if path.startswith(module + "/") and (best is None or len(module) > len(best)):
            best = module
    return best
