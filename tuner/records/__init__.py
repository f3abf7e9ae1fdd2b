"""What a campaign shows of itself while it runs and after it, as records: no drawing, no styles."""
