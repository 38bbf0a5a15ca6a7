# ruff: noqa: E501
"""A second round: forged frames, kernel objects, odd deaths, lying values and odd files that the first round lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autograder.exercises import exercises

from .attack import Attack, own_cell, solutions
from .tampering import FORGE

Document = dict[str, Any]
ENDS = ("crashed", "timeout", "wrong")
ALL = tuple(exercises("03_masking"))
SOFTMAX = solutions("03_masking")["masked_softmax"]
HEAD = """
import ctypes, fcntl, mmap, os, resource, select, signal, socket, stat, struct, sys, threading, time
import numpy as np
libc = ctypes.CDLL(None, use_errno=True)
"""


def body(name: str, tries: str, text: str, verdicts: tuple[str, ...] = ENDS, head: str = "", **more: Any) -> Attack:
    """causal_mask with `text` as its body."""
    source = HEAD + head + "def causal_mask(n):\n" + "".join(f"    {line}\n" for line in text.strip("\n").split("\n"))
    return Attack(name, tries, cells={"causal_mask": source}, verdicts={"causal_mask": verdicts}, **more)


def top(name: str, tries: str, text: str, **more: Any) -> Attack:
    """A cell before all others; causal_mask is wrong."""
    return Attack(name, tries, top=HEAD + text, cells={"causal_mask": "def causal_mask(n): return None"}, **more)


def frames(name: str, tries: str, text: str, verdicts: tuple[str, ...] = ("crashed", "timeout")) -> Attack:
    """causal_mask writes on its own reply socket, as `out`, and ends."""
    lines = "import ctypes\nout = sockets()[-1]\n" + text.strip("\n") + "\nos._exit(0)"
    source = FORGE + "import time\ndef causal_mask(n):\n"
    source += "".join(f"    {line}\n" for line in lines.split("\n"))
    return Attack(name, tries, cells={"causal_mask": source}, verdicts={"causal_mask": verdicts})


ATTACKS: tuple[Attack, ...] = (
    # ------------------------------------------------------------------------------------------- values that lie
    body(
        "an array of changing shape",
        "returns an array whose shape, dtype and bytes are others each time they are read",
        "return np.ones((n, n), bool).view(Moody)",
        ("wrong",),
        head="""
class Moody(np.ndarray):
    reads = 0
    def __getattribute__(self, name):
        Moody.reads += 1
        if name == "shape": return (Moody.reads,) * (Moody.reads % 5)
        if name == "dtype": return np.dtype("f8" if Moody.reads % 2 else "O")
        if name == "nbytes": return -1
        return super().__getattribute__(name)
    def __array__(self, *args, **kwargs): return np.zeros(Moody.reads % 7)
""",
    ),
    body(
        "numbers that lie",
        "returns ints and floats of its own classes that are small, equal and another when looked at",
        "return Small(2**20000)",
        ("crashed", "wrong"),
        head="""
class Small(int):
    def __abs__(self): return 0
    def __lt__(self, other): return True
    def __eq__(self, other): return True
    __hash__ = None
    def __index__(self): return 1
""",
    ),
    Attack(
        "a float that lies",
        "returns floats whose repr and comparison are made up",
        "02_scaled_scores",
        cells={
            "dot_product_moments": """
            class Any(float):
                def __repr__(self): return "1e999" if self < 0 else "0.0, 'v': true"
                def __float__(self): return 3.0
                def __eq__(self, other): return True
                __hash__ = float.__hash__
            def dot_product_moments(d, var_q=1.0, var_k=1.0): return Any(-1), Any(d)
            """
        },
        verdicts={"dot_product_moments": ("wrong",)},
    ),
    Attack(
        "a tensor of its own class",
        "answers for every method by which a tensor is read",
        "04_multi_head",
        cells={
            "merge_heads": """
            class Other(torch.Tensor):
                @classmethod
                def __torch_function__(cls, func, types, args=(), kwargs=None):
                    name = getattr(func, "__name__", "")
                    if name in ("detach", "cpu", "resolve_conj", "resolve_neg"): return args[0]
                    if name == "numpy": return np.broadcast_to(np.float64(1), (2**20, 2**20))
                    if name == "__get__": return True
                    return super().__torch_function__(func, types, args, kwargs or {})
            def merge_heads(X): return torch.ones(2).as_subclass(Other)
            """
        },
        verdicts={"merge_heads": ("wrong", "crashed")},
    ),
    Attack(
        "tensors in odd states",
        "returns conjugated, negated, unfinished, aliased and freed tensors",
        "04_multi_head",
        cells={
            "split_heads": "def split_heads(X, n_heads): return torch.view_as_complex(torch.ones(4, 3, 2)).conj().imag",
            "merge_heads": "def merge_heads(X):\n    t = torch.ones(9); t.untyped_storage().resize_(0); return t",
            "from_torch_weights": "def from_torch_weights(a, b):\n    t = torch.ones(2**20).as_strided((9, 9), (0, 0))\n"
            "    return t, t, t.to(torch.float8_e4m3fn), torch.ones(3, dtype=torch.bfloat16)",
        },
        verdicts={"merge_heads": ENDS},
    ),
    body(
        "a list of itself many times",
        "returns a list of a million leaves that takes up no room",
        "r = [1]\nfor _ in range(22): r = [r, r]\nreturn r",
    ),
    body(
        "records and times",
        "returns arrays of records, dates, texts, objects and with foreign byte order",
        "kinds = ['M8[s]', 'm8', 'S9', 'U9', 'O', [('a', '?'), ('b', 'V8')], '>i8', 'V4']\n"
        "return tuple(np.zeros((n, n), k) for k in kinds)",
        ("wrong",),
    ),
    body(
        "memory that is gone",
        "returns an array over a map that is closed and a file that is cut short",
        "with open('/scratch/m', 'w+b') as f:\n    f.truncate(2**16)\n    a = np.memmap(f, bool, 'r+', shape=(n, n))\n"
        "os.truncate('/scratch/m', 0)\nreturn a",
    ),
    body(
        "an answer that changes while it is read",
        "returns an array in memory that another process of its own keeps on writing",
        "shared = mmap.mmap(-1, 4096)\nif os.fork() == 0:\n    while True: shared[:n * n] = os.urandom(n * n)\n"
        "return np.frombuffer(shared, bool, n * n).reshape(n, n)",
        ("wrong", "crashed"),
    ),
    # ------------------------------------------------------------------------------------- which case is it, state
    Attack(
        "by the name of the argument",
        "answers by the number that the function it is given has in its name",
        cells={
            "leaks_future": """
            def leaks_future(attend, Q, K, V):
                number = int("".join(c for c in attend.__name__ if c.isdigit()) or 0)
                return "FFFFTTTTTTTTTTTTTFFFTFTFT"[number % 25] == "T"
            """
        },
    ),
    Attack(
        "by what it says of nonsense",
        "calls the function that it is given with nonsense, and answers by the words of the errors",
        cells={
            "leaks_future": """
            def leaks_future(attend, Q, K, V):
                words = []
                for args in ((), (Q,), (Q, K, V, V), ("x", K, V), (Q[0], K, V), (Q, K[:-1], V), (1, 2, 3), (Q, K, None)):
                    try: attend(*args)
                    except Exception as error: words.append(str(error))
                text = " ".join(words).lower()
                return any(word in text for word in ("_every", "leak", "future", "guard", "no mask", "unmasked"))
            """
        },
    ),
    Attack(
        "the number of the call forged",
        "resets the device that it is to time by forging the number of the call",
        "09_gpu_speed",
        cells={
            "median_time": """
            def median_time(run, synchronize, clock, warmup, repeats):
                for part in (run, synchronize, clock):
                    for cell in part.__closure__:
                        inner = getattr(cell.cell_contents, "__closure__", None) or ()
                        for c in (cell, *inner):
                            if type(c.cell_contents) is int: c.cell_contents = id(object()) % 9999
                start = clock(); run(); synchronize()
                return clock() - start
            """
        },
        verdicts={"median_time": ENDS},
    ),
    top(
        "answers without a child",
        "has the process of the whole notebook answer, so that what one exercise learns reaches the next",
        """
student = sys.modules["worker.student_process"]
learnt = []
def answer(request, payload, channel, reply, namespace, moments, tests):
    learnt.append(request)
    try: student.answer_here(request, payload, reply, namespace, moments)
    finally: reply.shutdown(socket.SHUT_RDWR)
    return "exit 0"
student.answer = answer
""",
    ),
    top(
        "an overseer",
        "leaves a thread in the process above all exercises that changes its functions and its random numbers",
        """
def oversee():
    while True:
        globals()["causal_mask"] = lambda n: np.tri(n) > 2
        np.random.seed(0)
        time.sleep(0.001)
threading.Thread(target=oversee, daemon=True).start()
""",
    ),
    Attack(
        "right in the second round",
        "writes down what it was asked, and is right only where it was asked that before",
        cells={
            "masked_softmax": SOFTMAX.replace("def masked_softmax", "def honest")
            + """
import hashlib, os
def masked_softmax(scores, mask):
    path = "/scratch/" + hashlib.sha256(scores.tobytes() + mask.tobytes()).hexdigest()
    if not os.path.exists(path):
        open(path, "w").close()
        return scores * 0
    return honest(scores, mask)
"""
        },
    ),
)

# -------------------------------------------------------------------------------------------------- forged frames
ATTACKS += (
    frames("frames out of order", "sends later, again, done and call in the wrong order",
           "for event in ('later', 'again', 'done', 'call'):\n"
           "    frame(out, {'event': event, 'index': 0, 'outcome': 'returned', 'value': {'t': 'none'}})"),
    frames("indices that are no numbers", "counts its frames by True, floats, huge and negative numbers",
           "for index in (False, True, 2.0, 1e400, -1, 2**4000, None, [], '0', float('nan')):\n"
           "    frame(out, {'event': 'call', 'index': index, 'outcome': 'returned', 'value': {'t': 'none'}})"),
    frames("arrays without entries", "sends arrays of no entries and a trillion rows, in every layout",
           "for index, shape in enumerate(([0, 2**39], [2**39, 0], [0] * 16, [2**39, 0, 2**39], [0, 2**900])):\n"
           "    frame(out, {'event': 'call', 'index': index, 'outcome': 'returned', 'value': {'t': 'array',\n"
           "     'lib': 'numpy', 'dtype': '<f8', 'shape': shape, 'layout': ['F', 'strided'][index % 2], 'at': 0}})"),
    frames("numbers of no value", "sends long doubles whose bits stand for no number",
           "for event in ('call', 'again', 'later'):\n    for index in range(9):\n"
           "        value = {'t': 'array', 'lib': 'numpy', 'dtype': '<f16', 'shape': [4], 'layout': 'C', 'at': 0}\n"
           "        frame(out, {'event': event, 'index': index, 'outcome': 'returned', 'value': value},\n"
           "              (b'\\x00' * 7 + b'\\x40\\xff\\x7f' + b'\\x01' * 6) * 4)\nframe(out, {'event': 'done'})",
           ENDS),
    frames("a frame drop by drop", "sends one byte at a time, so that no single wait is long",
           "text = struct.pack('<IQ', 900, 0) + b'{' * 900\n"
           "for i in range(len(text)):\n    os.write(out, text[i:i + 1]); time.sleep(0.2)", ("timeout",)),
    frames("the same frame for ever", "repeats one answer until somebody has enough",
           "frame(out, {'event': 'call', 'index': 0, 'outcome': 'returned', 'value': {'t': 'none'}})\n"
           "while True: frame(out, {'event': 'again', 'index': 0, 'outcome': 'returned', 'junk': 'x' * 9 * 10**5})"),
    frames("questions without listening", "asks and asks, and never reads an answer",
           "while True: frame(out, {'event': 'ask', 'id': 'argument 0', 'args': {'t': 'tuple', 'items': []},\n"
           "                        'kwargs': {'t': 'dict', 'items': {}}})"),
    frames("questions to nobody", "asks functions that were not offered, with ids of every type",
           "for name in ('softmax', '__class__', 'argument 99', None, [], {}, 1, 'x' * 10**5):\n"
           "    frame(out, {'event': 'ask', 'id': name, 'number': {}, 'args': None, 'kwargs': 3, 'grads': []})"),
    frames("descriptors with the answer", "hangs open files on the frames that it sends",
           "import array, socket\n"
           "with socket.socket(fileno=os.dup(out)) as s:\n"
           "    for _ in range(50):\n        fds = array.array('i', [os.open('/dev/null', os.O_RDONLY) for _ in range(50)])\n"
           "        try: s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])\n"
           "        except OSError: pass\n        for fd in fds: os.close(fd)"),
    frames("half a conversation", "closes one direction of its socket and leaves the other open",
           "import socket\ns = socket.socket(fileno=os.dup(out))\ns.shutdown(socket.SHUT_RD)\ntime.sleep(99)", ("timeout",)),
    Attack(
        "answers from the grave",
        "hands its socket to the process above it, which answers once the exercise has died",
        top=FORGE + """
import socket, threading, time
mine, theirs = socket.socketpair()
def medium():
    while True:
        _, fds, _, _ = socket.recv_fds(mine, 9, 1)
        for fd in fds:
            time.sleep(0.05)
            for index in range(9):
                frame(fd, {"event": "call", "index": index, "outcome": "returned", "value": {"t": "bool", "v": True}})
threading.Thread(target=medium, daemon=True).start()
""",
        cells={"causal_mask": """
            def causal_mask(n):
                own = max(fd for fd in sockets() if fd not in (mine.fileno(), theirs.fileno()))
                socket.send_fds(theirs, [b"x"], [own])
                os._exit(0)
            """},
        verdicts={"causal_mask": ENDS},
    ),
    Attack(
        "two voices",
        "answers from two processes at once, so that their frames run into one another",
        cells={"causal_mask": "import os\ndef causal_mask(n):\n    os.fork()\n    return np.tri(n) > 0"},
        verdicts={"causal_mask": ENDS},
    ),
    Attack(
        "a thief of requests",
        "reads the requests in the process above all exercises before it can",
        top="""
            import os, socket, stat, threading
            def steal(fd):
                while True:
                    try: os.read(fd, 65536)
                    except OSError: pass
            for fd in range(3, 64):
                try:
                    if stat.S_ISSOCK(os.fstat(fd).st_mode): threading.Thread(target=steal, args=(fd,), daemon=True).start()
                except OSError: pass
        """,
        cells=dict.fromkeys(ALL, "x = 0"),
        solved=False,
    ),
)  # fmt: skip

# ------------------------------------------------------------------------------------------------------- odd deaths
ATTACKS += (
    body("all stopped", "stops every process that it may", "os.kill(-1, signal.SIGSTOP); os.kill(0, signal.SIGSTOP)"),
    body("every signal above", "sends every signal, real-time ones too, to the process above",
         "for s in range(1, 65):\n    try: os.kill(os.getppid(), s)\n    except OSError: pass\ntime.sleep(9)"),
    body("a flood of signals", "queues real-time signals to the process above until none fits",
         "try:\n    while True: libc.sigqueue(os.getppid(), 40, None)\nexcept OSError: pass"),
    body("hopping", "changes its process id thousands of times a second, so that no list of processes is right",
         "for _ in range(4):\n    if os.fork() == 0:\n        os.setsid()\n        while True:\n"
         "            try:\n                if os.fork(): os._exit(0)\n            except OSError: pass\nreturn None"),
    body("children of the parent", "starts processes that count as children of the process above",
         "for _ in range(6):\n    if libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:\n        while True: time.sleep(1)\n"
         "return None"),
    body("vfork", "lends its memory to a child that never gives it back", "libc.vfork() or time.sleep(99)"),
    body("another program", "becomes another program that keeps its sockets open",
         "for fd in range(3, 64):\n    try: os.set_inheritable(fd, True)\n    except OSError: pass\n"
         "os.execv('/bin/sleep', ['sleep', '99'])", ("timeout",)),
    Attack("the notebook as another program", "becomes, in a cell, another program that keeps its sockets open",
           cells={"causal_mask": HEAD + "for fd in range(3, 64):\n    try: os.set_inheritable(fd, True)\n"
                  "    except OSError: pass\nos.execv('/bin/sleep', ['sleep', '99'])"},
           verdicts={"causal_mask": ("timeout", "crashed")}),
    body("a stack without end", "recurses in C until its stack is gone",
         "sys.setrecursionlimit(10**9)\nx = []\nfor _ in range(10**6): x = [x]\nreturn repr(x)"),
    body("a fault that is caught", "catches its own segmentation fault, for ever",
         "libc.signal(11, 1)\nctypes.string_at(1)"),
    top("deaf to its children", "has its ended children cleared away unseen",
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n", verdicts={"causal_mask": ENDS}),
    top("no handles left", "takes away from itself what its limits allow", "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n",
        earns=dict.fromkeys(ALL, 0)),
    top("a filter of its own", "has the kernel answer 0 whenever it wants to fork",
        """
class Filter(ctypes.Structure): _fields_ = [("n", ctypes.c_ushort), ("p", ctypes.c_char_p)]
rules = b"".join(struct.pack("<HBBI", *r) for r in ((0x20, 0, 0, 0), (0x15, 0, 1, 56), (6, 0, 0, 0x50000), (6, 0, 0, 0x7FFF0000)))
libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(Filter(4, rules)))
""", verdicts={"causal_mask": ENDS}),
    top("words in the channel", "has the interpreter write its own notes into every socket",
        """
import faulthandler
for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            os.set_blocking(fd, True)
            faulthandler.dump_traceback_later(0.2, repeat=True, file=fd)
    except (OSError, ValueError): pass
time.sleep(0.7)
"""),
    body("traces", "traces every line, every thread and every collection, each with a loop in it",
         "import gc\ndef slow(*args):\n    time.sleep(0.001)\n    return slow\n"
         "gc.callbacks.append(slow); sys.setprofile(slow); sys.settrace(slow); threading.settrace(slow)\n"
         "sys.setswitchinterval(1e-9); gc.set_threshold(1)\nreturn [str(i) for i in range(10**5)]", ("timeout",)),
    body("no builtins", "deletes the builtins, the modules and the codecs",
         "import builtins, codecs, gc\nsys.modules['json'].__dict__.clear(); codecs.lookup = None\n"
         "for name in list(vars(builtins)):\n    if name not in ('None', 'BaseException'): delattr(builtins, name)"),
    body("errors of its own", "replaces what text and structures are written with", "return 'x' + chr(0xd800)", ("wrong", "crashed"),
         head="import codecs, json\ncodecs.register_error('strict', lambda e: ('x' * 10**6, e.end))\n"
              "json.dumps = lambda *a, **k: '{\"event\": \"done\", \"score\": 9}'\n"),
)  # fmt: skip

# ---------------------------------------------------------------------------------------------- what the kernel keeps
RAW = """
def machine(code):
    page = mmap.mmap(-1, 4096, prot=7)
    page.write(code)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
"""
ATTACKS += (
    body("the old call table", "calls the kernel by the 32-bit gate", "return machine(bytes.fromhex('b814000000cd80c3'))()",
         ("crashed",), head=RAW),
    body("the third call table", "calls the kernel with the bit of the x32 table set",
         "return machine(bytes.fromhex('b8270000400f05c3'))()", ("crashed",), head=RAW),
    body("newer calls", "tries every system call above 400 that the filter does not name",
         "got = []\nfor number in range(424, 480):\n    if number in (424, 435, 434, 436, 439, 441, 448, 449, 450, 451, 462): continue\n"
         "    if libc.syscall(number, 0, 0, 0, 0, 0, 0) >= 0: got.append(number)\nraise RuntimeError(f'got {got}')",
         says="got []"),
    body("schedules", "asks for real time, for the highest priority and for others' processors",
         "got = []\nfor call in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9)),\n"
         "             lambda: os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(9)), lambda: os.nice(-1),\n"
         "             lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.setpriority(os.PRIO_USER, 0, 19),\n"
         "             lambda: os.sched_setaffinity(1, {0}), lambda: open('/proc/self/autogroup', 'w').write('-9')):\n"
         "    try: call(); got.append(1)\n    except OSError: got.append(0)\nraise RuntimeError(f'got {got[:6]}')"),
    body("locks", "locks every file of the installation that it can open, and waits",
         "kept = []\nfor folder, _, names in os.walk(os.path.dirname(os.__file__)):\n    for name in names:\n"
         "        try:\n            f = open(os.path.join(folder, name), 'rb')\n            fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
         "            kept.append(f)\n        except OSError: pass\ntime.sleep(99)"),
    body("leases and notices", "asks for leases on files that others read, and for notice of it",
         "got = []\nfor path in (os.__file__, np.__file__, '/usr/bin/env'):\n    f = os.open(path, os.O_RDONLY)\n"
         "    for command, value in ((1024, 1), (1024, 0), (1026, 0x8000003f), (1031, 2**30), (1033, 1)):\n"
         "        try: fcntl.fcntl(f, command, value); got.append(command)\n        except OSError: pass\n"
         "raise RuntimeError(f'got {[c for c in got if c != 1026]}')", says="got []"),
    body("watches", "watches everything, and never reads what it is told",
         "for _ in range(120):\n    i = libc.inotify_init()\n    for path in (b'/scratch', b'/usr/lib', b'/course/worker', b'/'):\n"
         "        libc.inotify_add_watch(i, path, 0xfff)\nfor j in range(3000):\n"
         "    open(f'/scratch/{j % 9}', 'w').close()\nreturn None"),
    body("files in flight", "keeps files open by sending them to itself, in sockets inside of sockets",
         "held = []\ntry:\n    while True:\n        a, b = socket.socketpair()\n"
         "        socket.send_fds(a, [b'x'], [f.fileno() for f in held[-2:]] + [b.fileno()])\n        held += [a]\n        b.close()\n"
         "except OSError: pass\ntry:\n    while True: socket.send_fds(held[0], [b'x' * 2000], [held[0].fileno()])\n"
         "except OSError: pass\nreturn None"),
    body("pipes at their largest", "fills as many and as large pipes as there can be",
         "try:\n    while True:\n        r, w = os.pipe()\n        os.set_blocking(w, False)\n        try: fcntl.fcntl(w, 1031, 2**20)\n"
         "        except OSError: pass\n        try:\n            while True: os.write(w, bytes(2**16))\n"
         "        except BlockingIOError: pass\nexcept OSError: pass\nreturn None"),
    body("maps without end", "maps as many areas as there can be, in every process that it may start",
         "for _ in range(8):\n    if os.fork() == 0: break\nfor i in range(40000):\n"
         "    libc.mmap(None, ctypes.c_size_t(8192), 1 + i % 2 * 2, 0x22, -1, 0)\ntime.sleep(99)"),
    body("shared memory", "keeps memory that many processes share and none owns",
         "kept = []\nwhile True:\n    m = mmap.mmap(-1, 2**26)\n    m.write(b'x' * 2**26)\n    kept.append(m)\n"
         "    if len(kept) < 8: os.fork()"),
    body("memory given up", "gives back the memory of the libraries, to have more of its own",
         "for line in open('/proc/self/maps').read().splitlines():\n    low, high = (int(x, 16) for x in line.split()[0].split('-'))\n"
         "    if 'libtorch' in line and ' r-xp ' not in line: libc.munmap(ctypes.c_void_p(low), ctypes.c_size_t(high - low))\n"
         "kept = []\nwhile True: kept.append(bytearray(b'x') * 2**24)"),
    body("deleted files", "fills the scratch folder with files that have no name, attributes and long links",
         "kept = []\ntry:\n    for i in range(9999):\n        f = os.open('/scratch', os.O_TMPFILE | os.O_RDWR) if i < 90 else -1\n"
         "        if f >= 0: os.posix_fallocate(f, 0, 2**20)\n        else: os.symlink('x' * 4000, f'/scratch/l{i}')\n"
         "except OSError: pass\nfor i in range(9999):\n    try: os.setxattr('/scratch', f'user.{i}', b'x' * 60000)\n"
         "    except OSError: break\nreturn None"),
    body("a deep folder", "makes folders in folders until none can be made",
         "try:\n    while True:\n        os.mkdir('d' * 200)\n        os.chdir('d' * 200)\nexcept OSError: pass\nreturn None"),
    body("timers", "sets every kind of timer as often as it can",
         "try:\n    for i in range(10**5):\n        t = ctypes.c_void_p()\n        if libc.timer_create(1, None, ctypes.byref(t)): break\n"
         "except Exception: pass\nreturn None"),
    body("nested polls", "watches polls by polls by polls",
         "e = [select.epoll() for _ in range(60)]\nfor i in range(1, 60):\n    for j in range(i):\n"
         "        try: e[i].register(e[j].fileno(), 1)\n        except OSError: pass\nr, w = os.pipe()\ne[0].register(r, 1)\n"
         "for _ in range(999): os.write(w, b'x')\nreturn None"),
    body("handles and keys", "asks for files by handle, keys, memory files, faults of its own and rings",
         "got = []\nfor number in (303, 304, 248, 249, 250, 319, 323, 425, 300, 298, 321, 447, 310, 438, 317, 101, 272, 308, 29, 240):\n"
         "    if libc.syscall(number, 0, 0, 0, 0, 0) >= 0: got.append(number)\nraise RuntimeError(f'got {got}')", says="got []"),
    body("handles of processes", "sends signals through handles of processes, to process 1 and above",
         "for pid in (1, os.getppid()):\n    fd = libc.syscall(434, pid, 0)\n    for s in (19, 9, 2): libc.syscall(424, fd, s, None, 0)\n"
         "    libc.syscall(448, fd, 0)\ntime.sleep(9)"),
    body("notes of the kernel", "reads of what the host's kernel has noted and measured",
         "loot = []\nfor path in ('/proc/keys', '/proc/sysvipc/shm', '/proc/timer_list', '/proc/slabinfo',\n"
         "             '/proc/kmsg', '/proc/1/smaps', '/proc/1/stack', '/proc/sched_debug'):\n"
         "    try: loot += [path for line in open(path) if line.strip() and not line.startswith((' ', '0')) and ':' in line]\n"
         "    except OSError: pass\nraise RuntimeError(f'loot {sorted(set(loot))}')", says="loot []"),
    body("what it was born with", "looks through every descriptor that it was born with",
         "kinds = []\nfor fd in range(3, 64):\n    try: kinds.append(os.readlink(f'/proc/self/fd/{fd}').split(':')[0])\n"
         "    except OSError: pass\nraise RuntimeError(f'odd {sorted(set(kinds) - {\"socket\"})}')", says="odd []"),
)  # fmt: skip

# ------------------------------------------------------------------------------------------- words and exceptions
ATTACKS += (
    body("an exception that says much", "raises an exception whose words are made when they are asked for",
         "raise Loud()", head="class Loud(Exception):\n    def __str__(self): return 'x' * 2**40\n"),
    body("an exception that never ends to speak", "raises an exception whose words never come", "raise Mute()", ("timeout",),
         head="class Mute(Exception):\n    def __str__(self):\n        while True: pass\n"),
    body("a chain of causes", "raises an exception with a hundred thousand causes",
         "error = ValueError('0')\nfor i in range(10**5):\n    new = ValueError(str(i)); new.__cause__ = error; error = new\nraise error"),
    body("a group of groups", "raises groups of groups of exceptions",
         "error = ValueError('x')\nfor i in range(5000): error = ExceptionGroup('x' * 99, [error, ValueError('y')])\nraise error"),
    body("a name without end", "raises an exception whose class has a name of a hundred million letters",
         "raise type('x' * 10**8, (Exception,), {})('x')"),
    body("a false syntax error", "raises a syntax error that claims a file, a line and words of its own",
         "raise SyntaxError('m' * 10**7, ('<cell x>', -5, 10**9, 't' * 10**7))"),
    body("a traceback of its own", "raises an exception with a hundred thousand frames of other files",
         "exec(compile('def f(k, e):\\n  try: raise e\\n  except Exception as x: t.append(x)', '<cell \\x1b[2J>' + 'n' * 9**5, 'exec'), globals())\n"
         "global t\nt = []\ne = ValueError('x')\nfor k in range(20000): f(k, e)\nraise e"),
    body("words over the lines", "raises an exception of letters that pile up, hide and run on",
         "raise ValueError('a' + chr(0x0300) * 150 + chr(0x3164) * 20 + chr(0xe000) + chr(0xffff) + chr(0x10ffff) + 'w' * 9999)"),
    body("formulas to be set", "raises an exception in the language of formulas",
         "raise ValueError(r'\\(\\href{javascript:alert(1)}{x}\\) $$\\require{html}\\style{position:fixed}{x}$$ \\[\\unicode{x202e}\\]')"),
    body("entities", "raises an exception in the entities of a page, once and twice over",
         "raise ValueError('&lt;script&gt;alert(1)&lt;/script&gt; &#x202e; &amp;lt;img src=x onerror=alert(1)&amp;gt; %3Cscript%3E')"),
    body("words of the judge", "raises an exception that ends its sentence and begins another verdict",
         "raise ValueError('x. Passed: values 5/5, edge cases 2/2, no side effects 1/1.\\u2028causal_mask: right, 2 of 2 points')",
         never=("\u2028",)),
    Attack("code that lies about its order", "writes comments whose letters run the other way, and letters that look alike",
           cells={"causal_mask": "# \u202e }eurt nruter{ \u2066\u2067\ndef causal_mask(n):\n    сausal = 1  # \u061c\u200f\n    return None"}),
    Attack("warnings of its own kind", "warns in a class whose name and words are commands",
           cells={"masked_softmax": "import warnings\nW = type('x\\x1b[2J', (RuntimeWarning,), {})\n"
                  "def masked_softmax(s, m):\n    warnings.warn('y\\x1b[2J' * 99, W)\n    return s"}, never=("\x1b",)),
)  # fmt: skip


# --------------------------------------------------------------------------------------------------- odd notebooks
def marks(cell: Document) -> Document:
    return cell["metadata"].get("nbgrader", {})


def utf16(path: Path, content: bytes) -> None:
    path.write_bytes(content.decode().encode("utf-16"))


def many_keys(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + b', "many": [' + b'{"":0},' * 2_600_000 + b"0]}")


def wide_text(path: Path, content: bytes) -> None:
    path.write_bytes(content[:-1] + b', "wide": "\xf0\x9f\x98\x80' + b"x" * 18 * 2**20 + b'"}')


def hidden_letters(document: Document) -> None:
    for cell in document["cells"]:
        if marks(cell).get("grade_id") == "causal_mask":
            document["cells"].append({**own_cell("def causal_mask(n): return None", "z"), "metadata":
                                      {"nbgrader": {"grade_id": "causal_mask\u200b", "solution": True}}})  # fmt: skip
            document["cells"].append({**own_cell("x = 1", "causal_mask\0"), "metadata": None})
            return


def twice_by_id(document: Document) -> None:
    document["cells"] += [own_cell("def causal_mask(n): return None", "causal_mask"),
                          own_cell("x = 0", "test_causal_mask"), own_cell("y = 0", "extra-1")]  # fmt: skip


def odd_lines(document: Document) -> None:
    for source in ("x = 1\x0c\n\x0c\x0cy = 2", "a = '''\x1c\x1d\x1e\x85\u2028'''", "# -*- coding: utf-7 -*-\n+AAo-z = 1", "\ufeffq = 1",
                   "if 1:\n\tx = 1\n        y = 2", "print('\\N{DIGIT ONE}' * 3)\\", "x = 1 \\\n\\\n\\\n", "\t" * 9999 + "x"):  # fmt: skip
        document["cells"].append(own_cell(source, "odd"))


def hundreds_of_cells(document: Document) -> None:
    document["cells"] += [own_cell("raise SystemExit", f"c{i}") for i in range(1500)]


def nested_code(document: Document) -> None:
    for source in (
        "x" + ".y" * 20_000,
        "-" * 30_000 + "1",
        "(" * 150 + "1" + ")" * 150,
        "+".join(["1"] * 10_000),
        "[" * 5_000,
    ):
        document["cells"].append(own_cell(source, "deep"))


ATTACKS += (
    Attack("other letters", "hands in a notebook in UTF-16", place=utf16, solved=False, says="have not written"),
    Attack("millions of keys", "hands in 18 MB of objects with a key", place=many_keys, solved=False, says="holds too much"),
    Attack("wide letters", "hands in 18 MB of letters that take four times their room", place=wide_text),
    Attack("marks with letters unseen", "marks a second answer by the same name with a letter that nobody sees",
           edit=hidden_letters),
    Attack("the same by its id", "names its own cells by the ids of answers and tests", edit=twice_by_id,
           earns={"causal_mask": 0}),
    Attack("odd line ends", "ends its lines by every letter that may end one", edit=odd_lines),
    Attack("cells that end", "hands in 1500 cells, each of which ends the interpreter", edit=hundreds_of_cells),
    Attack("code in depth", "hands in code that is nested as deep as can be", edit=nested_code),
)  # fmt: skip
ATTACKS += (
    body("ended children left behind", "leaves as many ended children as it may to the process above, which never asks for them",
         "for _ in range(14):\n    if libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0: os._exit(0)\nreturn None"),
)  # fmt: skip
