"""What the measures against noise bring in real campaigns, and whether robust times would help."""
