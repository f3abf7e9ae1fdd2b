"""Guided setup without a server: a simulated campaign, to see how fstune works."""

from __future__ import annotations

from pathlib import Path

from tuner.services.start import Choice, Draft, Interview, Start


class SimulatedStart(Start):
    """A simulated service on which one setting makes a difference."""

    name = "simulated"
    title = "no server: a service that exists only as arithmetic, to see how fstune works"

    def begin(self, interview: Interview, beside: Path, state_directory: Path) -> Draft:
        """See Start.begin."""
        effect = "{parameter: cache_manager.chunksize, low: 19, change: -0.12}"
        return Draft(
            name="simulated",
            section=f"{{simulated: {{noise: 0.02, block_noise: 0.2, effects: [{effect}]}}}}",
            description="no host is touched; chunks of 2^19 bytes or more take 12% less time here",
            spaces={"cache_manager": {"name": "openafs-cache-manager-fuse-1.8"}},
            wall_time="30m",
            choices=(
                Choice(
                    "service",
                    "simulated",
                    "the right answer is known, so you can see whether it is found",
                ),
            ),
        )
