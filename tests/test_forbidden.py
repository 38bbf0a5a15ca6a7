"""Forbidden libraries are found where an answer uses them, and only there."""

from __future__ import annotations

import contextlib
import gc
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from autograder.exercises import exercises, find_exercise, unit_names
from autograder.reading import forbidden as forbidden_module
from autograder.reading.forbidden import Survey, Tangled, find_forbidden
from autograder.reading.syntax import definitions, read, statements
from hostile.attack import solutions

FORBIDDEN = ("scipy", "torch", "autograder")
NUMPY = find_exercise("softmax").forbidden
TORCH = find_exercise("bmm_attention").forbidden
NORM = find_exercise("layer_norm").forbidden
X = "scaled_dot_product_attention"
DEF = f"def bmm_attention(Q, K, V, mask=None):\n    return F.{X}(Q, K, V)"
OTHER = f"def other(Q, K, V, mask=None):\n    return F.{X}(Q, K, V)"
OWN = "def bmm_attention(Q, K, V, mask=None):\n    return torch.softmax(Q @ K.mT, -1) @ V"


@pytest.mark.parametrize(
    "sources",
    [
        ["def f(z):\n    import scipy.special\n    return scipy.special.softmax(z)"],
        ["from scipy.special import softmax as s\ndef f(z):\n    return s(z)"],
        ["import torch as t", "def f(z):\n    return t.softmax(z)"],
        ["import scipy", "def helper(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return helper(z)"],
        ["from scipy.special import softmax\nf = softmax"],
        ["def f(z):\n    return __import__('scipy.special').special.softmax(z)"],
        ["import importlib", "def f(z):\n    return importlib.import_module('scipy.special').softmax(z)"],
        ["%matplotlib inline\nfrom scipy import special\ndef f(z):\n    return special.softmax(z)"],
        ["from importlib import import_module as im\ndef f(z):\n    return im('scipy.special').softmax(z)"],
        ["import importlib as i, sys\ndef f(z):\n    return i.import_module(name='scipy.special').softmax(z)"],
        ["import sys\ndef f(z):\n    return sys.modules['torch'].softmax(z, -1)"],
        ["from sys import modules\ndef f(z):\n    return modules['torch'].softmax(z, -1)"],
        ["import sys\ndef f(z):\n    return sys.modules.get('torch').softmax(z, -1)"],
        ["from pkgutil import resolve_name\ndef f(z):\n    return resolve_name('scipy.special:softmax')(z)"],
        ["name = 'scipy.special'\ndef f(z):\n    return __import__(name).special.softmax(z)"],
        ["def f(z):\n    exec('import scipy.special as s')\n    return locals()['s'].softmax(z)"],
        ["code = '''\nfrom scipy.special import softmax as f\n'''\nexec(code)"],
        ["def f(z):\n    return eval('s(z)', {'s': eval(\"__import__('scipy.special').special.softmax\"), 'z': z})"],
        ["from scipy.special import *", "def f(z):\n    return softmax(z)"],
        ["import numpy as np, scipy as s\ndef f(z):\n    return s.special.softmax(np.array(z))"],
        ["import scipy\ndef f(z, scipy=scipy):\n    return scipy.special.softmax(z)"],
        ["import scipy\ndef f(z):\n    [scipy for scipy in ()]\n    return scipy.special.softmax(z)"],
        [
            "import scipy\ndef f(z):\n    def g():\n        global scipy\n        return scipy\n    return g().special(z)"
        ],
    ],
)
def test_it_is_found(sources):
    assert find_forbidden("f", sources, FORBIDDEN)


@pytest.mark.parametrize(
    "sources",
    [
        ["import numpy as np\ndef f(z):\n    return np.exp(z)"],
        ["import scipy", "def g(z):\n    return scipy.special.softmax(z)", "def f(z):\n    return z"],
        ["def f(torch):\n    return torch + 1"],
        ["import torch", "def f(torch):\n    return torch + 1"],
        ["import numpy as np, scipy\ndef f(z):\n    return np.exp(z)"],
        ["def f(z):\n    return z  # not scipy", "x = 'scipy'"],
        ["def f(z:\n    broken"],
        ["def g(z):\n    import scipy.special as s\n    return s.softmax(z)", "def f(s):\n    return s + 1"],
        ["def f(z):\n    'The softmax of z. Do not use scipy.special.softmax or torch.'\n    return z"],
        ["def f(z):\n    if z is None:\n        raise ValueError('scipy')\n    return getattr(z, 'T')"],
        ["def f(z):\n    if z is None:\n        raise ValueError('use softmax, not scipy.special')\n    return z"],
        ["def f(z):\n    assert z.ndim, 'torch and scipy return something else here'\n    return z"],
        ["def f(z):\n    return z\n%timeit f(x)\n!pip install scipy\nf?", "x = !ls\n%pip install torch scipy"],
        ["import scipy.special\ndef f(z):\n    return z\nassert (f(1) == scipy.special.softmax(1)).all()"],
        [
            "import scipy.special\ndef f(z):\n    return z\n%timeit scipy.special.softmax(1)\nwant = scipy.special.softmax(1)"
        ],
        [
            "import torch\ndef f(z):\n    return z\ndef check(n):\n    return globals()[n](1), torch.softmax(1)\ncheck('f')"
        ],
        ["from scipy.special import *", "import numpy as np\ndef f(z):\n    n = len(z)\n    return np.exp(z) / n"],
    ],
)
def test_it_is_not_imagined(sources):
    assert find_forbidden("f", sources, FORBIDDEN) is None


@pytest.mark.parametrize(
    "sources",
    [
        [f"{DEF}\nF?"],
        [f"{DEF}\nx = !ls"],
        [f"{DEF}\n!ls\n?F\n%matplotlib inline"],
        [f"class M:\n    __mod__ = __call__ = None\ndef bmm_attention(*a):\n    return (M()\n% F.{X})(*a)"],
        [f"%time bmm_attention = lambda *a: F.{X}(*a)"],
        [f"%timeit -n 1 -r 1 pass\n%time %time bmm_attention = lambda *a: F.{X}(*a)"],
        [f"time bmm_attention = lambda *a: F.{X}(*a)"],
        [f"%%time\n{DEF}"],
        [f"%%capture out\n%%time\n{DEF}"],
        [f"if True:\n    %time bmm_attention = lambda *a: F.{X}(*a)"],
        [f">>> def bmm_attention(*a):\n...     return F.{X}(*a)"],
        [f"get_ipython().run_cell('''{DEF}''')"],
        [f"shell = get_ipython()\nshell.run_cell_magic('time', '', '''{DEF}''')"],
        [f"H = torch.nn.functional\ndef bmm_attention(*a):\n    return H.{X}(*a)"],
        [f"for H in [F]:\n    pass\ndef bmm_attention(*a):\n    return H.{X}(*a)"],
        [f"def bmm_attention(Q, K, V, mask=None, H=torch.nn.functional):\n    return H.{X}(Q, K, V)"],
        [f"def bmm_attention(Q, K, V, mask=None, g=F.{X}):\n    return g(Q, K, V)"],
        ["N = torch.nn\ndef bmm_attention(*a):\n    return N.attention.a(*a)"],
        [f"from torch.nn.functional import *\ndef bmm_attention(*a):\n    return {X}(*a)"],
        [f"{OWN}\n{OTHER}\nglobals()['bmm_attention'] = other"],
        [OWN, f"{OTHER}\nname = 'bmm' + '_attention'\nglobals()[name] = other"],
        [OWN, f"{OTHER}\nglobals().update(bmm_attention=other)"],
        [OWN, f"g = globals()\n{OTHER}\ng['bmm_attention'] = other"],
        [OWN, f"import __main__\n__main__.bmm_attention = F.{X}"],
        [OWN, f"import sys\nsetattr(sys.modules['__main__'], 'bmm_attention', F.{X})"],
        [OWN, f"import sys\nsys._getframe().f_globals.update(bmm_attention=F.{X})"],
        [OWN, f"def put(g):\n    global bmm_attention\n    bmm_attention = g\nput(F.{X})"],
        [OWN, f"def put(n, g):\n    globals()[n] = g\nput('bmm' + '_attention', F.{X})"],
        [OWN, f"exec('bmm_attention = F.{X}')"],
        [f"match F.{X}:\n    case bmm_attention:\n        pass"],
        [f"match F:\n    case object({X}=bmm_attention):\n        pass"],
        [f"try:\n    raise E(F.{X})\nexcept E as bmm_attention:\n    pass"],
        ["g = {}\ng['x'] = F." + X, "def bmm_attention(*a):\n    return g['x'](*a)"],
        ["g = []\ng.append(F." + X + ")", "def bmm_attention(*a):\n    return g[0](*a)"],
        [f"{OWN}\nbmm_attention.__code__ = (lambda *a: F.{X}(*a)).__code__"],
        ["def bmm_attention(*a):\n    return torch.ops.aten._scaled_dot_product_attention_math(*a)[0]"],
        ["def bmm_attention(*a):\n    return torch._C._nn." + X + "(*a)"],
        ["def bmm_attention(*a):\n    return torch._native_multi_head_attention(*a)"],
        ["def bmm_attention(*a):\n    return torch.onnx.ops._impl.attention_23(*a)[0]"],
        ["def bmm_attention(*a):\n    return torch.ops.onnx.Attention.opset23(*a)[0]"],
        ["from torch.onnx.ops import _impl\ndef bmm_attention(*a):\n    return _impl.attention_23(*a)[0]"],
        ["from torch._decomp import decompositions as d\ndef bmm_attention(*a):\n    return d.scaled_dot(*a)[0]"],
        ["from torch._inductor.fx_passes.fuse_attention import _sfdp_pattern_1 as bmm_attention"],
        ["def bmm_attention(*a):\n    return torch.nested._internal.sdpa.jagged(*a)"],
        ["import functorch\ndef bmm_attention(*a):\n    return functorch.torch.nn.attention.x(*a)"],
        ["from torch.nn.attention.flex_attention import flex_attention as g\ndef bmm_attention(*a):\n    return g(*a)"],
        ["import torch.nn.attention.flex_attention as m\ndef bmm_attention(*a):\n    return m.flex_attention(*a)"],
        [f"def bmm_attention(*a):\n    return getattr(F, '{X}')(*a)"],
        [f"n = '{X}'\ndef bmm_attention(*a):\n    return getattr(F, n)(*a)"],
        [f"def bmm_attention(*a):\n    return vars(F)['{X}'](*a)"],
        [f"def bmm_attention(*a):\n    return F.__dict__['{X}'](*a)"],
        [
            f"from operator import attrgetter\ndef bmm_attention(*a):\n    return attrgetter('functional.{X}')(torch.nn)(*a)"
        ],
        [f"import pkgutil\nbmm_attention = pkgutil.resolve_name('torch.nn.functional:{X}')"],
        ["def bmm_attention(*a):\n    return torch._C._jit_get_operation('aten::" + X + "')[0](*a)"],
        [f"def bmm_attention(*a):\n    return eval('F.{X}(*a)')"],
        [f"exec(b'bmm_attention = lambda *a: F.{X}(*a)')"],
        [f"import pickle\nbmm_attention = pickle.loads(b'ctorch.nn.functional\\n{X}\\n.')"],
        [f"import ctypes\nbmm_attention = ctypes.pythonapi.PyObject_GetAttrString(F, b'{X}')"],
        [f"def bmm_attention(*a):\n    '{X}'\n    return getattr(F, bmm_attention.__doc__)(*a)"],
        [f"g = torch.overrides.get_testing_overrides()\nbmm_attention, = [f for f in g if f.__name__ == '{X}']"],
        [f"import inspect\nbmm_attention = dict(inspect.getmembers_static(F))['{X}']"],
        [f"import unittest.mock as m\nbmm_attention = m._importer('torch.nn.functional.{X}')"],
        [OTHER, "import __main__ as m\ndef bmm_attention(*a):\n    return m.other(*a)"],
        [OTHER, "def bmm_attention(*a):\n    from __main__ import other as o\n    return o(*a)"],
        ["def bmm_attention(*a):\n    return nn.Transformer(8)(*a)"],
        [f"def bmm_attention(*a):\n    return F.{X}(*a)\nx = " + "-" * 5000 + "1"],
        [OWN, f"def bmm_attention(*a):\n    return F.{X}(*a)\nx = " + "-" * 2500 + "1"],
    ],
)
def test_ways_around_it_are_found(sources):
    for answer in (None, sources[-1]):
        try:
            assert find_forbidden("bmm_attention", sources, TORCH, answer=answer), answer
        except Tangled:
            assert "-" * 2500 in sources[-1]


@pytest.mark.parametrize(
    "sources",
    [
        [OWN],
        [f"{OWN}\nassert torch.allclose(bmm_attention(Q, K, V), F.{X}(Q, K, V))"],
        [f"{OWN}\nwant = F.{X}(Q, K, V)\nfor n in (3, 5):\n    print(want - bmm_attention(Q, K, V))"],
        [f"# not F.{X}\n{OWN}  # as F.{X} does"],
        [OWN.replace("None):\n", f"None):\n    'Without F.{X} or nn.MultiheadAttention.'\n")],
        [OWN.replace("None):\n", f"None):\n    if mask is None: raise ValueError('{X} is not meant: use a mask')\n")],
        [f"def {X}(Q, K, V):\n    return Q @ K.mT @ V\ndef bmm_attention(Q, K, V):\n    return {X}(Q, K, V)"],
        [f"def bmm_attention({X}, K, V):\n    return {X} @ K @ V"],
        [f"class A:\n    def {X}(self, q):\n        return q\ndef bmm_attention(q):\n    return A().{X}(q)"],
        ["class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.attention = nn.Linear(3, 3)\n"
         "    def forward(self, x):\n        return self.attention(x)\ndef bmm_attention(q):\n    return A().eval()(q)"],
        ["def bmm_attention(q, params):\n    return q @ params['attention'] @ getattr(params, 'attention')"],
        [OWN, f"{OTHER}\n%timeit other(Q, K, V)\nfor n in (64, 256):\n    %timeit -n {{n}} F.{X}(Q, K, V)"],
        [OWN, f"import timeit\nprint(timeit.timeit(lambda: F.{X}(Q, K, V), number=3))"],
        [OWN, f"class Net(nn.Module):\n    def __init__(self, **k):\n        for n, v in k.items():\n"
              f"            setattr(self, n, v)\nnet = Net(g=F.{X})"],
        [f"%%time\n{OWN}\nbmm_attention?\n!nvidia-smi"],
        ["%%bash\necho " + X, OWN],
        [f"%%markdown\nthe `{X}` of torch", OWN],
    ],
)  # fmt: skip
def test_honest_answers_are_free(sources):
    for answer in (None, sources[-1], sources[0]):
        assert find_forbidden("bmm_attention", sources, TORCH, answer=answer) is None


def test_labels_keys_and_warnings_are_no_calls():
    own = "def layer_norm(x, p):\n    warn('layer_norm')\n    return x * p['layer_norm'] + p['attention']\nplot(label='GELU')"
    assert find_forbidden("layer_norm", [own], NORM) is None
    gelu = find_exercise("gelu").forbidden
    for call in ("getattr(F, 'gelu')", "vars(nn)['GELU']()", "torch.ops.aten.gelu", "H.gelu", "torch._C._nn.gelu"):
        assert find_forbidden("gelu", [f"H = F\ndef gelu(x):\n    return {call}(x)"], gelu), call


@pytest.mark.parametrize("name", ["layer_norm", "batch_norm"])
def test_no_norm_of_torchs_does_the_work_of_another(name):
    rules, own = find_exercise(name).forbidden, "def batch_norm(x):\n    return layer_norm(x.T).T\n"
    for call in ("F.instance_norm", "nn.RMSNorm(1)", "torch._fused_rms_norm", "nn.InstanceNorm1d(1)", "F.layer_norm",
                 "torch.native_group_norm", "nn.SyncBatchNorm(3)", "torch._refs._normalize", "F.batch_norm"):  # fmt: skip
        assert find_forbidden(name, [f"def {name}(x):\n    return {call}(x)"], rules), call
    assert find_forbidden(name, [own, "def layer_norm(x):\n    return x - x.mean(-1, keepdim=True)"], rules) is None


def test_a_given_function_is_found_as_an_attribute_of_the_notebook():
    for source in ("import __main__ as m\ndef f(x):\n    return m.helper(x)", "from __main__ import helper as f"):
        assert find_forbidden("f", [source], ["helper"]), source


def test_a_module_that_holds_torch_is_torch():
    for source in (
        "import functorch\ndef f(z):\n    return functorch.torch.exp(z)",
        "from functorch import torch as f",
    ):
        assert find_forbidden("f", [source], NUMPY)


def test_one_import_of_several_is_one_use():
    assert find_forbidden("f", ["import numpy as np, torch\ndef f(z):\n    return np.exp(z)"], FORBIDDEN) is None
    assert find_forbidden("f", ["import numpy as np, torch\ndef f(z):\n    return torch.exp(z)"], FORBIDDEN)


@pytest.mark.parametrize("unit", unit_names())
def test_the_solutions_are_free(unit):
    answers = solutions(unit)
    survey = Survey(list(answers.values()))
    for name, exercise in exercises(unit).items():
        assert find_forbidden(name, survey, exercise.forbidden, answer=answers[name]) is None, name


def test_a_call_is_found_by_its_last_parts():
    source = "import torch.nn.functional as F\ndef f(q, k, v):\n    return F.scaled_dot_product_attention(q, k, v)"
    assert find_forbidden("f", [source], ("F.scaled_dot_product_attention",))
    assert find_forbidden("f", [source], ("nn.MultiheadAttention",)) is None


def test_a_given_function_can_be_forbidden():
    forbidden = ("scipy", "widen")
    assert (
        find_forbidden("f", ["def f(X):\n    return g(X)", "def g(X):\n    return widen(X, 2)"], forbidden) == "widen"
    )
    assert find_forbidden("f", ["g = widen", "def f(X):\n    return g(X, 2)"], forbidden) == "widen"
    assert find_forbidden("f", ["widen = widen", "def f(X):\n    return widen(X, 2)"], forbidden) == "widen"
    assert find_forbidden("f", ["def f(X, widen):\n    return widen(X)"], forbidden) is None
    assert find_forbidden("f", ["def f(X):\n    widen = len\n    return widen(X)"], forbidden) is None
    assert find_forbidden("f", ["def widen(X):\n    return X", "def f(X):\n    return widen(X)"], forbidden) is None


def tangle(count: int) -> list[str]:
    """One statement that binds many names, and answers that lead to it by way of one another."""
    answers = [f"def f{i}(*x):\n    return a{i}, f{i + 1}" for i in range(10)]
    return ["=".join(f"a{i}" for i in range(count)) + "=1", *answers]


def chain(count: int) -> list[str]:
    return ["\n".join(f"a{i} = a{i + 1}, b.c.d" for i in range(count)), "def f0(x):\n    return a0"]


def ladder(count: int) -> list[str]:
    """Functions that all use one another's names, imports and aliases."""
    lines = [f"import m{i} as a{i}\ndef g{i}(x):\n    return a{i}.x, g{i + 1}, g{i - 1}, g0" for i in range(count)]
    return ["\n".join(lines), "def f0(x):\n    return g0"]


@pytest.mark.parametrize("make", [tangle, chain, ladder])
def test_reading_is_linear(make, monkeypatch):
    def work(count: int) -> int:
        visits = 0
        walk = forbidden_module.Walk.statements

        def counted(self):
            nonlocal visits
            for node in walk(self):
                visits += 1
                yield node
            visits += len(self.names)

        monkeypatch.setattr(forbidden_module.Walk, "statements", counted)
        survey = Survey(make(count))
        for i in range(10):
            assert find_forbidden(f"f{i}", survey, TORCH) is None
            survey.uses(f"f{i}", "a1")
        monkeypatch.setattr(forbidden_module.Walk, "statements", walk)
        return survey.work + visits

    assert work(2000) < 2.2 * work(1000)


def test_what_would_take_too_long_is_refused(monkeypatch):
    monkeypatch.setattr(forbidden_module, "WORK_CAP", 5000)
    assert Survey(tangle(500)).tangled is False
    survey = Survey(tangle(6000))
    assert survey.uses("f0", "anything")
    with pytest.raises(Tangled):
        find_forbidden("f0", survey, TORCH)
    text = f"def f(x):\n    exec({'%a?' * 3000!r})"
    with pytest.raises(Tangled):
        find_forbidden("f", [text], TORCH)


def test_odd_text_ends_quickly_and_never_fails():
    pieces = ["%time ", "%%time\n", "x = !ls", "F?", "\n", "(", "]", '"', "'''", "\\\n", "    ", "def f(x):", "é", ">>> ",
              "lambda x: ", "a.b", "exec('", "=", ":=", "\x0c", "\u2028", "\0", "match x:\n case y: 1\n", "global x\n"]  # fmt: skip
    for seed in range(300):
        rng = random.Random(seed)
        source = "".join(rng.choice(pieces) for _ in range(rng.randrange(60)))
        statements(source)
        with contextlib.suppress(Tangled):
            find_forbidden("f", [source, "def f(x):\n    return a"], TORCH, answer="")


def test_a_cell_is_read_as_the_notebook_runs_it():
    assert definitions("%%time\ndef f(x):\n    return x") == ["f"]
    assert definitions("F?\ndef f(x):\n    return x\nx = !ls") == ["f"]
    assert definitions("%%time\n" * 20 + "def f(x): pass") == []
    assert definitions("%%writefile a.py\ndef f(x): pass") == ["f"]
    assert read("%pip install scipy") == read("def f(:") == []


def test_cells_are_read_side_by_side():
    """Python code that the collector runs while a tree is built lets another thread begin a tree of its own."""
    gc.callbacks.append(lambda *_: sum(range(20_000)))
    source = "\n".join(f"def f{i}(x):\n    return [x + {i}, (x, x)]" for i in range(2000))
    try:
        with ThreadPoolExecutor(4) as pool:
            counts = list(pool.map(lambda i: len(read(f"{source}\nx = {i}")), range(16)))
    finally:
        gc.callbacks.pop()
    assert counts == [2001] * 16
