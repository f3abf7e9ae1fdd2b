"""The simulated service as a kind: it accepts the parts of any other kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search_spaces import Use
from tuner.documents import meant
from tuner.services.kind import Kind, Place, Preview, Way, Wish, Workers
from tuner.services.lasting import LastingTestbed
from tuner.services.simulated.document import SimulatedSection, world_of
from tuner.services.simulated.keeper import Keeper
from tuner.services.simulated.start import SimulatedStart
from tuner.services.simulated.testbed import FACTS, SimulatedTestbed
from tuner.services.testbed import Testbed


class SimulatedWay(Way[SimulatedSection]):
    """``simulated: {}``: no host is touched."""

    key = "simulated"
    section = SimulatedSection
    example = "simulated: {}"
    workers = Workers.ANY
    title = "no server"
    threat = (
        "Nothing real was measured: the testbed is simulated, so the answer is about its "
        "arithmetic and not about any fileserver."
    )
    real = False

    def name(self, section: SimulatedSection) -> str | None:
        """See Way.name."""
        return section.name

    def summary(self, section: SimulatedSection) -> str:
        """See Way.summary."""
        return "simulated: a service that exists only as arithmetic"

    def describe(self, section: SimulatedSection) -> str:
        """See Way.describe."""
        return "simulated: no host is touched"

    def place(self, section: SimulatedSection, state_directory: Path) -> Place:
        """See Way.place."""
        name = section.name or ""
        return Place(name and f"simulated {name}", name, section.model_dump(mode="json"))

    def testbed(
        self,
        section: SimulatedSection,
        where: str,
        wish: Wish,
        state_directory: Path,
        *,
        owned: bool,
    ) -> Testbed:
        """See Way.testbed."""
        world = world_of(section, wish.spaces, wish.workload.components, f"{where}.{self.key}")
        initial = Keeper.of(section, state_directory).initial(section.found)
        return SimulatedTestbed(wish.spaces, world, initial, wish.references)

    def lasting(
        self,
        section: SimulatedSection,
        where: str,
        wish: Wish,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """See Way.lasting."""
        world = world_of(section, wish.spaces, wish.workload.components, f"{where}.{self.key}")
        keeper = Keeper.of(section, state_directory)
        initial = keeper.initial(section.found)
        return SimulatedTestbed(wish.spaces, world, initial, wish.references, keeper=keeper)

    def mistakes(self, section: SimulatedSection, where: str, wish: Wish) -> Sequence[str]:
        """See Way.mistakes: parameters and references must exist, and spaces allow simulation."""
        references = [reference.name for reference in wish.references]
        spaces = wish.spaces.items()
        names = [f"{part}.{each.name}" for part, space in spaces for each in space.parameters]
        return [
            *(
                f"spaces.{part}: {space.name} is for real hosts; a simulated testbed has none"
                for part, space in spaces
                if Use.SIMULATION not in space.uses
            ),
            *(
                f"{where}.{self.key}.references: no reference {name!r}{meant(name, references)}"
                for name in section.references
                if name not in references
            ),
            *(
                f"{where}.{self.key}.{key}: no parameter {name!r} in the campaign's search spaces"
                f"{meant(name, names)}"
                for key, name in section.parameters()
                if name not in names
            ),
        ]

    def preview(self, section: SimulatedSection, state_directory: Path) -> Preview:
        """See Way.preview."""
        return Preview(Keeper.of(section, state_directory).initial(section.found), FACTS)


SIMULATED = Kind("simulated", None, frozenset(), (SimulatedWay(),), starts=(SimulatedStart(),))
