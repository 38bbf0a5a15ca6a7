"""Provides the tools for writing exercises; this docstring is the guide to writing one.

One exercise is one file in its unit's folder, named after the function that students write. It contains, in this order:

1. **The reference**: a trusted implementation, by another method than a student's if there is one. Each annotation says
   how an argument is drawn and names its sizes; the annotation after the arrow describes the result.

       def soft_lookup(query: normal("d_k"), keys: normal("n d_k"), values: normal("n d_v")) -> Leaf(
           "float array", "the result"
       ):
           return softmax(keys @ query) @ values

   `normal`, `weights`, `ids`, `mask`, `seed` and `size` draw arguments; a plain `int` is the size with the parameter's
   name (`d_head: int`); your own `Drawn` makes anything else, such as a dict of weights. A shape may hold numbers and
   products: `"B n h*d_head"`. An argument with a default is left out of a call unless a case gives it. An argument
   without an annotation must be given by every case. (So these files don't use `from __future__ import annotations`.)

2. **The cases**, one `yield case(criterion, label, …)` each. Whatever a case doesn't give is drawn for it, and all
   sizes differ, so that no two axes can be confused.

       def cases(case):
           for dtype in (np.float64, np.float64, np.float32):
               yield case("values", dtype=dtype)          # the label lists the sizes
           yield case("values", "as many keys as features (n = {n})", n="d_k")
           yield case("values", "keys that are slices", layout={"keys": strided})
           yield case("edge cases", "values of width 1 (d_v = 1)", d_v=1)
           yield case("edge cases", "a long list", n=range(50, 90))  # a size from a range of its own
           yield case("edge cases", "a query of zeros", query=np.zeros(4))  # the case reads d_k from its shape
           yield case("batches", "a batch", keys=normal("B n d_k"), values=normal("B n d_v"))
           drawn = case.draw()                            # arguments and sizes by name, which you can change
           drawn["keys"] *= 1e4
           yield case("stability", "large scores", **drawn)

   Ordinary draws rarely tell all mistakes apart, so give each mistake a case that does. Keep drawn values away
   from ties and zeros, where rounding would decide; for a tie on purpose use whole numbers.

   Students read the label when the case fails. Draw your own numbers from `case.rng`. See `Cases` for other options:
   `by_name`, `raises`, `quiet`, `rtol`, `gradient`, `watch`, `lines`, `once`, `also`. The **first** case is the
   plainest: the grader repeats it with other numbers, and tests gradients there if `credit` names "gradients".
   `common_cases.py` adds special sizes and memory layouts to every exercise, so you only write `least={"d": 2}` for a
   size that can't be 1. Add a new case at the end, because it changes what is drawn for later cases.

3. **The plain program**: `def plain(…)`, the function as a student would write it, step by step, with the names of the
   docstring and of the field. The grader makes small changes to it (another axis, a factor left out, one name for
   another) and checks which of them gives the results of a wrong answer. So name the sizes (`d_k = Q.shape[-1]`), write
   one idea per line, and call the plain programs of earlier exercises (`from .softmax import plain as softmax`), whose
   slips then count for this exercise too.

       def plain(query, keys, values):
           scores = keys @ query
           weights = softmax(scores)
           return weights @ values

4. **The known mistakes** that no small change makes: a table of rows `(slug, how it computes, what the student reads)`,
   the most typical first, because the grader reports the first that explains an answer. In one sentence or two, advice
   says what the code does, then what it should do, or asks a question that leads there. It never contains the answer.
   Don't change slugs. People read a title instead, made from the slug or, if that reads badly, given in `titles.toml`.

       MISTAKES = (
           ("plain-average", lambda query, keys, values: values.mean(axis=0),
            "All keys weigh the same: the scores are not used."),
           …
       )  # fmt: skip

   If a lambda won't do, write a function above the table. Write a function for mistakes that share a scheme, such as
   `lookup(weigh)` for a lookup with other weights. Write a long computation once, with a keyword argument for each slip
   whose default is correct, pass it as `slipped=`, and let each row contain only its slip:
   `("unscaled", {"scaling": "none"}, UNSCALED)`. Put rows that several exercises share into a tuple in parts.py.

5. **`EXERCISE = exercise(soft_lookup, credit=…)`**, which takes `cases`, `plain` and `MISTAKES` from the file. It sets
   the credit (without the first criterion an answer earns nothing) and whatever differs from the defaults:
   `library="torch"`, other sizes, forbidden names.

Special cases:

- **torch**: use `library="torch"`. Arrays are drawn as usual, and reach the reference and the mistakes as tensors.
- **Gradients**: name "gradients" in `credit`, and the grader makes that case; `case("gradients", …, gradient=True)`
  adds one.
- **Errors**: `case("errors", "{g} key/value heads for {h} heads", h=6, g=4, raises=Raises("ValueError"))`.
- **Loops**: `case(…, lines=20)` fails if any line runs 20 times or more.
- **Memory**: `case(…, watch="h*n*n")` passes large intermediate tensors to the `made=` of `exercise`.
- **Many correct answers**: `examine=` checks the result; `also={"period": 4}` gives it more than the arguments.
- **Functions as arguments**: leave the parameter without annotation and give `HostFunction(…)` in each case. Functions
  that share a state, such as a clock, are the parts of one `Device`. An `Activation` is built on the student's side.
- **Black boxes**: `black_box(function, check, calls)`. Draw the order of such cases from `case.rng`, so that a
  student's code learns nothing by counting the calls.
- **Nested arguments**: `params: Drawn("", make, also="d_model h")`, where `make` returns dicts and lists of arrays.
- **Any number of axes**: give `x=normal("B h n m")` in the case whose axes differ from the annotation.

The unit's `__init__.py` lists the exercises in the order of the notebook. A file has at most 250 lines, and most files
have half as many; move longer code to a file in the same folder, and code that several exercises share to parts.py.
"""

from .black_boxes import black_box, refuse_unlike
from .build_exercise import exercise, in_order
from .describe_experiments import difference, lacks, named, parted
from .draw_cases import Cases
from .exercise_records import (
    CONDUCT_SHARE,
    GRADIENTS,
    IN_FLOAT64,
    OF_INPUTS,
    RTOL_FLOAT64,
    Case,
    Exercise,
    Leaf,
    Mistake,
    Raises,
    Sent,
    Symptom,
)
from .forbidden_names import KERNELS, NOT_IN_NUMPY_UNITS, NOT_IN_TORCH_UNITS
from .intermediate_results import profile
from .known_mistake import Row, slips
from .named_sizes import distinct, length
from .random_inputs import (
    Drawn,
    by_columns,
    every_second_row,
    ids,
    mask,
    normal,
    other_order,
    random_mask,
    seed,
    size,
    strided,
    weights,
    with_a_row_of_zeros,
)
from .special_arguments import Activation, Device, DevicePart, HostFunction, Rng
