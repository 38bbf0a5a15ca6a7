"""What an exercise forbids is seen where an answer calls it, and only there: every answer here is run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from autograder.exercises import exercises, find_exercise, unit_names
from autograder.exercises.kit import Case
from autograder.grading.in_process import judge_function
from autograder.judging.hidden_cases import Challenge
from autograder.reading.cell_syntax import Uses
from autograder.reading.course_contents import Course
from autograder.records import CellSource
from autograder.running.limits import Limits
from autograder.running.sandbox import Sandbox, open_sandbox
from autograder.running.sandbox_messages import Request
from hostile.attack import ROOT, solutions

NUMPY = find_exercise("softmax").forbidden
TORCH = find_exercise("bmm_attention").forbidden
X = "scaled_dot_product_attention"
GIVEN = """
import operator, sys, threading, functools
import numpy as np, torch, torch.nn.functional as F
from torch import nn
def attend(Q, K, V):
    return F.scaled_dot_product_attention(Q, K, V)
def widen(W):
    return torch.cat([W, W], -1)
"""
OWN = "def f(Q, K, V):\n    return torch.softmax(Q @ K.mT, -1) @ V"
OTHER = f"def other(Q, K, V):\n    return F.{X}(Q, K, V)"


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with open_sandbox(Limits(), unsafe=True) as opened:
        yield opened


@pytest.fixture
def used(sandbox):
    """What `f` is found to use, or None; a wrong or failing answer uses nothing."""

    def ask(sources, forbidden=TORCH, library="torch", n_args=3, shape=(2, 4, 3)) -> str | None:
        values = np.random.default_rng(5).standard_normal(shape)
        cases = [Case("values", "one", (values + i,) * n_args) for i in range(2)]
        given = GIVEN if library == "torch" else "import numpy as np"
        cells = [CellSource("given", "given", given)]
        cells += [CellSource(f"own-{i}", "answer", source) for i, source in enumerate(sources)]
        with sandbox.session(cells) as session:
            answer = session.ask(Request("f", cases, None, library, forbidden))
        return answer.reason if answer.status == "forbidden" else None

    return ask


@pytest.fixture
def of_numpy(used):
    return lambda sources: used(sources, NUMPY, "numpy", 1, (3, 4))


@pytest.mark.parametrize(
    ("module", "sources"),
    [
        ("scipy", ["def f(z):\n    import scipy.special\n    return scipy.special.softmax(z)"]),
        ("scipy", ["from scipy.special import softmax as s\ndef f(z):\n    return s(z)"]),
        ("torch", ["import torch as t", "def f(z):\n    return t.softmax(t.from_numpy(z), -1).numpy()"]),
        ("torch", ["from functorch import torch as t\ndef f(z):\n    return t.exp(t.tensor(z)).numpy()"]),
        ("scipy", ["import scipy", "def helper(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return helper(z)"]),
        ("scipy", ["from scipy.special import softmax\nf = softmax"]),
        ("scipy", ["def f(z):\n    return __import__('scipy.special').special.softmax(z)"]),
        ("scipy", ["def f(z):\n    return __import__('sci' + 'py.special').special.softmax(z)"]),
        ("scipy", ["import importlib", "def f(z):\n    return importlib.import_module('scipy.special').softmax(z)"]),
        ("scipy", ["%matplotlib inline\nfrom scipy import special\ndef f(z):\n    return special.softmax(z)"]),
        ("torch", ["import sys\ndef f(z):\n    t = sys.modules['torch']\n    return t.relu(t.tensor(z)).numpy()"]),
        ("scipy", ["from pkgutil import resolve_name\ndef f(z):\n    return resolve_name('scipy.special:softmax')(z)"]),
        ("scipy", ["def f(z):\n    exec('import scipy.special as s')\n    return locals()['s'].softmax(z)"]),
        ("scipy", ["code = '''\nfrom scipy.special import softmax as f\n'''\nexec(code)"]),
        ("scipy", ["def f(z):\n    return eval('s(z)', {'s': __import__('scipy.special').special.softmax, 'z': z})"]),
        ("scipy", ["from scipy.special import *", "def f(z):\n    return softmax(z)"]),
        ("scipy", ["import scipy\ndef f(z, scipy=scipy):\n    return scipy.special.softmax(z)"]),
        ("scipy", ["import scipy.special as s\nstep = s.softmax.__call__\ndef f(z):\n    return next(map(step, [z]))"]),
        ("scipy", ["import scipy.special as s, threading\ndef f(z):\n    out = []\n"
                   "    t = threading.Thread(target=lambda: out.append(s.softmax(z)))\n    t.start(), t.join()\n"
                   "    return out[0]"]),
        ("scipy", ["import scipy.special as s\ndef f(z):\n    try:\n        return s.softmax(z)\n"
                   "    except BaseException:\n        return z"]),
        ("what hides its calls", ["import scipy.special as s, sys\ndef f(z):\n    sys.setprofile(None)\n"
                                  "    return s.softmax(z)"]),
    ],
)  # fmt: skip
def test_a_module_is_seen_at_work(of_numpy, module, sources):
    assert of_numpy(sources) == module


@pytest.mark.parametrize(
    "sources",
    [
        ["import numpy as np\ndef f(z):\n    return np.exp(z)"],
        ["import scipy.special", "def g(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return z"],
        ["import torch", "def f(torch):\n    return torch + 1"],
        ["import numpy as np, scipy\ndef f(z):\n    return np.linalg.norm(z)"],
        ["def f(z):\n    return z  # not scipy", "x = 'scipy'"],
        ["def f(z):\n    'The softmax of z. Do not use scipy.special.softmax or torch.'\n    return z"],
        ["def f(z):\n    if z is None:\n        raise ValueError('scipy')\n    return getattr(z, 'T')"],
        ["def f(z):\n    return z\n%timeit -n 1 -r 1 f(1)\n!pip install scipy\nf?", "x = !ls"],
        ["import scipy.special\nfrom torch import nn\ndef f(z):\n    return z\n"
         "assert (f(1) == scipy.special.softmax([1])).all()\n%timeit -n 1 -r 1 scipy.special.softmax([1])"],
        ["from scipy.special import *", "import numpy as np\ndef f(z):\n    n = len(z)\n    return np.exp(z) / n"],
        ["def f(z):\n    name = 'scipy'\n    return {'torch': z, name: z}['torch']"],
        ["def f(z):\n    return '-' * 3 and z\nx = " + "-" * 80 + "1"],
    ],
)  # fmt: skip
def test_a_module_is_not_imagined(of_numpy, sources):
    assert of_numpy(sources) is None


def calling(text: str) -> list[str]:
    return [f"def f(Q, K, V):\n    return {text}"]


@pytest.mark.parametrize(
    "sources",
    [
        calling(f"F.{X}(Q, K, V)"),
        calling(f"torch._C._nn.{X}(Q, K, V)"),
        calling("getattr(F, 'scaled_dot' + '_product_attention')(Q, K, V)"),
        calling(f"vars(F)['{X}'](Q, K, V)"),
        calling(f"eval('F.{X}(Q, K, V)')"),
        calling(f"functools.partial(F.{X}, Q)(K, V)"),
        calling(f"operator.methodcaller('{X}', Q, K, V)(F)"),
        calling(f"next(map(F.{X}, [Q], [K], [V]))"),
        calling("torch.ops.aten._scaled_dot_product_attention_math(Q, K, V)[0]"),
        calling(f"torch.ops.aten.{X}.default(Q, K, V)"),
        calling("torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(Q[None], K[None], V[None])[0][0]"),
        calling(f"torch._C._jit_get_operation('aten::{X}')[0](Q, K, V)"),
        calling(f"torch.jit.trace(lambda q, k, v: F.{X}(q, k, v), (Q, K, V))(Q, K, V)"),
        calling(f"torch.compile(F.{X})(Q, K, V)"),
        calling(f"torch.vmap(F.{X})(Q[None], K[None], V[None])[0]"),
        calling(f"torch.func.functional_call(nn.Identity(), {{}}, (F.{X}(Q, K, V),))"),
        calling(f"torch.utils.checkpoint.checkpoint(F.{X}, Q, K, V, use_reentrant=False)"),
        calling("nn.MultiheadAttention(3, 1, dtype=Q.dtype)(Q, K, V)[0]"),
        calling("F.multi_head_attention_forward(Q, K, V, 3, 1, torch.eye(9, 3).double(), None, None, None, False, 0.0,"
                " torch.eye(3).double(), None)[0]"),
        calling("nn.TransformerEncoderLayer(3, 1, 4, dtype=Q.dtype)(Q)"),
        calling("__import__('torch.nn.attention.flex_attention').nn.attention.flex_attention.flex_attention(Q, K, V)"),
        [*calling("globals()['g'](Q, K, V)"), f"g = F.{X}"],
        [f"f = F.{X}"],
        [f"%time f = lambda *a: F.{X}(*a)"],
        [f"{OWN}\n{OTHER}\nf.__code__ = other.__code__"],
        [OWN, f"{OTHER}\nname = 'f'\nglobals()[name] = other"],
        [OWN, f"exec('f = F.{X}')"],
        [f"exec(b'f = lambda *a: F.{X}(*a)')"],
        [f"import pickle\nf = pickle.loads(b'ctorch.nn.functional\\n{X}\\n.')"],
        [f"def f(Q, K, V, H=torch.nn.functional):\n    return H.{X}(Q, K, V)"],
        [f"def f(Q, K, V):\n    try:\n        return F.{X}(Q, K, V)\n    except BaseException:\n        return Q"],
        [f"def f(Q, K, V):\n    return next(F.{X}(q, K, V) for q in [Q])"],
        [f"def f(Q, K, V):\n    out = []\n    class Late:\n        def __del__(self):\n"
         f"            out.append(F.{X}(Q, K, V))\n    Late()\n    return out[0]"],
        [f"def f(Q, K, V):\n    out = []\n    t = threading.Thread(target=lambda: out.append(F.{X}(Q, K, V)))\n"
         "    t.start(), t.join()\n    return out[0]"],
        [f"def f(Q, K, V):\n    Q.requires_grad_().register_hook(lambda g: F.{X}(g, K, V))\n    Q.sum().backward()\n"
         "    return Q.grad"],
        [f"def f(Q, K, V):\n    with torch._C.DisableTorchFunction(), torch.inference_mode():\n"
         f"        return F.{X}(Q, K, V)"],
        ["def f(Q, K, V):\n    from torch._higher_order_ops.flex_attention import math_attention as m\n"
         "    return m(Q, K, V)"],
        ["from torch.onnx.ops import _impl\n" + calling("_impl.attention_23(Q[None], K[None], V[None])[0]")[0]],
        calling("__import__('torch.onnx.ops').onnx.ops._impl.attention_23(Q[None], K[None], V[None])[0]"),
        ["from torch._decomp.decompositions import scaled_dot_product_flash_attention_for_cpu as whole",
         *calling("whole(Q[None], K[None], V[None])[0][0]")],
        [f"import torch.nn.functional as G\ndef f(Q, K, V):\n    return G.{X}(Q, K, V)\nx = " + "-" * 80 + "1"],
    ],
)  # fmt: skip
def test_a_call_is_seen_by_whatever_way(used, sources):
    assert used(sources)


@pytest.mark.parametrize(
    "sources",
    [
        [OWN],
        [f"{OWN}\nQ = torch.rand(1, 2, 3)\nassert f(Q, Q, Q).shape == F.{X}(Q, Q, Q).shape"],
        [f"# not F.{X}\n{OWN}  # as F.{X} does"],
        [f"def {X}(Q, K, V):\n    return Q @ K.mT @ V\ndef f(Q, K, V):\n    return {X}(Q, K, V)"],
        [f"class A:\n    def {X}(self, q):\n        return q\ndef f(Q, K, V):\n    return A().{X}(Q)"],
        [OWN, f"{OTHER}\nQ = torch.rand(1, 2, 3)\n%timeit -n 1 -r 1 other(Q, Q, Q)"],
        [f"def f(Q, K, V):\n    F.{X}, nn.MultiheadAttention, torch._refs\n    return Q"],
        calling("nn.Sequential(nn.Linear(3, 3, dtype=Q.dtype), nn.LayerNorm(3, dtype=Q.dtype), nn.GELU())(Q)"),
        calling("attend(Q, K, V)"),
        ["mine = attend", *calling("mine(Q, K, V)")],
        calling("torch.func.jvp(torch.tanh, (Q,), (K,))[1]"),
        calling("torch.einsum('bij,bkj->bik', torch.softmax(Q, -1), K) @ V"),
        calling("torch.linalg.norm(F.normalize(Q)) * torch.special.erf(Q) + F.layer_norm(Q, (3,))"),
    ],
)  # fmt: skip
def test_honest_answers_are_free(used, sources):
    assert used(sources) is None


def test_a_given_function_may_use_what_an_answer_may_not(used):
    both = ["def f(Q, K, V):\n    return attend(Q, K, V) + F.scaled_dot_product_attention(Q, K, V)"]
    assert used(both) == f"torch.nn.functional.{X}"


def test_a_given_function_can_be_forbidden(used):
    forbidden = (*TORCH, "widen")
    for text in ("widen(Q)", "globals()['widen'](Q)", "functools.partial(widen)(Q)"):
        assert used(calling(text), forbidden) == "widen"
    assert used(["g = widen", *calling("g(Q)")], forbidden) == "widen"
    assert used(["def widen(W):\n    return W", *calling("widen(Q)")], forbidden) is None
    assert used(["def f(Q, K, widen):\n    return widen"], forbidden) is None


def asked(name: str, text: str) -> str:
    """What is said of a function of x, gamma, beta and eps, or of x."""
    space: dict[str, object] = {}
    arguments = "x" if name == "gelu" else "x, gamma, beta, eps=1e-5"
    exec(f"import torch\nfrom torch import nn\nF = nn.functional\ndef f({arguments}):\n    return {text}", space)
    verdict = judge_function(space["f"], name, 3)
    assert verdict.verdict != "forbidden" or "uses torch" in verdict.message
    return verdict.verdict


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm"])
def test_no_norm_of_torchs_does_the_work_of_another(name):
    d = "x.shape[-1]"
    for call in (
        f"F.layer_norm(x, ({d},))", f"nn.LayerNorm({d}, dtype=x.dtype)(x)", f"F.rms_norm(x, ({d},))",
        f"nn.RMSNorm({d}, dtype=x.dtype)(x)", "F.instance_norm(x.reshape(1, -1, 2))", "F.layer_norm(x.T, x.T.shape).T",
        f"F.batch_norm(x.reshape(-1, {d}), None, None, training=True)", "torch.native_layer_norm(x, (1,), None, None, eps)",
        f"nn.BatchNorm1d({d}, dtype=x.dtype)(x.reshape(-1, {d}))", f"F.group_norm(x.reshape(-1, {d}), 1)",
        f"torch._refs.native_layer_norm(x, ({d},), None, None, eps)[0]", "torch._refs._normalize(x, [0], eps)[0]",
        f"torch._decomp.decompositions.native_batch_norm(x.reshape(-1, {d}), gamma, beta, None, None, True, 0.1, eps)[0]",
        f"torch._fused_rms_norm(x, ({d},), None, eps)[0]",
    ):  # fmt: skip
        assert asked(name, call) == "forbidden", call
    assert asked(name, "(x - x.mean(-1, keepdim=True)) * gamma / torch.linalg.vector_norm(x) + beta") == "wrong"


def test_no_gelu_of_torchs_does_the_exercise():
    for call in ("F.gelu(x)", "nn.GELU()(x)", "torch.ops.aten.gelu(x)", "torch._C._nn.gelu(x)", "torch._C._nn.gelu_(x + 0)",
                 "torch._refs.nn.functional.gelu(x)", "F.gelu(x, approximate='tanh')",
                 "nn.modules.transformer._get_activation_fn('ge' + 'lu')(x)"):  # fmt: skip
        assert asked("gelu", call) == "forbidden", call
    assert asked("gelu", "x * torch.special.ndtr(x)") == "right"
    assert asked("gelu", "x * torch.sigmoid(1.702 * x) + F.silu(x) * 0") == "wrong"


NO_AUTOGRAD = find_exercise("flash_backward").forbidden
SCRIPT = """
UNIT = torch.jit.CompilationUnit('def g(Q, K):\\n q = Q.clone().requires_grad_()\\n '
                                 'return torch.autograd.grad([(q * K).exp().sum()], [q])[0]\\n')
"""
RECORDED = "q = Q.clone(); q.requires_grad = True; out = (q * K).exp()"


@pytest.mark.parametrize(
    "lines",
    [
        "return UNIT.g(Q, K)",
        f"{RECORDED}\nreturn torch._C._EngineBase().run_backward((out,), (V,), False, False, (q,), False, False)[0]",
        f"{RECORDED}\nreturn out.grad_fn(V)",
        f"{RECORDED}\nreturn torch.ops.aten._backward(out, [q], V)",
    ],
    ids=["a script", "the engine", "by hand", "the operator"],
)
def test_what_is_recorded_for_a_gradient_is_seen_by_whatever_door(used, lines):
    source = "def f(Q, K, V):\n" + "".join(f"    {line}\n" for line in lines.split("\n"))
    assert used([SCRIPT, source], NO_AUTOGRAD) == "torch.autograd"


def test_nothing_is_recorded_where_no_gradient_is_asked_for(used):
    assert used(["def f(Q, K, V):\n    return torch.softmax(Q @ K.mT, -1) @ V"], NO_AUTOGRAD) is None


@pytest.mark.nightly
@pytest.mark.parametrize("unit", unit_names())
def test_the_solutions_are_free(unit, sandbox):
    challenge, answers = Challenge(3), solutions(unit)
    release = Course(ROOT).release(unit)
    cells = [
        CellSource(f"given-{i}", "given", cell.source)
        for i, cell in enumerate(release.cells)
        if "given" in cell.metadata.get("tags", [])
    ]
    cells += [CellSource(name, "answer", source) for name, source in answers.items()]
    with sandbox.session(cells) as session:
        for name, exercise in exercises(unit).items():
            cases = challenge.posed(name).cases
            found = session.ask(Request(name, cases, None, exercise.library, exercise.forbidden))
            assert found.status == "answered", (name, found.reason)


def test_what_an_answer_may_lead_to_is_read_from_its_names():
    uses = Uses(
        ["def a(x):\n    return b(x)", "def b(x):\n    return c.d(x) + e\ne = 3", "import k as m\nh = [b]"]
    ).uses
    assert uses("a", "b") and uses("a", "c") and uses("a", "d") and uses("b", "e") and uses("h", "b")
    assert not uses("b", "a") and not uses("e", "b")
    assert uses("not there", "anything")
    assert Uses(["def f(x):\n    return globals()['g'](x)"]).uses("f", "g")
    assert Uses(["f = " + "(" * 300 + "1" + ")" * 300]).uses("f", "g"), "a cell that cannot be read may use anything"
    assert Uses(["def f(x):\n    return x", "f.other = g"]).uses("f", "g")
