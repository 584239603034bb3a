# SPDX-License-Identifier: Apache-2.0
"""Which folder may include which, and which folder may include which foreign headers."""

BASE = "dataplane/base"
CORE = "dataplane/core"
KERNELS = "dataplane/kernels"
IO = "dataplane/io"
DEVICE = "dataplane/device"
WRITER = "dataplane/writer"
PAGER = "dataplane/pager"
PROTOCOL = "service/protocol"
POLICY = "service/policy"
CONFIG = "service/config"
IPC = "service/ipc"
CONTROL = "service/control"
CLIENT = "service/client"
CLI = "service/cli"

# A value of the core that conversions speak of.
DTYPE = "dataplane/core/dtype.hpp"

# Folder -> folders or single headers that it may include besides its own. A folder means all below it.
MAY_INCLUDE: dict[str, tuple[str, ...]] = {
    BASE: (),
    CORE: (BASE,),
    KERNELS: (BASE, DTYPE),
    IO: (CORE, BASE),
    DEVICE: (BASE, DTYPE, KERNELS, "dataplane/writer/protocol.hpp"),
    WRITER: (DEVICE, KERNELS, DTYPE, BASE),
    PAGER: (CORE, IO, DEVICE, BASE),
    "bpf": (BASE, "dataplane/device/headroom_source.hpp"),
    PROTOCOL: (BASE, CORE, "dataplane/pager/peer_port.hpp"),  # The seam that its device port implements.
    POLICY: (BASE, CORE),
    CONFIG: (BASE,),
    IPC: (BASE, CORE, KERNELS, IO, DEVICE, PAGER, "bpf", PROTOCOL, POLICY, CONFIG),
    CONTROL: (BASE, CORE, KERNELS, IO, DEVICE, PAGER, "bpf", PROTOCOL, POLICY, CONFIG, IPC),
    CLIENT: (PROTOCOL, BASE, DEVICE),
    CLI: (PROTOCOL, CLIENT, BASE, CORE, IO, DEVICE, "bpf", "dataplane/kernels/device_code.hpp"),
    "exporters": (BASE,),
}

# Besides that table: exporters read everyone's counters, and nothing else of them.
EXPORTERS_MAY_READ = r"(?:^|[/_])stats\.hpp$"

# Folders without system calls, clocks and threads. Time comes in as an argument.
PURE = (CORE, POLICY)
IMPURE_HEADERS = (
    r"thread|mutex|shared_mutex|condition_variable|future|stop_token|semaphore|latch|barrier|ctime|time\.h|random|"
    r"unistd\.h|fcntl\.h|pthread\.h|sched\.h|poll\.h|signal\.h|dlfcn\.h|sys/.*|linux/.*|spdlog/.*|filesystem|fstream")

# Foreign headers (pattern, folders or single files that may include them). Others are free.
FOREIGN: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"tl/expected\.hpp", (BASE,)),
    (r"sys/mman\.h", (BASE,)),
    (r"sys/eventfd\.h", (BASE,)),
    (r"openssl/.*", (BASE,)),
    (r"simdjson\.h", (CORE,)),
    (r"liburing\.h|liburing/.*", (IO,)),
    (r"dlfcn\.h", (DEVICE,)),
    (r"cuda.*|hip/.*", (KERNELS,)),
    (r"bpf/.*|linux/bpf\.h", ("bpf",)),
    (r"toml\+\+/.*|toml\.hpp", (CONFIG,)),
    (r"boost/asio.*", (IPC, CONTROL, "exporters", "service/main.cpp", "service/metrics_setup.hpp")),
    (r"boost/beast.*", ("exporters",)),
    (r"CLI/.*", (CLI,)),
    (r"systemd/.*", ("service/main.cpp",)),
    (r"prometheus/.*", ("exporters",)),
    (r"gtest/.*|gmock/.*|benchmark/.*", ()),
    (r"iostream", (CLI,)),
    (r"format|ranges/v3/.*|expected", ()),
)

# The composition root, main.cpp and the files beside it, names concrete classes and may include everything of the project.
COMPOSITION_ROOT = "service"
