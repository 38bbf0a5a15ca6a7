"""Sets up `.venv` and runs a module in it. It uses only the standard library, because nothing is installed before it.

    python3 tools/bootstrap.py [--extras grading,test] [--sandbox] [--run MODULE ARGUMENT ...]

A stamp records what was installed from which requirements, and each start checks every installed file (in about a
quarter of a second). If a file is missing, cut short or of another version, pip repairs the environment in place; if
that does not help, it is made from scratch. An interrupted set-up leaves no stamp, so the next one continues.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 (so far any Python 3 understands this file)
    import subprocess

    for _name in ("python3.14", "python3.13", "python3.12", "python3.11"):
        try:
            _code = subprocess.call([_name, "-c", ""], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except OSError:
            continue
        if _code == 0:
            sys.exit(subprocess.call([_name, *sys.argv]))
    import shutil

    _lines = {
        "apt-get": "sudo apt-get install python3.11 python3.11-venv",
        "dnf": "sudo dnf install python3.13",
        "brew": "brew install python@3.13",
    }
    _line = next((_lines[_name] for _name in sorted(_lines) if shutil.which(_name)), "https://www.python.org/downloads")
    print(
        "set-up: this is Python {}.{}; the course needs 3.11 or newer. Install one: {}".format(
            *sys.version_info[:2], _line
        ),
        file=sys.stderr,
    )
    sys.exit(2)

from make_environment import main

sys.exit(main(sys.argv[1:]))
