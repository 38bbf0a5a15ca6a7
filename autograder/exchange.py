"""Our part in a plain `nbgrader release_feedback`: it knows by the note that came with a submission whose a page is.

nbgrader looks for that note beside the feedback page and stops the whole class where one is missing. Here it is read
where `nbgrader collect` put it, and who did not hand in through the exchange is passed over, with one line.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import stat
from pathlib import Path

from nbgrader.exchange.default import ExchangeReleaseFeedback
from nbgrader.utils import notebook_hash

SECRET = "submission_secret.txt"
#: `nbgrader submit` draws 64 bytes and writes them as hexadecimal digits.
SECRET_FORM = re.compile(r"[0-9a-f]{32,256}")


class ReleaseFeedback(ExchangeReleaseFeedback):
    """Copies each page to the exchange under a name that only its student can work out."""

    def copy_files(self) -> None:
        unit = self.coursedir.assignment_id
        excluded = set(filter(None, self.coursedir.student_id_exclude.split(",")))
        elsewhere, released = [], 0
        for page in sorted(Path(name) for name in glob.glob(os.path.join(self.src_path, "*.html"))):
            student = page.parent.parent.name
            if student in excluded:
                continue
            submitted = self.coursedir.format_path(self.coursedir.submitted_directory, student, unit)
            secret = read_secret(Path(submitted) / SECRET)
            if secret is None:
                elsewhere.append(student)
                continue
            name = f"{notebook_hash(secret=secret, notebook_id=page.stem)}.html"
            aside = Path(self.dest_path) / f".{name}.part"
            shutil.copy(page, aside)
            os.replace(aside, Path(self.dest_path) / name)
            released += 1
        self.log.info("Feedback released to %d students in %s", released, self.dest_path)
        if elsewhere:
            self.log.warning("Not handed in through the exchange, so not released there: %s", ", ".join(elsewhere))


def read_secret(path: Path) -> str | None:
    """The secret of a submission, or None where there is none of the right form. The file comes from a stranger."""
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode) or path.parent.is_symlink():
            return None
        with open(path, encoding="ascii") as file:
            text = file.read(1_000).strip()
    except (OSError, ValueError):
        return None
    return text if SECRET_FORM.fullmatch(text) else None


__all__ = ["ReleaseFeedback", "read_secret"]
