"""The expected contents of a file as extents: which generation last wrote which bytes.

Every write to a file has its own generation, so stale data is detected. An image only describes
the contents; ``content`` turns it into bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Extent:
    """Bytes ``start`` to ``end`` as written by generation ``generation``.

    ``labelled_bytes`` is the file size given in the header that the generation wrote at the
    beginning of the file, 0 if it wrote no header.
    """

    start: int
    end: int
    generation: int
    labelled_bytes: int = 0


@dataclass(frozen=True)
class Image:
    """One file's contents, of which ``repeated_percent`` is compressible filler."""

    file_id: int = 0
    extents: tuple[Extent, ...] = ()
    repeated_percent: int = 0

    @property
    def size_bytes(self) -> int:
        return self.extents[-1].end if self.extents else 0

    @property
    def generation(self) -> int:
        """The latest generation in it; 0 for an empty file."""
        return max((extent.generation for extent in self.extents), default=0)

    def whole(self, size_bytes: int, generation: int) -> Image:
        """Return the image after writing the whole file, header first."""
        extent = Extent(0, size_bytes, generation, size_bytes)
        return replace(self, extents=(extent,) if size_bytes else ())

    def write(self, start: int, end: int, generation: int) -> Image:
        """Return the image after writing ``start``..``end``; ValueError if that leaves a gap."""
        if start > self.size_bytes:
            raise ValueError(f"a gap from {self.size_bytes} to {start}")
        if start == end:
            return self
        new = Extent(start, end, generation)
        before, after = self.between(0, start), self.between(end, self.size_bytes)
        return replace(self, extents=(*before, new, *after))

    def cut(self, size_bytes: int) -> Image:
        """Return the image after truncating the file to at most its length."""
        return replace(self, extents=self.between(0, size_bytes))

    def between(self, start: int, end: int) -> tuple[Extent, ...]:
        """Return the extents, clipped to ``start``..``end``."""
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
        """Return an image restricted to ``start``..``end``."""
        return replace(self, extents=self.between(start, end))

    def _holding(self, at: int) -> int:
        """Return the index of the extent containing byte ``at``, or the number of extents."""
        low, high = 0, len(self.extents)
        while low < high:
            middle = (low + high) // 2
            if self.extents[middle].end <= at:
                low = middle + 1
            else:
                high = middle
        return low


EMPTY = Image()
"""The image of an empty file, or of none."""
