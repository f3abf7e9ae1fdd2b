"""Whether what a campaign recommends can be applied to its testbed."""

from __future__ import annotations

from tuner.errors import SpecError
from tuner.model import Answer, Campaign
from tuner.spec.campaign import CampaignSpec


def can_be_applied(campaign: Campaign) -> bool:
    """Whether a campaign has a recommendation for a testbed that is still there, so that `fstune
    apply` is worth suggesting.
    """
    answer = campaign.recommendation
    if answer is None or answer.answer is not Answer.RECOMMENDED or answer.verification:
        return False
    try:
        sections = CampaignSpec.from_json(campaign.spec).sections
    except SpecError:  # of a campaign on a server, only some is known
        return False
    return len(sections) == 1 and sections[0].type.stays
