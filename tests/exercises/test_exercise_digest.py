"""The digest of an exercise: of the files of its own unit, and of all that units share."""

import shutil
from pathlib import Path

import autograder
from autograder import exercises


def test_it_changes_with_the_files_of_its_unit_and_with_what_units_share(tmp_path, monkeypatch):
    shutil.copytree(Path(autograder.__file__).parent, tmp_path / "autograder")
    copy = tmp_path / "autograder" / "exercises"
    monkeypatch.setattr(exercises, "__file__", str(copy / "__init__.py"))

    def digests():
        exercises._digest.cache_clear()
        return exercises.digest(["embed"]), exercises.digest(["split_heads"])

    def correct(name):
        with open(copy / name, "a", encoding="utf-8") as file:
            file.write("# corrected\n")

    before = digests()
    correct("u01_projections/soft_lookup.py")
    first = digests()
    assert first[0] != before[0] and first[1] == before[1]
    for shared in ("attention_parts.py", "kit/named_sizes.py"):
        correct(shared)
        now = digests()
        assert all(one != other for one, other in zip(first, now, strict=True))
        first = now
    exercises._digest.cache_clear()
