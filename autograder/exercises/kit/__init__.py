"""What exercises are written with, and how to write one.

One exercise is one file in its unit's folder, named after the function that students write. It holds, in this order:

1. **The reference**: the function as the field trusts it, by another road than a student's where there is one. Each
   annotation says how an argument is drawn and names its sizes; behind the arrow stands what comes back.

       def soft_lookup(query: normal("d_k"), keys: normal("n d_k"), values: normal("n d_v")) -> Leaf(
           "float array", "the result"
       ):
           return softmax(keys @ query) @ values

   `normal`, `weights`, `ids`, `mask`, `seed` and `size` draw; a plain `int` is the size of its own name
   (`d_head: int`); a `Drawn` of your own does anything else, such as a dict of weights. A shape may hold numbers and
   products: `"B n h*d_head"`. What has a default is left out of a call unless a case gives it, and what has no
   annotation every case must give. (So these files do without `from __future__ import annotations`.)

2. **The cases**, one `yield case(criterion, label, …)` each. All that a case does not name is drawn anew, and all sizes
   come out different, so that no two axes can be taken for each other.

       def cases(case):
           for dtype in (np.float64, np.float64, np.float32):
               yield case("values", dtype=dtype)          # the label lists the sizes
           yield case("values", "as many keys as features (n = {n})", n="d_k")
           yield case("values", "keys that are slices", layout={"keys": strided})
           yield case("edge cases", "values one wide (d_v = 1)", d_v=1)
           yield case("edge cases", "a long list", n=range(50, 90))  # a size from a range of its own
           yield case("edge cases", "a query of zeros", query=np.zeros(4))  # d_k is read off
           yield case("batches", "a batch", keys=normal("B n d_k"), values=normal("B n d_v"))
           drawn = case.draw()                            # arguments and sizes by name, to be changed
           drawn["keys"] *= 1e4
           yield case("stability", "large scores", **drawn)

   Ordinary draws rarely tell all mistakes apart: give each a case that does. Keep what is drawn away from ties and from
   zeros, where rounding would decide; for a tie on purpose take whole numbers.

   The label is what a student reads when the case fails. `case.rng` is for numbers of your own. See `Cases` for the
   rest: `by_name`, `raises`, `quiet`, `rtol`, `gradient`, `watch`, `lines`, `once`, `also`. The **first** case is the
   plainest: the judge asks it again with other numbers, and asks for gradients there if `credit` names "gradients".
   Special sizes and parts of larger arrays are asked of every exercise, see `common_cases.py`: say no more of them than
   `least={"d": 2}` for a size that cannot be 1. A new case comes last, as it shifts what is drawn for those behind it.

3. **The plain program**: `def plain(…)`, the function as a student would write it, step by step, in the names of the
   docstring and of the field. The judge makes small changes of it (another axis, a factor left out, one name for
   another) and looks which of them answers as a wrong answer does; so the sizes have names (`d_k = Q.shape[-1]`), each
   line has one idea, and what earlier exercises do is called (`from .softmax import plain as softmax`): their slips are
   then slips of this one too.

       def plain(query, keys, values):
           scores = keys @ query
           weights = softmax(scores)
           return weights @ values

4. **The known mistakes** that no small change makes: a table of rows `(slug, how it computes, what the student reads)`,
   most typical first: the first that explains an answer is named. Advice says what went wrong and where to look, in one
   sentence or two, and never holds the answer: what you do, then what it should be, or a question that leads there.
   Slugs are stable. People read a title in their place, made of the slug; where that reads badly, `titles.toml` has
   another one.

       MISTAKES = (
           ("plain-average", lambda query, keys, values: values.mean(axis=0),
            "All keys weigh the same: the scores are not used."),
           …
       )  # fmt: skip

   Where a lambda won't do, a function stands above the table. Mistakes that share a scheme get a function that makes
   them, such as `lookup(weigh)` for a lookup with other weights. For a long computation write it once, with a keyword
   argument and a right default for each slip, hand it over as `slipped=`, and let rows hold the slip alone:
   `("unscaled", {"scaling": "none"}, UNSCALED)`. Rows that several exercises share are a tuple in the unit's parts.py.

5. **`EXERCISE = exercise(soft_lookup, credit=…)`**, which takes `cases`, `plain` and `MISTAKES` from the file, and says
   the credit (without its first criterion nothing is earned) and what stands apart from the rule: `library="torch"`,
   other sizes, what is forbidden.

What is special, and how it is said:

- **torch**: `library="torch"`. Arrays are drawn as ever, and reach the reference and the mistakes as tensors.
- **Gradients**: "gradients" in `credit` is enough, the judge makes that case; `case("gradients", …, gradient=True)` is
  one more.
- **Errors**: `case("errors", "{g} key/value heads for {h} heads", h=6, g=4, raises=Raises("ValueError"))`.
- **Loops**: `case(…, lines=20)`, where no line may be run 20 times.
- **Memory**: `case(…, watch="h*n*n")` with `made=` of `exercise`, which looks at what was made on the way.
- **Any of many answers**: `examine=` looks at what came back; `also={"period": 4}` tells it more than the arguments do.
- **Functions as arguments**: a parameter without annotation, and `HostFunction(…)` from each case; functions that share
  a state, such as a clock, are the parts of one `Device`. An `Activation` is built on the student's side.
- **Functions that hide something**: `black_box(function, check, calls)`. Draw the order of such cases from
  `case.rng`: whoever counts the calls must learn nothing.
- **Nested arguments**: `params: Drawn("", make, also="d_model h")`, where `make` returns dicts and lists of arrays.
- **Any number of axes**: `x=normal("B h n m")` in the case that has other axes than the annotation.

The unit's `__init__.py` lists the exercises in the order of the notebook. A file has at most 250 lines and most have
half of that; what is longer moves to a file beside it, and what several exercises share to parts.py.
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
