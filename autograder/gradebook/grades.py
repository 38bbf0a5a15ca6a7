"""What nbgrader's gradebook says of each graded cell, put into the notebook: also whether a person has marked it."""

from __future__ import annotations

from nbformat import NotebookNode
from nbgrader.preprocessors import GetGrades


class GetMarks(GetGrades):
    """nbgrader's GetGrades, which gives 0 to what nobody has marked yet, and says no more than that."""

    def _get_score(self, cell: NotebookNode, resources: dict) -> None:
        super()._get_score(cell, resources)
        told = cell.metadata.nbgrader
        grade = self.gradebook.find_grade(told["grade_id"], self.notebook_id, self.assignment_id, self.student_id)
        told["marked"] = grade.manual_score is not None
        told["waits"] = grade.needs_manual_grade and grade.manual_score is None and grade.auto_score is None


__all__ = ["GetMarks"]
