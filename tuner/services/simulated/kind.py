"""The simulated service as a kind: it accepts the parts of any other kind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from search_spaces import Use
from tuner.documents import meant
from tuner.services.kind import Kind, Needs, Preview, TestbedIdentity, TestbedType, Workers
from tuner.services.lasting import LastingTestbed
from tuner.services.simulated.document import SimulatedSection, world_of
from tuner.services.simulated.keeper import Keeper
from tuner.services.simulated.start import SimulatedStart
from tuner.services.simulated.testbed import FACTS, SimulatedTestbed
from tuner.services.testbed import Testbed


class SimulatedType(TestbedType[SimulatedSection]):
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
        """See TestbedType.name."""
        return section.name

    def summary(self, section: SimulatedSection) -> str:
        """See TestbedType.summary."""
        return "simulated: a service that exists only as arithmetic"

    def describe(self, section: SimulatedSection) -> str:
        """See TestbedType.describe."""
        return "simulated: no host is touched"

    def identity(self, section: SimulatedSection, state_directory: Path) -> TestbedIdentity:
        """See TestbedType.identity."""
        name = section.name or ""
        return TestbedIdentity(name and f"simulated {name}", name, section.identity())

    def testbed(
        self,
        section: SimulatedSection,
        where: str,
        needs: Needs,
        state_directory: Path,
    ) -> Testbed:
        """See TestbedType.testbed."""
        world = world_of(section, needs.spaces, needs.workload.components, f"{where}.{self.key}")
        initial = Keeper.of(section, state_directory).initial(section.found)
        return SimulatedTestbed(needs.spaces, world, initial, needs.references)

    def lasting(
        self,
        section: SimulatedSection,
        where: str,
        needs: Needs,
        state_directory: Path,
        *,
        putting_back: bool = False,
    ) -> LastingTestbed:
        """See TestbedType.lasting."""
        world = world_of(section, needs.spaces, needs.workload.components, f"{where}.{self.key}")
        keeper = Keeper.of(section, state_directory)
        initial = keeper.initial(section.found)
        return SimulatedTestbed(needs.spaces, world, initial, needs.references, keeper=keeper)

    def mistakes(self, section: SimulatedSection, where: str, needs: Needs) -> Sequence[str]:
        """See TestbedType.mistakes: names must exist, and spaces allow simulation."""
        references = [reference.name for reference in needs.references]
        spaces = needs.spaces.items()
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
        """See TestbedType.preview."""
        return Preview(Keeper.of(section, state_directory).initial(section.found), FACTS)


SIMULATED = Kind("simulated", None, frozenset(), (SimulatedType(),), starts=(SimulatedStart(),))
