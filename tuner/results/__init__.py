"""What a stored campaign has found so far, as records to display."""
