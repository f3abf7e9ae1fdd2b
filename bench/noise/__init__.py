"""The effect of noise reduction in real campaigns, and whether robust times would help."""
