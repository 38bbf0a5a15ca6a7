"""Settings shared by all tests: one thread per library, so that numbers and timings do not depend on the machine."""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
