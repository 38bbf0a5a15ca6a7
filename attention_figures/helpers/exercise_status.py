"""Tracks which exercises are written and pass, and says so in errors and figures."""

import os
import re
import symtable

STUB = "Write your answer here."
TEST = re.compile(r"# The test of (\w+)")


class HalfSolved:
    """Tracks which exercises are written and pass, and which names were made with them."""

    def __init__(self, exercises):
        """Register with IPython. exercises: name -> number, in the notebook's order."""
        self.exercises, self.passed, self.failed = exercises, set(), set()
        self.made_with = {name: [name] for name in exercises}
        self.lost = {}  # name -> the missing exercises that it needs
        self.cell, self.bound, self.used, self.skipped = "", set(), set(), []
        try:
            self.shell = get_ipython()
        except NameError:  # plain Python
            return
        if "NBGRADER_EXECUTION" not in os.environ:
            self.others = self.shell.custom_exceptions, self.shell.CustomTB
            self.shell.set_custom_exc((Exception,), self.tell)
            self.shell.events.register("pre_run_cell", self.begin)
            self.shell.events.register("post_run_cell", self.end)

    def begin(self, info):
        """Note which names a cell binds and uses, before it runs."""
        self.cell, self.bound, self.used, self.skipped = info.raw_cell, set(), set(), []
        try:
            code = self.shell.transform_cell(self.cell)
            tables = [symtable.symtable(code, "cell", "exec")]
        except (SyntaxError, ValueError, RecursionError):
            return  # IPython reports it
        for table in tables:  # the list grows
            tables += table.get_children()
        top, *inner = [table.get_symbols() for table in tables]
        made = (one for one in top if one.is_assigned() or one.is_imported())
        used = [one for one in top if one.is_referenced()]
        used += [one for symbols in inner for one in symbols if one.is_global()]
        self.bound = {one.get_name() for one in made}
        self.used = {one.get_name() for one in used}

    def end(self, result):
        """Note after a cell has run what it made and whether its test passed."""
        makers, test = self.makers(), TEST.match(self.cell)
        if self.skipped and result and not test:
            result.error_in_exec = None  # so that "Run All" goes on in every editor
        for name in {*self.bound, *(test.groups() if test else ())}:
            if name in self.exercises:  # written or tested again
                self.passed.discard(name)
                self.failed.discard(name)
            else:
                self.made_with[name] = [] if test else makers
            self.lost.pop(name, None)
            if self.skipped and not test:
                self.lost[name] = self.skipped
        if test and result and result.success:
            self.passed.add(test[1])
        elif test and not self.skipped:
            self.failed.add(test[1])
        self.cell, self.bound, self.used = "", set(), set()

    def makers(self):
        """Return the exercises that made what the cell uses, in order."""
        taken = self.used - self.bound
        found = set().union(*(self.made_with.get(name, []) for name in taken))
        return [name for name in self.exercises if name in found]

    def is_written(self, name):
        """Return whether the function is defined and is no longer the stub."""
        answer = self.shell.user_ns.get(name)
        code = getattr(answer, "__code__", None)
        return answer is not None and STUB not in getattr(code, "co_consts", ())

    def missing(self, error):
        """Return the missing exercises that made the cell fail, in order."""
        known = self.shell.user_ns
        names = {name for name in self.used if name not in self.bound & set(known)}
        if isinstance(error, NameError):
            names.add(error.name)
        found = set().union(*(self.lost.get(name, []) for name in names))
        while error:
            if isinstance(error, NotImplementedError) and str(error) == STUB:
                found.add(frames(error.__traceback__)[-1].tb_frame.f_code.co_name)
            error = error.__cause__ or error.__context__
        return [name for name in self.exercises if name in found]

    def tell(self, shell, kind, error, trace, tb_offset=None):
        """Show a missing answer or a failed test in one line, and other errors as usual."""
        test, missing = TEST.match(self.cell), self.missing(error)
        self.skipped = missing
        if missing and not test:
            print(self.advice(missing))
            return
        own = self.shorten(test[1], missing, error, trace) if test else None
        failing = [name for name in self.makers() if name in self.failed and not test]
        if failing:
            print(f"Used here, and not passed yet: {self.listed(failing)}.")
        kinds, handler = self.others
        if isinstance(error, kinds):
            handler(kind, error, trace)
        elif own:
            shell.showtraceback((kind, error, own), tb_offset=0)
        else:
            shell.showtraceback((kind, error, trace))

    def advice(self, missing):
        """Return what to do where a cell failed because exercises are missing."""
        new = [name for name in missing if not self.is_written(name)]
        if not new:
            told = f"one was skipped when {self.listed(missing)} had no answer yet"
            return f"Run the cells above once more: {told}."
        it = "it" if len(new) == 1 else "them"
        return f"This cell needs {self.listed(new)}. Write {it}, then run the cell again."

    def shorten(self, name, missing, error, trace):
        """Make a failed test show one line; return where your code begins in the traceback."""
        given = {frame.tb_frame.f_code.co_filename for frame in frames(trace)[:2]}
        given.add(self.tell.__code__.co_filename)

        def own(trace):
            """Return where your code begins in a traceback, or None."""
            here = (f for f in frames(trace) if f.tb_frame.f_globals is self.shell.user_ns)
            return next((f for f in here if f.tb_frame.f_code.co_filename not in given), None)

        begin, ended = own(trace), frames(trace)[-1].tb_frame.f_code.co_filename
        this, lines = self.listed([name]), []
        new = [other for other in missing if not self.is_written(other)]
        if name in new:
            lines = [f"Not written yet: {this}."]
        elif new:
            lines = [f"Not written yet: {self.listed(new)}; {this} needs it."]
        elif missing:
            lines = [self.advice(missing)]
        elif isinstance(error, AssertionError) and (not begin or ended in given):
            lines = [f"✗ {this}: {error}"]
            if error.__cause__ and (cause := own(error.__cause__.__traceback__)):
                render = self.shell.InteractiveTB.structured_traceback
                lines += render(type(error.__cause__), error.__cause__, cause, 0)
        if lines:
            error._render_traceback_ = lambda: lines
        return begin

    def listed(self, names):
        """Return exercises as one text, such as 3.4 `causal_mask`, 3.5 `padding_mask`."""
        told = (f"{self.exercises.get(name, '')} `{name}`".strip() for name in names)
        return ", ".join(told)

    def credited(self, show):
        """Return a `show` whose caption says which of your functions drew the figure."""

        def show_with_credit(fig, alt, caption, touch=None):
            yours = [name for name in self.makers() if self.is_written(name)]
            waiting = [name for name in yours if name not in self.passed]
            told = f" Drawn with your {', '.join(yours)}" if yours else ""
            if len(yours) > 3:
                told = f" Drawn with what {len(yours)} of your functions gave"
            told += f"; not passed yet: {', '.join(waiting)}" if waiting else ""
            show(fig, alt, f"{caption}{told}{'.' if told else ''}", touch)

        return show_with_credit

    def sum_up(self):
        """Print how many exercises have passed and which are left."""
        left = [name for name in self.exercises if name not in self.passed]
        new = [name for name in left if not self.is_written(name)]
        failed = [name for name in left if name in self.failed and name not in new]
        rest = [name for name in left if name not in new + failed]
        done = len(self.exercises) - len(left)
        groups = {"Not written yet": new, "Not right yet": failed, "Not tested yet": rest}
        told = [f"{what}: {self.listed(who)}." for what, who in groups.items() if who]
        print(f"Passed: {done} of {len(self.exercises)}.", *told)


def frames(trace):
    """Return a traceback's entries, from the cell to where the error was raised."""
    found = []
    while trace:
        found.append(trace)
        trace = trace.tb_next
    return found
