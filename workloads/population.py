"""The state of one file set at some point of the plan.

Every change is planned here: a method returns the step and applies its effect at once, so that
later steps, in this stage or another, know the names, lengths and contents.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.draws import Draws
from workloads.files import (
    SET_STRIDE,
    PlannedFile,
    absent_name,
    directory_name,
    file_name,
    parent,
    plan_files,
)
from workloads.filesets import FileSet
from workloads.image import Image
from workloads.steps import Step


@dataclass
class LiveFile:
    """One existing file; ``cursor`` is the offset of the next sequential transfer."""

    file_id: int
    directory: int
    image: Image
    renames: int = 0
    cursor: int = 0


class Population:
    """One file set as it changes. ``files`` is keyed by file id, ``directories`` by number."""

    def __init__(self, fileset: FileSet, seed: int) -> None:
        self.fileset = fileset
        self.planned = plan_files(fileset, seed)
        self.files: dict[int, LiveFile] = {}
        self.directories: dict[int, str] = {}
        self._next_file = len(self.planned)
        self._next_directory = fileset.directories
        self._generations: dict[int, int] = {}
        self._members: dict[int, dict[str, int | None]] = {}
        self._listings: dict[int, tuple[tuple[str, ...], tuple[int, ...]]] = {}

    def path(self, file: LiveFile) -> str:
        """Return the file's path beneath the run directory."""
        return f"{self.directories[file.directory]}/{file_name(file.file_id, file.renames)}"

    def mkdir(self, number: int | None = None) -> Step:
        """Create directory ``number``, or one beyond the planned ones if it is None."""
        if number is None:
            number = self._next_directory
            self._next_directory += 1
        path = directory_name(self.fileset, number)
        self.directories[number] = path
        self._members[number] = {}
        self._note_directory(number, path, present=True)
        return Step("mkdir", path)

    def rmdir(self, number: int) -> Step:
        path = self.directories.pop(number)
        del self._members[number]
        self._listings.pop(number, None)
        self._note_directory(number, path, present=False)
        return Step("rmdir", path)

    def create(self, planned: PlannedFile, operation: str = "create", sync: bool = False) -> Step:
        percent = self.fileset.repeated_percent
        image = Image(planned.file_id, (), percent).whole(
            planned.size_bytes, self._generation(planned.file_id)
        )
        file = LiveFile(planned.file_id, planned.directory, image)
        self.files[file.file_id] = file
        path = self.path(file)
        self._note(file, path)
        return self._moving(operation, path, image, 0, planned.size_bytes, sync=sync)

    def extra(self, directory: int, size_bytes: int) -> PlannedFile:
        """Return a file beyond the planned ones."""
        file_id = self.fileset.index * SET_STRIDE + self._next_file
        self._next_file += 1
        return PlannedFile(file_id, directory, size_bytes)

    def unlink(self, file: LiveFile) -> Step:
        path = self.path(file)
        del self._members[file.directory][path.rpartition("/")[2]]
        self._listings.pop(file.directory, None)
        del self.files[file.file_id]
        return Step("unlink", path)

    def rename(self, file: LiveFile) -> Step:
        path = self.path(file)
        del self._members[file.directory][path.rpartition("/")[2]]
        file.renames += 1
        target = self.path(file)
        self._note(file, target)
        return Step("rename", path, target=target)

    def link(self, file: LiveFile) -> Step:
        """Link a file and unlink the new name."""
        path = self.path(file)
        return Step("link", path, target=f"{path}.link")

    def look(self, operation: str, file: LiveFile) -> Step:
        """Apply an operation that neither changes nor transfers the file's data."""
        return Step(operation, self.path(file), end=file.image.size_bytes)

    def absent(self, directory: int, file_id: int) -> Step:
        """Stat a name that never exists."""
        return Step("negative-stat", f"{self.directories[directory]}/{absent_name(file_id)}")

    def list(self, operation: str, directory: int) -> Step:
        """List or walk one directory."""
        if directory not in self._listings:
            members = sorted(self._members[directory].items())
            self._listings[directory] = (
                tuple(name for name, _ in members),
                tuple(
                    -1 if key is None else self.files[key].image.size_bytes for _, key in members
                ),
            )
        entries, sizes = self._listings[directory]
        path = self.directories[directory]
        return Step(operation, path, entries=entries, sizes=sizes if operation == "walk" else ())

    def read(self, file: LiveFile, record_bytes: int = 0) -> Step:
        image = file.image
        return self._moving("read", self.path(file), image, 0, image.size_bytes, record_bytes)

    def read_part(self, operation: str, file: LiveFile, start: int, end: int) -> Step:
        part = file.image.part(start, end)
        return self._moving(operation, self.path(file), part, start, end, max(1, end - start))

    def rewrite(self, file: LiveFile, record_bytes: int = 0, sync: bool = False) -> Step:
        """Overwrite a whole file."""
        size = file.image.size_bytes
        file.image = file.image.whole(size, self._generation(file.file_id))
        return self._moving("rewrite", self.path(file), file.image, 0, size, record_bytes, sync)

    def write_part(
        self, operation: str, file: LiveFile, start: int, end: int, sync: bool = False
    ) -> Step:
        """Write a part of a file; also used for ``append``."""
        old = file.image
        file.image = old.write(start, end, self._generation(file.file_id))
        if end > old.size_bytes:
            self._listings.pop(file.directory, None)
        path, part = self.path(file), file.image.part(start, end)
        if operation == "read-modify-write":
            before = old.part(start, end)
            length = max(1, end - start)
            return Step(operation, path, "", before, part, start, end, length, sync)
        record_bytes = self.fileset.record_bytes if operation == "append" else end - start
        return self._moving(operation, path, part, start, end, record_bytes, sync)

    def append(self, file: LiveFile, length: int, sync: bool = False) -> Step:
        start = file.image.size_bytes
        return self.write_part("append", file, start, start + length, sync)

    def truncate(self, file: LiveFile) -> Step:
        """Truncate a file to half of its length."""
        file.image = file.image.cut(file.image.size_bytes // 2)
        self._listings.pop(file.directory, None)
        return Step("truncate", self.path(file), end=file.image.size_bytes)

    def random_range(self, file: LiveFile, record_bytes: int, draws: Draws) -> tuple[int, int]:
        """Draw the range of a transfer: at a multiple of its length, within the file."""
        size = file.image.size_bytes
        length = min(record_bytes, size)
        start = draws.below(size // length) * length if length else 0
        return start, start + length

    def next_range(self, file: LiveFile, record_bytes: int) -> tuple[int, int]:
        """Return the range of the file's next sequential transfer, wrapping around at the end."""
        size = file.image.size_bytes
        start = file.cursor if file.cursor < size else 0
        file.cursor = min(start + record_bytes, size)
        return start, file.cursor

    def _moving(
        self,
        operation: str,
        path: str,
        image: Image,
        start: int,
        end: int,
        record_bytes: int = 0,
        sync: bool = False,
    ) -> Step:
        return Step(
            operation,
            path,
            image=image,
            start=start,
            end=end,
            record_bytes=record_bytes or self.fileset.record_bytes,
            sync=sync,
        )

    def _generation(self, file_id: int) -> int:
        self._generations[file_id] = self._generations.get(file_id, 0) + 1
        return self._generations[file_id]

    def _note(self, file: LiveFile, path: str) -> None:
        self._members[file.directory][path.rpartition("/")[2]] = file.file_id
        self._listings.pop(file.directory, None)

    def _note_directory(self, number: int, path: str, present: bool) -> None:
        above = parent(self.fileset, number)
        if above is None:
            return
        name = path.rpartition("/")[2]
        if present:
            self._members[above][name] = None
        else:
            del self._members[above][name]
        self._listings.pop(above, None)
