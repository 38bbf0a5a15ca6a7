"""Loads the functions that you wrote in earlier units and whose tests pass."""

import ast
import contextlib
import inspect
import json
import linecache
import os
import re
import subprocess
import symtable
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SECONDS_FOR_TESTS = 60


def own_functions(wanted, given, folder=".."):
    """Return name -> your function if its test passes, and the given one otherwise.

    wanted: unit -> names of its functions. given: name -> function. folder: the one
    with the units' folders. Prints why a function is not yours, and how many are.
    """
    paths = [Path(folder, unit, f"{unit}.ipynb") for unit in wanted]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(own_of_unit, paths, wanted.values()))
    own = {}
    for path, (functions, reasons) in zip(paths, found, strict=True):
        own |= functions
        for reason in dict.fromkeys(reasons.values()):
            names = ", ".join(name for name in reasons if reasons[name] == reason)
            print(f"Not yours but given: {names}, because {path.as_posix()} {reason}.")
    names = [name for unit in wanted for name in wanted[unit]]
    told = f"{len(own)} of {len(names)} functions from earlier units are yours"
    print(": ".join(filter(None, [told, ", ".join(own)])) + ".")
    return {name: own.get(name) or given[name] for name in names}


def own_of_unit(path, names):
    """Return a notebook's functions whose tests pass, and for each other one why not."""
    try:
        answers, tests, statements = parts_of(path)
    except FileNotFoundError:
        return {}, dict.fromkeys(names, "does not exist")
    except OSError as error:
        return {}, dict.fromkeys(names, f"cannot be read ({error.strerror})")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}, dict.fromkeys(names, "is not a notebook that can be read")
    reasons = {name: unready(name, answers, tests) for name in names}
    ready = {name: tests[name] for name in names if not reasons[name]}
    jobs = {n: (needed(statements, n, test), test) for n, test in ready.items()}
    reasons |= tested(path, jobs) if jobs else {}
    own = {}
    for name in (name for name in names if not reasons[name]):
        code, file = needed(statements, name), f"<{name} of {path.name}>"
        linecache.cache[file] = len(code), None, code.splitlines(True), file
        space = {"__name__": path.stem}
        try:
            exec(compile(code, file, "exec"), space)
            own[name] = space[name]
        except Exception as error:
            reasons[name] = f"has an answer that runs there alone ({error})"
    return own, {name: reason for name, reason in reasons.items() if reason}


def parts_of(path):
    """Return a notebook's answers, tests, and all statements outside of demos and tests.

    Each statement comes with the names that it binds and the names that it uses.
    """
    answers, tests, statements = {}, {}, []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        source = re.sub(r"^[%!].*", "", "".join(cell["source"]), flags=re.MULTILINE)
        tags = cell["metadata"].get("tags", [])
        name = cell["metadata"].get("nbgrader", {}).get("grade_id", "")
        if name.startswith("test_"):
            test = re.sub(r"#+ BEGIN.HIDDEN.TESTS.*?END.HIDDEN.TESTS", "", source, flags=re.DOTALL)
            tests[name.removeprefix("test_")] = test
        elif name or "given" in tags or not tags:  # you added a cell that has no tags
            answers[name] = source
            with contextlib.suppress(SyntaxError, ValueError):  # unready() reports them
                texts = map(ast.unparse, ast.parse(source).body)
                statements += [(text, *names_in(text)) for text in texts]
    return answers, tests, statements


def unready(name, answers, tests):
    """Return why a function cannot be tested, or "" if it can."""
    if not answers.get(name) or not tests.get(name):
        return "lacks the cell of its answer or of its test"
    try:
        names_in(tests[name])
        bound, _ = names_in(answers[name])
    except (SyntaxError, ValueError, RecursionError) as error:
        return f"has an answer or a test that is not Python: {error}"
    stub = re.search(r'"""\s*raise NotImplementedError', answers[name])
    return "has no answer yet" if stub or name not in bound else ""


def needed(statements, *sources):
    """Return as one text the statements that some code uses, directly or indirectly."""
    names = set().union(*(names_in(source)[1] for source in sources))
    chosen = None
    while chosen != (found := [each for each in statements if each[1] & names]):
        chosen = found
        names |= set().union(*(used for _, _, used in chosen))
    return "\n".join(text for text, _, _ in chosen)


def names_in(source):
    """Return the global names that code binds and the global names that it uses."""
    tables = [symtable.symtable(source, "cell", "exec")]
    for table in tables:  # the list grows
        tables += table.get_children()
    top, *inner = [table.get_symbols() for table in tables]
    bound = {one.get_name() for one in top if one.is_assigned() or one.is_imported()}
    used = {one.get_name() for one in top if one.is_referenced()}
    for symbols in inner:
        used |= {one.get_name() for one in symbols if one.is_global()}
    return bound, used


def tested(path, jobs):
    """Run the tests in another process; return why each does not pass, or "" if it does."""
    reasons = dict.fromkeys(jobs, "ends the process in which its test runs")
    try:
        output = subprocess.run(
            [sys.executable, "-c", f"{inspect.getsource(run_tests)}\nrun_tests()"],
            input=json.dumps(jobs).encode(),
            cwd=path.parent,
            env=os.environ | {"MPLBACKEND": "Agg", "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS_FOR_TESTS,
        ).stdout
    except subprocess.TimeoutExpired as error:
        late = f"needs more than {SECONDS_FOR_TESTS} s for its tests"
        reasons, output = dict.fromkeys(jobs, late), error.stdout or b""
    lines = output.decode(errors="replace").splitlines()
    return reasons | dict(json.loads(line) for line in lines if line.startswith('["'))


def run_tests():
    """Read code and tests from stdin; print why each test does not pass, or "" if it does."""
    import ctypes
    import io
    import json
    import pickle
    import random
    import sys

    import numpy
    import torch

    def settings():
        state = torch.get_rng_state()  # read without PyTorch, which some tests watch
        drawn = ctypes.string_at(state.data_ptr(), state.nbytes), random.getstate()
        shown = f"{torch._tensor_str.PRINT_OPTS} {numpy.get_printoptions()}"
        modes = torch.get_default_dtype(), torch.is_grad_enabled()
        return drawn, pickle.dumps(numpy.random.get_state()), shown, modes

    def watch(frame, event, _):
        if frame.f_code is answer and event == "call":
            before.append(settings())
        elif frame.f_code is answer and event == "return":
            changed.append(before.pop() != settings())

    jobs, out = json.load(sys.stdin), sys.stdout
    sys.stdout = io.StringIO()
    for name, (code, test) in jobs.items():
        space, before, changed, reason = {"__name__": "__main__"}, [settings()], [], ""
        try:
            exec(code, space)
            changed.append(before.pop() != settings())
            answer = getattr(space[name], "__code__", None)
            sys.setprofile(watch)
            exec(test, space)
        except NotImplementedError:
            reason = "has no answer yet, or one that needs a function without an answer"
        except BaseException as error:
            told = (str(error).splitlines() or [""])[0][:100]
            reason = f"has an answer that fails ({type(error).__name__}: {told})"
        sys.setprofile(None)
        if any(changed):
            reason = "has an answer that changes random numbers or settings of PyTorch"
        print(json.dumps([name, reason]), file=out, flush=True)
