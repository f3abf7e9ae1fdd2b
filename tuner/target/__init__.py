"""What is tuned: parts of a file service whose settings can be changed, verified and put back."""
