"""What people read: live progress, the answer of a campaign, lists. Formatting only."""
