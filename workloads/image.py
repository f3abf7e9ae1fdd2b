"""What a file must hold, as extents: which bytes were written last by which generation.

Every write of a file has a generation of its own, so old data where new was written is noticed.
An image says what is where; ``content`` turns it into bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Extent:
    """Bytes ``start`` to ``end`` as generation ``generation`` left them.

    ``labelled_bytes`` is the file size named in the header that the generation wrote at the
    beginning of the file, 0 where it wrote no header.
    """

    start: int
    end: int
    generation: int
    labelled_bytes: int = 0


@dataclass(frozen=True)
class Image:
    """One file's contents; ``repeated_percent`` of them is compressible filling."""

    file_id: int = 0
    extents: tuple[Extent, ...] = ()
    repeated_percent: int = 0

    @property
    def size_bytes(self) -> int:
        """The file's length."""
        return self.extents[-1].end if self.extents else 0

    @property
    def generation(self) -> int:
        """The latest generation in it; 0 for an empty file."""
        return max((extent.generation for extent in self.extents), default=0)

    def whole(self, size_bytes: int, generation: int) -> Image:
        """Return the image after the whole file was written, header first."""
        extent = Extent(0, size_bytes, generation, size_bytes)
        return replace(self, extents=(extent,) if size_bytes else ())

    def write(self, start: int, end: int, generation: int) -> Image:
        """Return the image after ``start``..``end`` was written; it may not leave a gap."""
        if start > self.size_bytes:
            raise ValueError(f"a gap from {self.size_bytes} to {start}")
        if start == end:
            return self
        new = Extent(start, end, generation)
        before, after = self.between(0, start), self.between(end, self.size_bytes)
        return replace(self, extents=(*before, new, *after))

    def cut(self, size_bytes: int) -> Image:
        """Return the image after the file was truncated to at most its length."""
        return replace(self, extents=self.between(0, size_bytes))

    def between(self, start: int, end: int) -> tuple[Extent, ...]:
        """Return the extents, cut to ``start``..``end``."""
        if start >= end or not self.extents:
            return ()
        first, last = self._holding(start), self._holding(end - 1)
        extents = list(self.extents[first : last + 1])
        if extents and extents[0].start < start:
            extents[0] = replace(extents[0], start=start)
        if extents and extents[-1].end > end:
            extents[-1] = replace(extents[-1], end=end)
        return tuple(extents)

    def part(self, start: int, end: int) -> Image:
        """Return an image that knows ``start``..``end`` alone."""
        return replace(self, extents=self.between(start, end))

    def _holding(self, at: int) -> int:
        """Return the index of the extent that holds byte ``at``, or that of the end."""
        low, high = 0, len(self.extents)
        while low < high:
            middle = (low + high) // 2
            if self.extents[middle].end <= at:
                low = middle + 1
            else:
                high = middle
        return low


EMPTY = Image()
"""No file's image, or that of an empty one."""
