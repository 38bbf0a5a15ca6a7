"""General relations between a wrong answer and the right one, for mistakes that no exercise lists.

Each relation looks at the evidence and either names what it sees or returns None. They are asked in the order of
`RELATIONS`, the most telling first. A relation must hold wherever the answer is wrong, not in one case by chance.
Where nothing is wrong but exceptions, only those are asked that look at exceptions.
"""

from __future__ import annotations

from collections.abc import Callable

from ..evidence import Evidence, Finding
from . import coverage, form, inputs, numbers

RELATIONS: tuple[Callable[[Evidence], Finding | None], ...] = (
    form.no_return,
    form.wrong_signature,
    form.swapped_results,
    form.wrong_container,
    form.wrong_dtype,
    form.wrong_shape,
    form.only_made,
    form.only_warned,
    form.shapes_do_not_fit,
    coverage.constant_answer,
    coverage.remembers,
    form.returns_input,
    numbers.imprecise,
    numbers.constant_factor,
    numbers.transposed,
    numbers.inverted,
    coverage.masked_rows,
    form.not_finite,
    numbers.permuted,
    numbers.simple_function,
    coverage.entries_missing,
    coverage.right_in_part,
    numbers.unnormalised,
    numbers.wrong_temperature,
    numbers.varying_factor,
    coverage.first_batch_only,
    numbers.added_constant,
    numbers.rows_related,
    coverage.same_row_everywhere,
    numbers.same_numbers,
    inputs.generator_unused,
    inputs.changed_inputs,
    inputs.applied_twice,
    numbers.measured_on_draws,
    coverage.one_result_wrong,
    coverage.some_cases_only,
)
#: For answers that are right wherever they do not raise.
OF_CRASHES = (form.wrong_signature, form.shapes_do_not_fit, coverage.first_batch_only, coverage.some_cases_only)
#: For slips of the pen, such as a name that is not defined.
OF_SLIPS = (coverage.some_cases_only,)
