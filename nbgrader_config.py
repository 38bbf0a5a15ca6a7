"""Configures nbgrader for this course: where its folders are, and who does the grading.

With this file in the course folder, both `autograder grade` and a plain `nbgrader autograde UNIT` give the same scores.
Settings for your own class go into nbgrader_config_local.py next to it, which git ignores.
"""

import os
import sys
from pathlib import Path

from sqlalchemy.engine import URL

ROOT = Path(__file__).resolve().parent
(ROOT / "grading").mkdir(exist_ok=True)
# nbgrader starts `alembic` by name. Let it find the one next to this Python, even if the environment is not activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])

c = get_config()  # noqa: F821 (nbgrader provides it)

c.CourseDirectory.course_id = "attention"
c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "notebooks"
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
GRADEBOOK = {"database": str(ROOT / "grading" / "gradebook.db"), "query": {"timeout": "60"}}
c.CourseDirectory.db_url = URL.create("sqlite", **GRADEBOOK).render_as_string()  # for ? and % in the path
# A unit consists of a notebook and nbgrader's own two notes. Nothing else that a student hands in, or that is in
# solutions/, is copied anywhere. The patterns match all names but those like "ti…", "su…" and "….ipynb".
STARTS, ENDS = ("[!ts]", "t[!i]", "s[!u]"), ("[!b]", "[!n]b", "[!y]nb", "[!p]ynb", "[!i]pynb", "[!.]ipynb")
c.CourseDirectory.ignore = [".*", *(f"{start}*{end}" for start in STARTS for end in ENDS)]
c.CourseDirectory.include = ["*.ipynb", "timestamp.txt", "submission_secret.txt"]

c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("Write your answer here.")'}
c.GenerateAssignment.permissions = 644
c.GenerateAssignment.exporter_class = "autograder.handout.nbgrader_release_steps.ReleaseExporter"
c.GenerateAssignment.preprocessors = [
    "autograder.handout.nbgrader_release_steps.CheckQuestions",
    "nbgrader.preprocessors.IncludeHeaderFooter",
    "autograder.handout.nbgrader_release_steps.PutHelpers",
    "autograder.handout.nbgrader_release_steps.PointsInProse",
    "nbgrader.preprocessors.LockCells",
    "nbgrader.preprocessors.ClearSolutions",
    "autograder.handout.nbgrader_release_steps.HidePredictions",
    "autograder.handout.nbgrader_release_steps.PictureAsText",
    "autograder.handout.nbgrader_release_steps.GoOn",
    "autograder.handout.nbgrader_release_steps.KeepOpening",
    "nbgrader.preprocessors.CheckCellMetadata",
    "nbgrader.preprocessors.ComputeChecksums",
    "autograder.handout.nbgrader_release_steps.MigrateCells",
    "nbgrader.preprocessors.ClearHiddenTests",
    "nbgrader.preprocessors.ClearMarkScheme",
    "nbgrader.preprocessors.ComputeChecksums",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# The exchange is a folder that every user of the machine can write to. If all students share one account, as on hubs
# that give each a container, submissions are refused until c.ExchangeCollect.check_owner = False is set. Anybody can
# then submit under another's name (docs/THREATS.md).
c.ExchangeFactory.collect = "autograder.gradebook.nbgrader_exchange.Collect"
c.ExchangeFactory.release_feedback = "autograder.gradebook.nbgrader_exchange.ReleaseFeedback"
c.ExportApp.plugin_class = "autograder.gradebook.nbgrader_plugin.SafeCsvExport"

c.Autograde.exporter_class = "autograder.gradebook.nbgrader_plugin.SubmissionExporter"
c.Autograde.sanitize_preprocessors = ["nbgrader.preprocessors.CheckCellMetadata"]
c.Autograde.autograde_preprocessors = [
    "autograder.gradebook.nbgrader_plugin.RecordVerdicts",
    "autograder.gradebook.save_marks.SaveMarks",
    "nbgrader.preprocessors.AssignLatePenalties",
    "autograder.gradebook.nbgrader_plugin.KeepResult",
    "nbgrader.preprocessors.CheckCellMetadata",
]

# Feedback pages are safe without nbconvert's sanitizer, which would remove tables and hints from our own text. Students
# contribute only code and plain text to them, and both are escaped.

# Write into each release the version of the exercises for which it was made.
c.GenerateAssignment.preprocessors.insert(0, "autograder.handout.nbgrader_release_steps.StampRelease")

# Run the local settings last, so that they can read and change everything in `c`.
LOCAL = ROOT / "nbgrader_config_local.py"
if LOCAL.is_file():
    exec(compile(LOCAL.read_bytes(), str(LOCAL), "exec"), {"c": c, "__file__": str(LOCAL), "get_config": lambda: c})
